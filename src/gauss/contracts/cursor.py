"""Cursors over a pinned version: the only way to read a topic.

`open(program)` pins a version, `next(step)` prepares a batch or returns a code, `read()` returns the batch, `close()`
releases the version. `next` never blocks: an idle live cursor returns INVALID, and the reader waits for the topic's
version to change.

A provider returns the candidates of a view. The scan engine (`gauss.scan`) evaluates the program's expressions over
them, metered, unless the provider has a faster way to the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.chunk import Chunk
    from gauss.contracts.expression import Expr, Stage
    from gauss.contracts.format import Format
    from gauss.model.errors import GaussError


class Code(IntEnum):
    """Result codes of scan, next and read."""

    OK = 0
    PANIC = 1
    INVALID = 2  # the end of a snapshot, nothing new in a live scan, or a bad program or step
    REJECTED = 3  # a limit, a dead incarnation, or a position behind the floor


class Mode(Enum):
    SNAPSHOT = "snapshot"
    LIVE = "live"


class Output(Enum):
    """Form of the batches that `read` returns."""

    ROWS = "rows"  # an Arrow batch of the candidates' columns, or of the program's results
    COLUMNAR = "columnar"  # the same, as an Arrow IPC stream
    SCALAR = "scalar"  # one value per row: the result has a single column
    CHUNKS = "offset_len"  # chunks as stored, which can be sent to a socket without re-framing


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
    """All records; of a log from an offset. `None`: from the floor."""

    start: int | None = None


@dataclass(frozen=True)
class OffsetRange:
    """Records [start, stop) of a log. `None`: to the pinned end."""

    start: int
    stop: int | None = None


@dataclass(frozen=True)
class TimeRange:
    """Records with `ts_ms` in [start_ms, stop_ms). `None`: to the pinned end."""

    start_ms: int
    stop_ms: int | None = None


@dataclass(frozen=True)
class Last:
    """The newest record."""


@dataclass(frozen=True)
class KeyRange:
    """Rows of a table with keys in [start, stop), in byte order of the keys. `None`: no bound."""

    start: str | None
    stop: str | None


@dataclass(frozen=True)
class Prefix:
    """Rows of a table whose key starts with a prefix."""

    prefix: str


@dataclass(frozen=True)
class Point:
    """The row of one key."""

    key: str


@dataclass(frozen=True)
class Agg:
    """One candidate with one column per aggregate: `agg(n: count, high: max(.bid))`."""

    aggregates: tuple[tuple[str, str, str], ...]
    """(name; count, sum, min, max or avg; field, empty for count)"""


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
"""The views in the syntax of programs, for messages."""
OUT_IDS = {
    Output.ROWS: OutId.ROWS,
    Output.COLUMNAR: OutId.COLUMNAR,
    Output.SCALAR: OutId.SCALAR,
    Output.CHUNKS: OutId.OFFSET_LEN,
}


@dataclass(frozen=True)
class Program:
    """What a cursor reads. Fixed for its lifetime."""

    view: View = field(default_factory=Seq)
    mode: Mode = Mode.SNAPSHOT
    output: Output = Output.ROWS
    stages: tuple[Stage, ...] = ()
    """Applied to each candidate in order: a stage keeps it, drops it or makes a new row."""
    format: str = ""
    """Format of the candidates' `data`. Empty: the provider's format, if it has one."""
    text: str = field(default="", compare=False)
    """Source text, for error positions. May be empty."""
    held: int | None = None
    """An older version of a table that the engine retains for this reader. Only set in process: text and blobs always
    pin the newest version."""


@dataclass(frozen=True)
class Narrow:
    """Projection and conditions that a provider may apply early. The stages of the program apply them anyway."""

    fields: tuple[str, ...] | None = None
    """Columns of the candidates that are read. `None`: all."""
    where: tuple[Expr, ...] = ()
    """Conditions that all kept rows fulfil."""


@dataclass(frozen=True)
class Capabilities:
    """What a provider supports, and its limits. Anything else is INVALID; exceeding a limit is REJECTED."""

    views: frozenset[type]
    """Supported view classes."""
    outputs: frozenset[Output]
    live: bool
    ops: frozenset[str] | None = None
    """Supported operations. `None`: all."""
    builtins: frozenset[str] | None = None
    """Supported functions. `None`: all."""
    max_fuel_item: int = 1_000_000
    """Maximum fuel of one candidate."""
    max_fuel_scan: int = 1 << 50
    """Maximum fuel of a scan."""
    max_batch_items: int = 1 << 20
    max_batch_bytes: int = 64 << 20
    max_pinned_bytes: int | None = None
    """Maximum memory that the cursors of one reader may pin for old versions. Beyond it the oldest cursor is REJECTED.
    `None`: cursors pin no memory."""
    jit: bool = True
    """Whether compiled programs may be cached."""
    seek: bool = False
    """Whether a step may move the cursor within its view."""


@dataclass(frozen=True)
class Step:
    """Limits of the next batch."""

    limit: int = 65_536
    max_bytes: int = 4 << 20
    seek: int | str | None = None
    """Position to continue at within the view: an offset of a log or a key of a table. Needs `Capabilities.seek`."""
    fill: bool = True
    """Whether the batch is filled up to its limits. With False (only in process) records are returned as the provider
    has them, without a copy, and `max_bytes` is approximate."""


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
        """Offset of the next record."""
        ...

    @property
    def hold(self) -> int:
        """The lowest version that the cursor needs: the pinned one until its root is delivered, then its position."""
        ...

    def next(self, step: Step) -> Code: ...

    def read(self) -> tuple[Code, pa.RecordBatch | list[Placed] | bytes | None]:
        """The prepared batch: rows and scalar as a batch, columnar as bytes, offset_len as chunks."""
        ...

    def close(self) -> None: ...


class Seekable(Cursor, Protocol):
    """A cursor of a provider that declares `seek`."""

    def seek(self, to: int | str) -> bool:
        """Moves within the view. Returns False without moving if `to` is outside."""
        ...


class Pinning(Cursor, Protocol):
    """A cursor of a provider that declares `max_pinned_bytes`."""

    def pinned_parts(self) -> dict[int, int]:
        """Bytes that the cursor keeps in memory beside the newest version, by the id of each part, since cursors at the
        same version share parts."""
        ...

    def reject(self) -> None:
        """Ends the cursor and releases its memory; later calls are REJECTED. Thread-safe."""
        ...


class ReaderCursor(Cursor, Protocol):
    """A cursor returned by a topic. If it falls behind the floor of a log, it reopens there."""

    @property
    def missed(self) -> int:
        """Number of records that were overwritten or deleted before this cursor read them."""
        ...

    @property
    def fault(self) -> GaussError | None:
        """Why the last step was refused, if its provider said so."""
        ...

    def emitted(self, size: int) -> None:
        """Counts bytes that the reader has written as output."""
        ...


class Provider(Protocol):
    """The readable side of a storage: returns the candidates of a view. Root(V) is immutable and readers take no lock.
    A provider that can apply conditions early also has `open_narrow(program, narrow)`."""

    inc: int
    capabilities: Capabilities

    def candidates(self) -> pa.Schema:
        """The columns of a candidate: offset, ts_ms, data for a log; key, version, ts_ms, deleted, data for a
        table (`deleted` is true only in the tail of a live scan)."""
        ...

    def format(self) -> Format | None:
        """Format of `data` if the program names none. `None`: not decoded."""
        ...

    def version(self) -> int:
        """The next offset: everything below it is visible."""
        ...

    def floor(self) -> int:
        """The oldest retained offset."""
        ...

    def open(self, program: Program) -> Cursor:
        """Opens a cursor pinned at the current version. Raises ConfigError for an unsupported program, Collected for
        a range below the floor."""
        ...
