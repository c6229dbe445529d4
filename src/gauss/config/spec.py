"""The typed model of a pipeline file. Plugins validate their own `config`; everything around it is here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gauss import registry
from gauss.config.databases import DatabaseDef
from gauss.config.section import Name, Section
from gauss.config.syncs import SyncDef
from gauss.contracts.network import Network
from gauss.contracts.plugin import Bytes, Millis
from gauss.contracts.storage import StorageSpec, TopicKind
from gauss.model.units import moment


def _matches(pattern: str, expected: str) -> AfterValidator:
    """Text that matches a pattern, with a readable error message instead of the pattern."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"expected {expected}")
        return value

    return AfterValidator(check)


Port = Annotated[int, Field(ge=0, le=65535)]
Master = Annotated[
    str, _matches(r"local(\[.+\]|-cluster\[.+\])?|spark://.+:\d+", '"local[*]", "local[4]" or "spark://host:port"')
]
Memory = Annotated[str, _matches(r"\d+[kmgtKMGT]", 'memory as Spark writes it, such as "512m" or "2g"')]
Moment = Annotated[int | str, BeforeValidator(moment)]
"""Unix ms, or a time relative to now."""


class FormatDef(Section):
    """`[[formats]]`: a named configuration of a format plugin."""

    name: Name
    """The name by which `input`, `output` and `storage_config` refer to it."""
    plugin: str
    """A format plugin, or `package.module:NAME`."""
    config: dict[str, Any] = {}
    """Settings of the plugin, see [formats](formats.md)."""


class SchemaMapDef(Section):
    """`[[schema_maps]]`: a script that maps the schema of a format to the columns of a table."""

    name: Name
    """The name by which `storage_config.schema_map` refers to it."""
    script: Path
    """The Starlark file that defines `map_schema(source, target)`."""


class TopicDef(Section):
    """`[[topics]]`: a named topic and its storage."""

    name: Name
    """The name by which `source` and `target` refer to it."""
    storage: str
    """A storage plugin, or `package.module:NAME`."""
    storage_config: dict[str, Any] = {}
    """Settings of the storage, see [storages](storages.md)."""

    @property
    def kind(self) -> TopicKind:
        """What the topic holds, as its storage says of its config."""
        spec = registry.spec(StorageSpec, self.storage)
        return spec.kind(spec.validate(self.storage_config))


class SourceRef(Section):
    """The topic that a processor reads, and how."""

    topic: str
    """The topic to read."""
    read: str
    """`offset` (every record), `latest` (the newest), `query`, `snapshot` or `subscribe`, as the storage allows."""
    start: str | int | None = None
    """Where a reader without a stored position starts: `earliest` (default), `end`, or an offset."""
    from_: Annotated[Moment | None, Field(alias="from")] = None
    """With `query`: start of the range of `ts_ms`: ISO 8601, Unix ms, or relative to now (`"-1h"`). Default: all."""
    to: Moment | None = None
    """With `query`: end of the time range (exclusive), as `from`. Default: the time at which the query starts."""
    every: Annotated[Millis, Field(gt=0)] | None = None
    """With `query` or `snapshot`: repeat at this interval. Each query starts where the previous one ended."""
    group: str | None = None
    """For a topic in Kafka: the consumer group whose committed offsets show the position to other tools. Default:
    `gauss.<processor>`."""
    subscribe: Literal["snapshots", "changes"] | None = None
    """With `subscribe`: `snapshots` (default) reads the whole table whenever it has changed; `changes` reads the table
    once and then every change (sinks only)."""


class TargetRef(Section):
    """The topic that a processor writes."""

    topic: str
    """The topic to write."""


class ProcessorDef(Section):
    """`[[processors]]`: a source (target only), a sink (source only) or a transform (both)."""

    name: Name
    """Its name in commands, metrics and dead letters; also the name of its reader."""
    plugin: str
    """A processor plugin, `package.module:NAME`, or `module:function` of a file beside this one, see
    [own processors](../own-processors.md)."""
    source: SourceRef | None = None
    """The topic to read. Not for sources."""
    target: TargetRef | None = None
    """The topic to write. Not for sinks."""
    config: dict[str, Any] = {}
    """Settings of the plugin, see [processors](processors.md)."""
    on_restart: Literal["continue", "fail"] = "continue"
    """What to do if a memory topic that it reads lost records because the engine was killed."""
    parallelism: Annotated[int, Field(gt=0, le=1_024)] | None = None
    """Number of standing tasks. Default: one, and up to the number of cores while it lags. Does not apply to streaming
    queries."""
    max_dead_ratio: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The processor stops if the share of dead letters over 10 s exceeds this."""
    max_dead_bytes: Bytes = 256 << 20
    """Maximum bytes of dead letters of this processor. At the limit a transform stops, and a source stops reading
    connections with invalid input, until `gauss dlq replay` or `gauss dlq discard` frees space."""


CLUSTER_SECRET = "spark.authenticate.secret"
"""The key in `spark.conf` of the cluster's secret, without which the master refuses a driver that authenticates."""


class SparkSection(Section):
    """`[spark]`: where transforms run."""

    master: Master = "local[*]"
    """`local[*]`, or `spark://host:port` of a standalone cluster."""
    conf: dict[str, str] = {}
    """Settings passed to Spark."""
    target_batch_ms: Annotated[int, Field(gt=0)] = 200
    """Target duration of a batch; the batch size is adapted to it."""
    max_batch_rows: Annotated[int, Field(gt=0)] = 1_000_000
    """Maximum records in a batch."""
    max_batch_bytes: Bytes = 64 << 20
    """Maximum bytes of records in a batch."""
    stall_after: Annotated[Millis, Field(ge=1_000)] = 60_000
    """If a query with pending records publishes nothing for this time, the driver is restarted."""
    driver_memory: Memory = "1g"
    """Heap size of the JVM."""
    zygote: bool = True
    """With a local master, fork Spark's Python processes from one that has loaded everything, which saves seconds at
    the start; `false` starts each as an ordinary process."""


class EngineSection(Section):
    """`[engine]`: the process that owns sockets and topics."""

    host: str = "127.0.0.1"
    """The address at which Spark's executors reach the topics; not loopback for a cluster."""
    port: Port = 0
    """The port; 0 for any free one."""
    min_free_bytes: Bytes = 256 << 20
    """Sources stop reading if less disk space is free."""
    staged_bytes: Bytes = 256 << 20
    """Staged records beyond this size are written to disk."""
    hang_after: Annotated[Millis, Field(ge=1_000)] = 30_000
    """The engine is restarted if it does not respond for this time. A slow disk or a full topic does not block its
    responses."""
    allow: tuple[Network, ...] = ()
    """Addresses and networks that may connect; required beyond loopback."""
    token_file: Path | None = None
    """The token file for executors on other machines. Default: in the data directory."""


class ApiTls(Section):
    """The certificate of the API; relative paths start at the config file."""

    cert: Path
    """Certificate chain (PEM)."""
    key: Path
    """Its private key (PEM)."""


class ApiSection(Section):
    """`[api]`: the HTTP API of the control process."""

    host: str = "127.0.0.1"
    """Address of the API and of `/metrics`; any address but loopback needs `tls` or `allow`."""
    port: Port = 0
    """The port; 0 for any free one, which `engine.json` in the data directory names."""
    tls: ApiTls | None = None
    """HTTPS: `{ cert = "cert.pem", key = "key.pem" }`."""
    allow: tuple[Network, ...] = ()
    """Addresses and networks that may connect. Default: all."""


class Pipeline(Section):
    """A whole config file."""

    formats: list[FormatDef] = []
    schema_maps: list[SchemaMapDef] = []
    topics: list[TopicDef] = []
    processors: list[ProcessorDef] = []
    syncs: list[SyncDef] = []
    databases: list[DatabaseDef] = []
    spark: SparkSection = SparkSection()
    engine: EngineSection = EngineSection()
    api: ApiSection = ApiSection()

    def topic(self, name: str) -> TopicDef:
        return next(topic for topic in self.topics if topic.name == name)

    def format(self, name: str) -> FormatDef:
        """The `[[formats]]` entry of this name, else the format plugin of this name without settings."""
        plugin = FormatDef.model_construct(name=name, plugin=name)
        return next((entry for entry in self.formats if entry.name == name), plugin)
