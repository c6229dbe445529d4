"""Table: a storage outside the engine. Its topic is an inbox, which a task of its own empties into the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, cast

from pydantic import Field

from gauss.contracts.plugin import Bytes, Millis, PluginConfig
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from gauss.clients.evolution import Difference
    from gauss.contracts.format import SourceSchema
    from gauss.contracts.target import TargetField, TargetSchema
    from gauss.mapping.columns import TableKind

INC_COLUMN, OFFSET_COLUMN = "_inc", "_offset"
"""Where a row came from; Gauss adds them to the mapped columns, so that a row can be looked for."""


TABLE_READ_MODES = frozenset({ReadMode.QUERY, ReadMode.SNAPSHOT})

Evolve = Literal["evolve", "freeze", "reject_row", "drop_value"]


class TableConfig(PluginConfig):
    """The inbox is a file log in the data directory; a task of its own decodes, maps and inserts."""

    format: str | None = None
    """The format of its records; left out: a table of blobs, `(ts_ms, payload)`."""
    schema_map: str | None = None
    """A `[[schema_maps]]` entry that makes the columns; left out: one column per field of the format."""
    table_schema: dict[str, Any] = Field(default={}, alias="schema")
    """The table itself: `table` (default: the topic's name), and what its system knows beside that, such as `engine`
    and `order_by`."""
    insert_batch_size: Annotated[int, Field(gt=0)] = 50_000
    """Records that wait are inserted once there are so many."""
    flush_interval: Annotated[Millis, Field(gt=0, le=30_000)] = 1_000
    """Or once the first of them has waited so long."""
    storage_size: Annotated[int, Field(gt=0)] | Literal["unlimited"] = "unlimited"
    """How many records may wait in the inbox."""
    storage_bytes: Annotated[Bytes, Field(ge=4096)] = 1 << 30
    """How many bytes may wait in the inbox."""
    write_full: WriteFull = WriteFull.BLOCK
    """A full inbox: `block` waits, `drop` refuses new records, `overwrite` removes the oldest."""
    exactly_once: bool = True
    """Rows carry `_inc` and `_offset`, and come once whatever dies; `false`: without these columns, at least once."""
    evolve: Evolve = "evolve"
    """When the schema has columns that the table lacks: `evolve` adds them, `freeze` refuses to run, `reject_row` makes
    dead letters of records that have a value there, `drop_value` leaves such values out. Any other difference is
    refused with the statement that would end it."""

    def capacity(self) -> Capacity:
        records = self.storage_size if isinstance(self.storage_size, int) else None
        return Capacity(records=records, bytes=self.storage_bytes, write_full=self.write_full)


def inbox_capacity(config: PluginConfig) -> Capacity:
    """When the inbox of a table topic is full."""
    return cast(TableConfig, config).capacity()


@dataclass(frozen=True, kw_only=True)
class TableSpec(StorageSpec):
    """`implementation(config, context)` gives the inbox, a `Log`."""

    system: str
    """Whose embedded server it is when the config names none."""
    writer: str
    """`package.module:Class`, called with the config and a `TablePlace`; gives a `TableStore`."""
    reader: str
    """`package.module:Class`, called with the config, a `TablePlace`, the source's schema and the table's; gives a
    `TableReader` of `contracts.table_read`."""
    server: Callable[[PluginConfig], tuple[str, int] | None]
    """Host and port of the server that the config names (no host: it can't be told); None: the embedded one."""
    repeats: Callable[[PluginConfig], str]
    """Why a row may come twice, empty when it can't."""
    losses: Callable[[PluginConfig], str] = lambda _: ""
    """How a row may be missed, empty when it can't."""


@dataclass(frozen=True)
class TablePlace:
    """What a table is told when it is opened."""

    topic: str
    directory: Path
    """Of the embedded server."""


class Group(NamedTuple):
    """Rows that go in together, and the offset each came from, ascending."""

    offsets: np.ndarray
    rows: pa.Table
    part: str = ""
    """Sets it apart from the other groups of its block: the columns that it leaves to the table's defaults."""


@dataclass(frozen=True)
class Block:
    """The rows of the records [start, stop) of one incarnation: what is inserted, once, under one name."""

    processor: str
    generation: int
    epoch: int
    inc: int
    """Below 0: replayed dead letters, whose offsets are those of the retry inlet."""
    start: int
    stop: int
    groups: tuple[Group, ...]
    settled: int = 0
    """All below is committed at the engine."""
    unclear: bool = False
    """Some of it may be in the table already."""
    rewound: bool = False
    """It was read before, and the reader was put back: only the table itself tells what it holds. Also `unclear`."""

    def offsets(self) -> list[int]:
        """The records that have rows in it."""
        return sorted({int(offset) for group in self.groups for offset in group.offsets})

    def between(self, start: int, stop: int) -> Block:
        """The part of it in [start, stop)."""
        groups = []
        for offsets, rows, part in self.groups:
            low, high = int(offsets.searchsorted(start)), int(offsets.searchsorted(stop))
            if low < high:
                groups.append(Group(offsets[low:high], rows.slice(low, high - low), part))
        return replace(self, start=start, stop=stop, groups=tuple(groups))

    def without(self, refused: Sequence[int]) -> Block:
        """The same range without the rows of some records."""
        import numpy as np
        import pyarrow as pa

        groups = []
        for offsets, rows, part in self.groups:
            keep = ~np.isin(offsets, refused)
            if keep.any():
                groups.append(Group(offsets[keep], rows.filter(pa.array(keep)), part))
        return replace(self, groups=tuple(groups))


class Emptying(NamedTuple):
    """The rows that a rebuild removes, and who removes them."""

    processor: str
    generation: int
    below: dict[int, int]
    """Incarnation → its rows below this offset; as in `Block`, those of replayed dead letters are below 0."""


Mapped = Callable[["TargetSchema"], "TargetSchema"]
"""A schema map, bound to its source: fills in a target's columns."""


class TableStore(Protocol):
    """One table, as whoever writes it or looks at it knows it. Used by one thread; connects when it must."""

    kind: TableKind

    @property
    def ordered(self) -> bool:
        """Whether later rows replace earlier ones, so that blocks must go in one after the other."""
        ...

    def target(
        self, source: SourceSchema | None, mapped: Callable[[TargetSchema], TargetSchema] | None
    ) -> TargetSchema:
        """The columns and the table's own words, by a schema map or by default; without a source a table of blobs."""
        ...

    def column(self, field: TargetField) -> str:
        """A column as the table's own language has it."""
        ...

    def statement(self, target: TargetSchema) -> str:
        """CREATE TABLE."""
        ...

    def differences(self, target: TargetSchema) -> list[Difference] | None:
        """How the live table differs; None: there is none."""
        ...

    def prepare(self, target: TargetSchema) -> list[str]:
        """Makes the table or changes it as `evolve` allows; the wanted columns that it lacks nevertheless."""
        ...

    def open(self, target: TargetSchema, lacking: Sequence[str]) -> None:
        """Before the first insert."""
        ...

    def check(self, group: Group) -> None:
        """RowError when a value can't be sent; nothing is sent."""
        ...

    def insert(self, block: Block, settle_s: float) -> None:
        """Inserts what is not there yet. RowError: the rows' own fault, nothing of the block went in; Unavailable:
        try again; Unclear: try again, as `unclear`."""
        ...

    def others(self, target: TargetSchema, incs: Sequence[int]) -> int | None:
        """How many rows are not of these incarnations: somebody else's. None: its rows do not say where they came
        from."""
        ...

    def empty(self, target: TargetSchema, rows: Emptying, settle_s: float) -> None:
        """Removes rows; what an earlier writer has still under way goes too."""
        ...

    def close(self) -> None:
        """Lets the connection go; the next call makes another."""
        ...
