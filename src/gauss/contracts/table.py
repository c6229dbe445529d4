"""Contract of external tables. The topic is an inbox, from which a task inserts records into the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, cast

from pydantic import Field

from gauss.contracts.plugin import Bytes, Millis, PluginConfig
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, TopicKind, WriteFull

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from gauss.contracts.evolution import Difference
    from gauss.contracts.format import FieldType, SourceSchema
    from gauss.contracts.target import TargetField, TargetSchema

TABLE_READ_MODES = frozenset({ReadMode.QUERY, ReadMode.SNAPSHOT})

Evolve = Literal["evolve", "freeze", "reject_row", "drop_value"]


class TableConfig(PluginConfig):
    """Config of a table topic. Its inbox is a file log in the data directory; a task decodes, maps and inserts."""

    format: str | None = None
    """Format of the records. Default: none; the table has the columns `(ts_ms, payload)`."""
    schema_map: str | None = None
    """Name of a `[[schema_maps]]` entry that defines the columns. Default: one column per field of the format."""
    table_schema: dict[str, Any] = Field(default={}, alias="schema")
    """Attributes of the table: `table` (default: the topic's name) and those of its system, such as `engine` and
    `order_by`."""
    insert_batch_size: Annotated[int, Field(gt=0)] = 50_000
    """Number of waiting records at which they are inserted."""
    flush_interval: Annotated[Millis, Field(gt=0, le=30_000)] = 1_000
    """Longest time that a record waits before it is inserted."""
    storage_size: Annotated[int, Field(gt=0)] | Literal["unlimited"] = "unlimited"
    """Maximum number of records in the inbox."""
    storage_bytes: Annotated[Bytes, Field(ge=4096)] = 1 << 30
    """Maximum number of bytes in the inbox."""
    write_full: WriteFull = WriteFull.BLOCK
    """If the inbox is full: `block` waits, `drop` refuses new records, `overwrite` removes the oldest."""
    exactly_once: bool = True
    """Exactly-once delivery, by the additional columns `_inc` and `_offset`. `false`: at least once, without them."""
    evolve: Evolve = "evolve"
    """If the table lacks columns of the schema: `evolve` adds them, `freeze` refuses to run, `reject_row` turns records
    with a value there into dead letters, `drop_value` drops such values. Any other difference is refused with the
    statement that resolves it."""

    def capacity(self) -> Capacity:
        records = self.storage_size if isinstance(self.storage_size, int) else None
        return Capacity(records=records, bytes=self.storage_bytes, write_full=self.write_full)


def inbox_capacity(config: PluginConfig) -> Capacity:
    """Capacity of a table topic's inbox."""
    return cast(TableConfig, config).capacity()


@dataclass(frozen=True, kw_only=True)
class TableSpec(StorageSpec):
    """Spec of a table storage. `implementation(config, context)` returns the inbox, a `Log`."""

    system: str
    """The embedded server to use if the config names none."""
    writer: str
    """`package.module:Class`, called with the config and a `TablePlace`. Returns a `TableStore`."""
    reader: str
    """`package.module:Class`, called with the config, a `TablePlace`, the source's schema and the table's. Returns a
    `TableReader` of `contracts.table_read`."""
    server: Callable[[PluginConfig], tuple[str, int] | None]
    """Host and port of the server in the config (no host: unknown). `None`: the embedded one."""
    repeats: Callable[[PluginConfig], str]
    """Why a row may be duplicated. Empty if it cannot."""
    losses: Callable[[PluginConfig], str] = lambda _: ""
    """How a row may be lost. Empty if it cannot."""

    def kind(self, config: PluginConfig) -> TopicKind:  # noqa: ARG002 - whatever its config says
        return TopicKind.STORED_TABLE


@dataclass(frozen=True)
class TablePlace:
    """Arguments of a table when it is opened."""

    topic: str
    directory: Path
    """Folder of the embedded server."""
    answer_seconds: int = 300
    """How long an answer of the server may take."""


@dataclass(frozen=True)
class Converter:
    """Converts a column. `run(array, wanted)` raises ArrowInvalid if any value does not fit; `name` is for display."""

    name: str
    run: Callable[[pa.Array, pa.DataType], pa.Array]


@dataclass(frozen=True)
class TableKind:
    """Type conversions of a kind of table."""

    arrow: Callable[[FieldType, pa.DataType], pa.DataType]
    """The Arrow type in which a column is sent, given the Arrow type of the source."""
    accepts_null: Callable[[TargetField], bool]
    special: Mapping[tuple[str, str], Converter] = field(default_factory=dict)
    """Converters for (source type, target type) where the generic one is slower or wrong."""


class RowGroup(NamedTuple):
    """Rows that are inserted together, and the offset of each, ascending."""

    offsets: np.ndarray
    rows: pa.Table
    part: str = ""
    """Distinguishes the groups of a block: the columns that are left to the table's defaults."""


def _no_guard() -> None:
    """Writers that no deadline binds."""


@dataclass(frozen=True)
class RowBlock:
    """The rows of the records [start, stop) of one incarnation, inserted once under one name."""

    processor: str
    generation: int
    epoch: int
    inc: int
    """Negative for replayed dead letters, whose offsets are those of the retry topic."""
    start: int
    stop: int
    groups: tuple[RowGroup, ...] = ()
    """Empty until the records are read."""
    settled: int = 0
    """All rows below are committed in the engine."""
    unclear: bool = False
    """Some rows may already be in the table."""
    rewound: bool = False
    """The reader was moved back over these records, so only the table shows which rows it has. Implies `unclear`."""
    guard: Callable[[], None] = _no_guard
    """Called before anything is sent. Raises if this writer may insert no more."""

    def offsets(self) -> list[int]:
        """Offsets of the records with rows in the block."""
        return sorted({int(offset) for group in self.groups for offset in group.offsets})

    def between(self, start: int, stop: int) -> RowBlock:
        """The part of the block in [start, stop)."""
        groups = []
        for offsets, rows, part in self.groups:
            low, high = int(offsets.searchsorted(start)), int(offsets.searchsorted(stop))
            if low < high:
                groups.append(RowGroup(offsets[low:high], rows.slice(low, high - low), part))
        return replace(self, start=start, stop=stop, groups=tuple(groups))

    def halves(self) -> tuple[RowBlock, RowBlock]:
        """Splits the block at the middle of its range."""
        middle = (self.start + self.stop) // 2
        return self.between(self.start, middle), self.between(middle, self.stop)

    def without(self, refused: Sequence[int]) -> RowBlock:
        """The same range without the rows of the given records."""
        import numpy as np
        import pyarrow as pa

        groups = []
        for offsets, rows, part in self.groups:
            keep = ~np.isin(offsets, refused)
            if keep.any():
                groups.append(RowGroup(offsets[keep], rows.filter(pa.array(keep)), part))
        return replace(self, groups=tuple(groups))


class Emptying(NamedTuple):
    """Rows that a rebuild removes, and the writer that removes them."""

    processor: str
    generation: int
    below: dict[int, int]
    """Incarnation → offset below which its rows are removed. Negative for replayed dead letters, as in `RowBlock`."""


Mapped = Callable[["TargetSchema"], "TargetSchema"]
"""A schema map bound to its source. Fills in the columns of a target."""


class TableStore(Protocol):
    """Writes and inspects one table. Used by one thread. Connects on demand."""

    kind: TableKind

    @property
    def ordered(self) -> bool:
        """Whether later rows replace earlier ones, so that blocks must be inserted in order."""
        ...

    def target(
        self, source: SourceSchema | None, mapped: Callable[[TargetSchema], TargetSchema] | None
    ) -> TargetSchema:
        """The target schema, from a schema map or by default. Without a source: a table of `(ts_ms, payload)`."""
        ...

    def column(self, field: TargetField) -> str:
        """The DDL of a column."""
        ...

    def statement(self, target: TargetSchema) -> str:
        """The CREATE TABLE statement."""
        ...

    def differences(self, target: TargetSchema) -> list[Difference] | None:
        """Differences between the live table and the target. `None` if there is no table."""
        ...

    def prepare(self, target: TargetSchema) -> list[str]:
        """Creates the table, or changes it as `evolve` allows. Returns the wanted columns that it still lacks."""
        ...

    def open(self, target: TargetSchema, lacking: Sequence[str]) -> None:
        """Called before the first insert."""
        ...

    def check(self, group: RowGroup) -> None:
        """Checks that all values can be sent, without sending them. Raises RowError."""
        ...

    def insert(self, block: RowBlock, settle_s: float) -> None:
        """Inserts the rows that the table does not have yet. Raises RowError if a row is refused (nothing is inserted),
        Unavailable to retry, Unclear to retry with `unclear` set."""
        ...

    def present(self, inc: int, start: int, stop: int) -> list[int]:
        """The offsets of an incarnation in [start, stop) that have rows; none if rows have no origin."""
        ...

    def others(self, target: TargetSchema, incs: Sequence[int]) -> int | None:
        """Number of rows of other incarnations, which were not written by this topic. `None` if rows have no origin."""
        ...

    def empty(self, target: TargetSchema, rows: Emptying, settle_s: float) -> None:
        """Removes rows, including those that an earlier writer still inserts."""
        ...

    def close(self) -> None:
        """Closes the connection. The next call reconnects."""
        ...
