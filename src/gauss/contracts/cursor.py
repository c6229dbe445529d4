"""The one way in which a topic is read: a cursor over a pinned version.

`open(program)` pins, `next(step)` prepares a batch or says why not, `read()` gives it, `close()` lets go.
Waiting is the reader's affair: an idle live cursor answers INVALID at once (`Provider.wait` blocks instead).

A provider yields the candidates of a view; the expressions of a program are run over them by the scan engine
(`gauss.scan`), beside the provider and metered, unless the provider knows a faster way to the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.chunk import Chunk
    from gauss.contracts.format import Format
    from gauss.scan.program.ir import Expr, Stage


class Code(IntEnum):
    """What scan, next and read answer."""

    UNSET = 0  # success
    PANIC = 1
    INVALID = 2  # the end of a snapshot, nothing new in a live scan, or a bad program or step
    REJECTED = 3  # a limit, a dead incarnation, or a position behind the floor


class Mode(Enum):
    SNAPSHOT = "snapshot"
    LIVE = "live"


class Output(Enum):
    """What `read` gives."""

    ROWS = "rows"  # one Arrow batch of the candidates' columns, or of what the expressions make of them
    COLUMNAR = "columnar"  # the same as an Arrow IPC stream
    SCALAR = "scalar"  # one value per row: the program's result has a single column
    CHUNKS = "offset_len"  # chunks as they lie in the log: what a socket can be sent without re-framing


class ViewId(IntEnum):
    """The views of the specification; no provider declares KNN or BITMAP yet."""

    SEQ = 0x0302_0001
    RANGE = 0x0302_0002
    PREFIX = 0x0302_0003
    POINT = 0x0302_0004
    KNN = 0x0302_0005
    BITMAP = 0x0302_0006
    AGG = 0x0302_0007


class OutId(IntEnum):
    """The outputs of the specification; no provider declares TAGGED yet."""

    ROWS = 0x0303_0001
    COLUMNAR = 0x0303_0002
    SCALAR = 0x0303_0003
    OFFSET_LEN = 0x0303_0004
    TAGGED = 0x0303_0005


@dataclass(frozen=True)
class Seq:
    """Everything, for a log from an offset on; None: from the floor."""

    start: int | None = None


@dataclass(frozen=True)
class OffsetRange:
    """Records [start, stop) of a log; None: to the pinned end."""

    start: int
    stop: int | None = None


@dataclass(frozen=True)
class TimeRange:
    """Records with ts_ms in [start_ms, stop_ms); None: to the pinned end."""

    start_ms: int
    stop_ms: int | None = None


@dataclass(frozen=True)
class Last:
    """The newest record."""


@dataclass(frozen=True)
class KeyRange:
    """Rows of a table whose key is in [start, stop), in the order of the keys' bytes; None: no bound."""

    start: str | None
    stop: str | None


@dataclass(frozen=True)
class Prefix:
    """Rows of a table whose key begins so."""

    prefix: str


@dataclass(frozen=True)
class Point:
    """The row of one key."""

    key: str


@dataclass(frozen=True)
class Agg:
    """One candidate with one column per aggregate, named as asked: `agg(n: count, high: max(.bid))`."""

    aggregates: tuple[tuple[str, str, str], ...]
    """(name, one of count, sum, min, max, avg; the field, empty for count)"""


View = Seq | OffsetRange | TimeRange | Last | KeyRange | Prefix | Point | Agg
VIEW_IDS: dict[type, ViewId] = {
    Seq: ViewId.SEQ,
    OffsetRange: ViewId.RANGE,
    TimeRange: ViewId.RANGE,
    KeyRange: ViewId.RANGE,
    Prefix: ViewId.PREFIX,
    Last: ViewId.POINT,
    Point: ViewId.POINT,
    Agg: ViewId.AGG,
}
VIEW_TEXTS: dict[type, str] = {
    Seq: "seq",
    OffsetRange: "range(offset: …)",
    TimeRange: "range(ts: …)",
    KeyRange: "range(key: …)",
    Prefix: "prefix(…)",
    Last: "point(last)",
    Point: "point(KEY)",
    Agg: "agg(…)",
}
"""As programs write them, for messages."""
OUT_IDS = {
    Output.ROWS: OutId.ROWS,
    Output.COLUMNAR: OutId.COLUMNAR,
    Output.SCALAR: OutId.SCALAR,
    Output.CHUNKS: OutId.OFFSET_LEN,
}


@dataclass(frozen=True)
class Program:
    """What to read; fixed for a cursor's life."""

    view: View = field(default_factory=Seq)
    mode: Mode = Mode.SNAPSHOT
    output: Output = Output.ROWS
    stages: tuple[Stage, ...] = ()
    """What is done with each candidate, in order: kept or dropped, or made into another row."""
    format: str = ""
    """The format by which the candidates' `data` is decoded; empty: the provider's own, if it has one."""
    text: str = field(default="", compare=False)
    """What was written, if it was: errors point into it."""
    held: int | None = None
    """An older version of a table that the engine holds for this reader. Neither text nor blob can say it: a snapshot
    pins the newest version."""


@dataclass(frozen=True)
class Narrow:
    """What a provider may leave out, since the stages of a program would drop it anyway."""

    fields: tuple[str, ...] | None = None
    """The candidates' columns that are read; None: all."""
    where: tuple[Expr, ...] = ()
    """Conditions that every row must meet to be kept."""


@dataclass(frozen=True)
class Capabilities:
    """What may be asked of a provider; anything else is INVALID, anything above a limit REJECTED."""

    views: frozenset[type]
    """Classes of views."""
    outputs: frozenset[Output]
    live: bool
    ops: frozenset[str] | None = None
    """Operations of expressions; None: all of the language."""
    builtins: frozenset[str] | None = None
    """Functions of expressions; None: all of the language."""
    max_fuel_item: int = 1_000_000
    """The cost of one candidate."""
    max_fuel_scan: int = 1 << 50
    """The cost of a whole scan."""
    max_batch_items: int = 1 << 20
    max_batch_bytes: int = 64 << 20
    max_pinned_bytes: int | None = None
    """What the cursors of one reader may keep in memory of versions that are not the newest any more; beyond it the
    oldest of them ends, REJECTED. None: a cursor keeps nothing that its source would let go."""
    jit: bool = True
    """Whether compiled programs may be kept."""
    seek: bool = False
    """Whether a step may put the cursor elsewhere within its view."""


@dataclass(frozen=True)
class Step:
    """How much the next batch may hold; it never changes what is read."""

    limit: int = 65_536
    max_bytes: int = 4 << 20
    seek: int | str | None = None
    """Where to go on, within the view: an offset of a log, a key of a table; only where `Capabilities.seek`."""
    fill: bool = True
    """Whether the batch is filled up to its limits. Readers in the engine's process that do not mind how records are
    cut say False: they get them as the provider has them, without a copy, and `max_bytes` is a target. A step that
    comes as a blob always fills."""


class Placed(NamedTuple):
    """A chunk and the offset of its first record."""

    offset: int
    chunk: Chunk


class Cursor(Protocol):
    """A scan in progress."""

    @property
    def pinned_version(self) -> int: ...

    @property
    def position(self) -> int:
        """The offset of the next record it would give."""
        ...

    @property
    def hold(self) -> int:
        """The lowest version that it needs: the pinned one until its root is delivered, then its position."""
        ...

    def next(self, step: Step) -> Code: ...

    def read(self) -> tuple[Code, pa.RecordBatch | list[Placed] | bytes | None]:
        """The prepared batch: rows and scalar as a batch, columnar as bytes, offset_len as chunks."""
        ...

    def close(self) -> None: ...


class Seekable(Cursor, Protocol):
    """A cursor of a provider that declares `seek`."""

    def seek(self, to: int | str) -> bool:
        """Goes on elsewhere within the view; False, and nothing has moved, when `to` is outside."""
        ...


class Pinning(Cursor, Protocol):
    """A cursor of a provider that declares `max_pinned_bytes`."""

    def pinned_parts(self) -> dict[int, int]:
        """The bytes of what it keeps alive beside the newest version, by the identity of each part: cursors at the
        same version share them."""
        ...

    def reject(self) -> None:
        """Ends it, from any thread: what it kept is free, and whatever is asked of it is REJECTED."""
        ...


class ReaderCursor(Cursor, Protocol):
    """A cursor as a topic hands it out: one that falls behind the floor of a log opens anew there."""

    @property
    def missed(self) -> int:
        """Records that had been overwritten or collected before this cursor came to them."""
        ...

    def emitted(self, size: int) -> None:
        """Its reader has written so many bytes, made of what it read."""
        ...


class Provider(Protocol):
    """A storage's readable side: the candidates of a view. Root(V) is immutable and readers take no lock. One that can
    leave out what a program drops anyway also has `open_narrow(program, narrow)`."""

    inc: int
    capabilities: Capabilities

    def candidates(self) -> pa.Schema:
        """The columns of a candidate: offset, ts_ms, data for a log; key, version, ts_ms, deleted, data for a
        table (`deleted` is true only in the tail of a live scan)."""
        ...

    def format(self) -> Format | None:
        """How `data` is decoded when a program names no format; None: not at all."""
        ...

    def version(self) -> int:
        """The next offset: everything below it is visible."""
        ...

    def floor(self) -> int:
        """The oldest retained offset."""
        ...

    def open(self, program: Program) -> Cursor:
        """A cursor pinned at the current version. Raises ConfigError for a program that this provider does not
        declare, Collected for a range behind the floor."""
        ...

    def wait(self, version: int, timeout: float) -> int:
        """Blocks until the version is above `version` or the time is over; returns the version."""
        ...
