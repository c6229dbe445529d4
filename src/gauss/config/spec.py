"""A pipeline as typed data: the seed's keys. Plugins validate their own config; this is everything around them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from gauss.contracts.plugin import Bytes

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FormatDef(Section):
    """`[[formats]]`: a format plugin under a name of one's own."""

    name: Name
    plugin: str
    config: dict[str, Any] = {}


class SchemaMapDef(Section):
    """`[[schema_maps]]`: a script that turns a format's schema into a table's."""

    name: Name
    script: Path


class TopicDef(Section):
    """`[[topics]]`: a name and a storage. `storage_config` is the storage's own affair."""

    name: Name
    storage: str
    storage_config: dict[str, Any] = {}


class SourceRef(Section):
    """Where a processor reads, and how."""

    topic: str
    read: str
    start: str | int | None = None
    """`earliest` (default), `end`, or an offset: where a reader without a position begins."""


class TargetRef(Section):
    """Where a processor writes."""

    topic: str


class ProcessorDef(Section):
    """`[[processors]]`: a source (target only), a sink (source only) or a transform (both)."""

    name: Name
    plugin: str
    source: SourceRef | None = None
    target: TargetRef | None = None
    config: dict[str, Any] = {}
    on_restart: Annotated[str, Field(pattern="^(continue|fail)$")] = "continue"
    """What to do when a memory topic that it reads lost records because the engine died."""
    max_dead_ratio: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Above this share of dead letters over 10 s the processor stops instead of filling the disk."""


class SparkSection(Section):
    """`[spark]`: where transforms run."""

    master: str = "local[*]"
    """`local[*]`, or `spark://host:port` of a standalone cluster."""
    conf: dict[str, str] = {}
    """Passed on to Spark."""
    target_batch_ms: Annotated[int, Field(gt=0)] = 200
    """Batches grow and shrink towards this duration."""
    max_batch_rows: Annotated[int, Field(gt=0)] = 500_000
    max_batch_bytes: Bytes = 64 << 20
    driver_memory: str = "1g"


class EngineSection(Section):
    """`[engine]`: the process that owns sockets and topics."""

    host: str = "127.0.0.1"
    """Where Spark's executors reach the topics; another address than loopback for a cluster."""
    port: int = 0
    min_free_bytes: Bytes = 256 << 20
    """Below this much free disk, sources stop reading."""
    staged_bytes: Bytes = 256 << 20
    """Staged records beyond this go to disk."""
    token_file: Path | None = None
    """Where executors on other machines find the token; default: in the data directory."""


class ApiSection(Section):
    """`[api]`: the HTTP API of the control process."""

    host: str = "127.0.0.1"
    port: int = 0


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
