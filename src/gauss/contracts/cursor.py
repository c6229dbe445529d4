"""The one way in which a topic is read: a cursor over a pinned version.

`open(program)` pins, `next(step)` prepares a batch or says why not, `read()` gives it, `close()` lets go.
Waiting is the reader's affair: an idle live cursor answers INVALID at once (`Provider.wait` blocks instead).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.chunk import Chunk


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

    ROWS = "rows"  # one Arrow batch (offset, ts_ms, data)
    CHUNKS = "offset_len"  # chunks as they lie in the log: what a socket can be sent without re-framing


@dataclass(frozen=True)
class Seq:
    """Everything from an offset on; None: from the floor."""

    start: int | None = None


@dataclass(frozen=True)
class OffsetRange:
    """Records [start, stop)."""

    start: int
    stop: int


@dataclass(frozen=True)
class TimeRange:
    """Records with ts_ms in [start_ms, stop_ms)."""

    start_ms: int
    stop_ms: int


@dataclass(frozen=True)
class Last:
    """The newest record."""


View = Seq | OffsetRange | TimeRange | Last


@dataclass(frozen=True)
class Program:
    """What to read; fixed for a cursor's life."""

    view: View = field(default_factory=Seq)
    mode: Mode = Mode.SNAPSHOT
    output: Output = Output.ROWS


@dataclass(frozen=True)
class Step:
    """How much the next batch may hold; it never changes what is read."""

    limit: int = 65_536
    max_bytes: int = 4 << 20


class Placed(NamedTuple):
    """A chunk and the offset of its first record."""

    offset: int
    chunk: Chunk


class Cursor(Protocol):
    """A scan in progress. `position` is the offset of the next record it would give."""

    pinned_version: int
    position: int
    missed: int
    """Records that had been overwritten or collected before this cursor came to them."""

    def next(self, step: Step) -> Code: ...

    def read(self) -> tuple[Code, pa.RecordBatch | list[Placed] | None]: ...

    def close(self) -> None: ...


class Provider(Protocol):
    """A storage's readable side."""

    inc: int

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
