"""Processor: everything active. Where it runs, what it keeps and what it changes are data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from gauss.contracts.plugin import PluginConfig, PluginSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from gauss.contracts.format import SourceField, SourceSchema


class Role(StrEnum):
    SOURCE = "source"
    TRANSFORM = "transform"
    SINK = "sink"


class Where(StrEnum):
    ENGINE = "engine"
    SPARK = "spark"
    EITHER = "either"  # the engine when it owns both topics, else Spark


@dataclass(frozen=True, kw_only=True)
class ProcessorSpec(PluginSpec):
    """A source or sink: `implementation(context)` gives an `Edge`. A transform: `implementation(config)` gives
    a `Transform` (on Spark) or an `EngineTransform`."""

    KIND: ClassVar[str] = "processor"

    role: Role
    where: Where
    active: bool
    """Changes the number of records."""
    passive_when: tuple[str, Callable[[PluginConfig], bool]] | None = None
    """Of an active processor: the configs with which it gives one record for each, in words and as a test."""
    stateful: bool | None = False
    """None: only Spark's plan of it tells, once it is started."""
    state_layout: int = 1
    """Raised when what Spark keeps for it is laid out anew, so that an older checkpoint no longer fits."""
    keeps_order: bool = True
    hosted: bool = False
    """Its transform is an `ArrowTransform`: a task reads, transforms and stages, and no record passes the JVM."""
    passes_bytes: bool = False
    """Of a hosted transform: `_data`, where it gives any, is that of its records, in their order and each once."""
    engine_implementation: str = ""
    """The `EngineTransform` of a transform that runs on EITHER side; `implementation` is then the one on Spark."""
    reads: frozenset[str] = frozenset({"offset"})
    """Read modes it can use, as values of ReadMode."""
    framed: str = ""
    """`input` or `output`: which side is a byte stream and so must name a framing."""
    raw_implementation: str = ""
    """What takes the place of `implementation` when the config says `mode = "passthrough"`: called with a
    `RawContext`, it moves bytes as they are, so that no framing is named; a source may then do without a target."""
    same_bytes: bool = False
    """Records are written as they were read, so that the target holds what the source holds."""
    conversion: str = ""
    """Of a sink: what converts records where its `output.format` is not the topic's, called with the two formats."""
    own_side: str = ""
    """`source` or `target`: the side whose topics its own config names, so that it has no key of that name."""
    topics: Callable[[PluginConfig], list[tuple[tuple[str | int, ...], str]]] | None = None
    """Those topics, each with its place in the config. Sources are read by `offset`."""
    beside: Callable[[PluginConfig], list[tuple[tuple[str | int, ...], str]]] | None = None
    """Topics that it reads by `offset` beside its `source`, each with its place in the config."""
    tables: Callable[[PluginConfig], list[tuple[tuple[str | int, ...], str]]] | None = None
    """Tables in which it looks rows up, each with its place in the config. The version of each is part of a batch's
    offsets, and the transform is a `TableTransform`."""
    state: Callable[[PluginConfig], str | None] | None = None
    """The topic in which it keeps its state too, if its config names one; its transform is then a `KeptTransform`."""
    codecs: Callable[[PluginConfig], dict[str, tuple[str, dict[str, Any]]]] | None = None
    """Formats of its own where its config names none: `input` or `output` → a format plugin and its config."""
    example: str = ""
    """Its `[[processors]]` entry as TOML, for the reference; the tests check it."""
    lint: Callable[[PluginConfig, LintContext], list[str]] | None = None
    """Faults that only this processor can see, as sentences; run by the check."""

    def is_active(self, config: PluginConfig) -> bool:
        """Whether with this config it changes the number of records."""
        return self.active and not (self.passive_when is not None and self.passive_when[1](config))

    def is_raw(self, config: Mapping[str, Any]) -> bool:
        """Whether with this config, as it was written, it moves bytes as they are."""
        return bool(self.raw_implementation) and config.get("mode") == "passthrough"


@dataclass(frozen=True)
class LintContext:
    """What a processor's own lint may look at."""

    input_fields: tuple[str, ...] | None
    """Fields of the input format, None when it has no schema."""
    read: str = ""
    """The read mode its source asks for."""
    start: str | int | None = None
    """`source.start`, if it is set."""
    target_storage: str = ""
    """The storage of the topic it writes."""
    target_config: Mapping[str, Any] = field(default_factory=dict)
    """That storage's config, as it was written."""
    has_target: bool = False
    """Whether it names a target, which need not be a topic that there is."""


TOPIC = "_topic"
"""The column of a result that says to which of several targets a row goes."""
REST = "_rest"
"""The column of a result that holds the records' own bytes, into which the other columns are put."""


class Transform(Protocol):
    """A processor on Spark: columns in, columns out. With `carries` it gives `_rest`, which only a format that has
    `merge_batch` can take. One whose result has the same columns whatever it reads also has `columns() -> list[str]`,
    by which `gauss check` compares them with the output format."""

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:
        """The fields of the input that must be decoded, given its schema and the output's, if they have one; []:
        bytes only. Without a schema a field's type may be `auto`: a first sample of records decides."""
        ...

    def apply(self, records: DataFrame) -> DataFrame:
        """`records` has the decoded fields beside `ts_ms` and the hidden `_data`, `_ts_ms`. The result holds
        either `_data` (bytes passed on unchanged) or the columns to encode; it may keep `_ts_ms`. With `_rest` the
        columns replace or add fields of those records, which otherwise stay as they came."""
        ...


class ArrowTransform(Transform, Protocol):
    """A transform of single records that has a second form, with the same answers, on Arrow columns."""

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """As `apply`; a field inside an object is a column under its path, `$.order.id`."""
        ...


class LookUp(Protocol):
    """The rows of a table at one version."""

    def find(self, keys: pa.Array) -> tuple[pa.Array, pa.RecordBatch]:
        """Whether each key, a text, has a row, and that row's fields; null where it has none, as for a null."""
        ...

    def table(self, key: str) -> pa.Table:
        """Every row: its key under the given name, then its fields."""
        ...


class TableTransform(ArrowTransform, Protocol):
    """A transform that also looks rows up in a table."""

    table_fields: list[SourceField] | None
    """Once it is bound: the fields of the table's rows that must be decoded; None: all that they have, each value as
    its JSON text."""

    def bind_table(self, schema: SourceSchema | None, key: str) -> None:
        """Called before `bind`, with the schema of the table's format, if it has one, and its key."""
        ...

    def look_up_in(self, table: LookUp) -> None:
        """What `apply` and `arrow` find from now on."""
        ...
