"""Framing: how a stream of bytes is cut into records and put together again, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from gauss.contracts.plugin import PluginSpec

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Buffer = bytes | bytearray | memoryview
"""Anything that holds bytes."""


@dataclass(frozen=True, kw_only=True)
class FramingSpec(PluginSpec):
    """`implementation(config)` gives a `Framing`."""

    KIND: ClassVar[str] = "framing"

    raw: bool
    """Whole frames may be kept, sliced and sent as they are: the wire form has no state between records."""
    splits_only: bool = False
    """Only for streams that come in: a sink must say what it writes."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Whole records cut from a stream: framed bytes when the framing is `raw`, else the records themselves."""

    payload: bytes | memoryview | pa.BinaryArray
    count: int


class Framing(Protocol):
    """One configured framing. Instances hold no state; splitters and joiners do, one per connection."""

    raw: bool
    key: tuple[object, ...]
    """Two framings with equal keys have the same bytes on the wire."""

    def splitter(self, max_record_bytes: int) -> Splitter: ...

    def joiner(self) -> Joiner: ...

    def bounds(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        """Start and end (int64) of each record's content in a buffer of whole frames; only if `raw`. What stands
        between a content's end and its frame's end has the same width in every frame."""
        ...

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:
        """A bool per record: True where this framing can't carry it (delimiter inside, wrong size). None: all fit."""
        ...


class Splitter(Protocol):
    """Cuts one connection's stream; resumable at any byte."""

    def feed(self, data: Buffer) -> Frames:
        """The whole records up to now, or the first of them: a splitter that copies records hands out a few at a
        time, and the next ones with the next feed (an empty one will do; see `cut`). Bad bytes raise FrameError once
        what was whole before them has been handed out: at once if there is nothing, else on the *next* feed or
        finish. `data` may be filled anew by the caller afterwards."""
        ...

    def held(self) -> int:
        """Bytes that it keeps between two feeds: of an unfinished record, and what later records begin with."""
        ...

    def finish(self) -> None:
        """The stream has ended: raises FrameError (reason `truncated`) if it ended in mid-record."""
        ...


class Joiner(Protocol):
    """Builds one connection's stream (a container framing leaves out a header equal to the last)."""

    def join(self, data: pa.BinaryArray) -> bytes | memoryview: ...


def cut(splitter: Splitter, data: Buffer) -> Iterator[Frames]:
    """All whole records up to now, in as many goes as the splitter takes; raises FrameError behind them."""
    frames = splitter.feed(data)
    while frames.count:
        yield frames
        frames = splitter.feed(b"")
