"""A pipeline as typed data: the seed's keys. Plugins validate their own config; this is everything around them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from gauss.contracts.network import Network
from gauss.contracts.plugin import Bytes, Millis
from gauss.model.units import moment


def _matches(pattern: str, expected: str) -> AfterValidator:
    """A text of a certain shape; pydantic's own message would show the bare pattern."""

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
"""Unix ms, or text that counts from now."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)


class FormatDef(Section):
    """`[[formats]]`: a format plugin under a name of one's own."""

    name: Name
    """How `input`, `output` and `storage_config` call it."""
    plugin: str
    """A format plugin, or `package.module:NAME`."""
    config: dict[str, Any] = {}
    """The plugin's own settings, see [formats](formats.md)."""


class SchemaMapDef(Section):
    """`[[schema_maps]]`: a script that turns a format's schema into a table's."""

    name: Name
    """How `storage_config.schema_map` calls it."""
    script: Path
    """The Starlark file that holds `map_schema(source, target)`."""


class TopicDef(Section):
    """`[[topics]]`: a name and a storage. `storage_config` is the storage's own affair."""

    name: Name
    """How `source` and `target` call it."""
    storage: str
    """A storage plugin, or `package.module:NAME`."""
    storage_config: dict[str, Any] = {}
    """The storage's own settings, see [storages](storages.md)."""


class SourceRef(Section):
    """Where a processor reads, and how."""

    topic: str
    """The topic to read."""
    read: str
    """`offset` (every record), `latest` (the newest), `query`, `snapshot` or `subscribe`, as the storage allows."""
    start: str | int | None = None
    """`earliest` (default), `end`, or an offset: where a reader without a position begins."""
    from_: Annotated[Moment | None, Field(alias="from")] = None
    """With `query`: the oldest `ts_ms` that is read, as ISO time, unix ms or before now (`"-1h"`); left out: all."""
    to: Moment | None = None
    """With `query`: reading ends before this `ts_ms`, given as `from` is; left out: the time at which it begins."""
    every: Annotated[Millis, Field(gt=0)] | None = None
    """With `query` or `snapshot`: repeats it at this interval; each query begins where the one before ended."""
    subscribe: Literal["snapshots", "changes"] | None = None
    """With `subscribe`: `snapshots` (default) gives the newest whole table whenever it has changed, `changes` gives the
    table once and then every change, to sinks only."""


class TargetRef(Section):
    """Where a processor writes."""

    topic: str
    """The topic to write."""


class ProcessorDef(Section):
    """`[[processors]]`: a source (target only), a sink (source only) or a transform (both)."""

    name: Name
    """How commands, metrics and dead letters call it; also the name of its reader."""
    plugin: str
    """A processor plugin, `package.module:NAME`, or `module:function` of a file beside this one, see
    [own processors](../own-processors.md)."""
    source: SourceRef | None = None
    """Where it reads; left out at a source."""
    target: TargetRef | None = None
    """Where it writes; left out at a sink."""
    config: dict[str, Any] = {}
    """The plugin's own settings, see [processors](processors.md)."""
    on_restart: Literal["continue", "fail"] = "continue"
    """What to do when a memory topic that it reads lost records because the engine died."""
    parallelism: Annotated[int, Field(gt=0, le=1_024)] | None = None
    """How many standing tasks work for it; left out: one, and up to as many as there are cores while it lags. Of no
    meaning for what Spark runs as a streaming query."""
    max_dead_ratio: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Above this share of dead letters over 10 s the processor stops instead of filling the disk."""
    max_dead_bytes: Bytes = 256 << 20
    """The most bytes of dead letters that are kept of this processor. At the limit a transform stops, and a connection
    of a source waits with what it can't frame, until `gauss dlq replay` or `gauss dlq discard` makes room."""


CLUSTER_SECRET = "spark.authenticate.secret"
"""In `spark.conf`: the cluster's own; without it Spark's master takes no driver that authenticates."""


class SparkSection(Section):
    """`[spark]`: where transforms run."""

    master: Master = "local[*]"
    """`local[*]`, or `spark://host:port` of a standalone cluster."""
    conf: dict[str, str] = {}
    """Passed on to Spark."""
    target_batch_ms: Annotated[int, Field(gt=0)] = 200
    """Batches grow and shrink towards this duration."""
    max_batch_rows: Annotated[int, Field(gt=0)] = 1_000_000
    """The most records in one batch."""
    max_batch_bytes: Bytes = 64 << 20
    """The most bytes of records in one batch."""
    stall_after: Annotated[Millis, Field(ge=1_000)] = 60_000
    """A query for which records wait and that has published nothing for so long is stuck: the driver is restarted."""
    driver_memory: Memory = "1g"
    """Heap of the JVM."""


class EngineSection(Section):
    """`[engine]`: the process that owns sockets and topics."""

    host: str = "127.0.0.1"
    """Where Spark's executors reach the topics; another address than loopback for a cluster."""
    port: Port = 0
    """0 takes a free one."""
    min_free_bytes: Bytes = 256 << 20
    """Below this much free disk, sources stop reading."""
    staged_bytes: Bytes = 256 << 20
    """Staged records beyond this go to disk."""
    hang_after: Annotated[Millis, Field(ge=1_000)] = 30_000
    """An engine that has not answered for so long is restarted; a slow disk or a full topic does not keep it from
    answering."""
    allow: tuple[Network, ...] = ()
    """Addresses and networks that may connect; required beyond loopback."""
    token_file: Path | None = None
    """Where executors on other machines find the token; default: in the data directory."""


class ApiTls(Section):
    """The certificate of the API; relative paths start at the config file."""

    cert: Path
    """Certificate chain (PEM)."""
    key: Path
    """Its private key (PEM)."""


class ApiSection(Section):
    """`[api]`: the HTTP API of the control process."""

    host: str = "127.0.0.1"
    """Address of the API and the metrics; another than loopback needs `tls` or `allow`."""
    port: Port = 0
    """0 takes a free one; `engine.json` in the data directory tells which."""
    tls: ApiTls | None = None
    """HTTPS: `{ cert = "cert.pem", key = "key.pem" }`."""
    allow: tuple[Network, ...] = ()
    """Addresses and networks that may connect; left out: everybody who reaches the address."""


class Pipeline(Section):
    """A whole config file."""

    formats: list[FormatDef] = []
    schema_maps: list[SchemaMapDef] = []
    topics: list[TopicDef] = []
    processors: list[ProcessorDef] = []
    spark: SparkSection = SparkSection()
    engine: EngineSection = EngineSection()
    api: ApiSection = ApiSection()

    def topic(self, name: str) -> TopicDef:
        return next(topic for topic in self.topics if topic.name == name)

    def format(self, name: str) -> FormatDef | None:
        return next((entry for entry in self.formats if entry.name == name), None)
