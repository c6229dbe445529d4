"""Framing contract: splits a byte stream into records and joins records to a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from gauss.contracts.plugin import PluginSpec

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Buffer = bytes | bytearray | memoryview
"""Any bytes-like object."""


@dataclass(frozen=True, kw_only=True)
class FramingSpec(PluginSpec):
    """Spec of a framing. `implementation(config)` returns a `Framing`."""

    KIND: ClassVar[str] = "framing"

    raw: bool
    """Whether frames can be stored, sliced and sent unchanged: the wire form has no state between records."""
    splits_only: bool = False
    """Only for sources: a sink needs a definite framing."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Whole records cut from a stream: framed bytes when the framing is `raw`, else the records themselves."""

    payload: bytes | memoryview | pa.BinaryArray
    count: int
    bounds: tuple[np.ndarray, np.ndarray] | None = None
    """The result of `Framing.bounds` for the payload, if the splitter already knows it."""


class Framing(Protocol):
    """One configured framing, without state. Splitters and joiners hold the state of a connection."""

    raw: bool
    key: tuple[object, ...]
    """Framings with equal keys have the same wire form."""
    carries_all: bool
    """Whether any record can be framed, so that `unfit` need not be called."""

    def splitter(self, max_record_bytes: int) -> Splitter: ...

    def joiner(self) -> Joiner: ...

    def bounds(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        """Start and end (int64) of each record's content in a buffer of whole frames. Only if `raw`. The suffix of a
        frame has the same width in every frame."""
        ...

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:
        """A bool per record: True if the framing cannot hold it (delimiter inside, wrong size). `None`: all fit."""
        ...


class Splitter(Protocol):
    """Splits the stream of one connection, fed in pieces of any size."""

    def feed(self, data: Buffer) -> Frames:
        """Returns the complete records so far, or the first of them: a splitter that copies records returns a few at a
        time, and more on the next feed, which may be empty (see `cut`). Bad bytes raise FrameError after all complete
        records before them have been returned: at once if there are none, else on the *next* feed or finish. The
        caller may reuse `data` afterwards."""
        ...

    def held(self) -> int:
        """Bytes buffered between feeds: of an unfinished record and of later ones."""
        ...

    def finish(self) -> None:
        """Ends the stream. Raises FrameError (reason `truncated`) if the last record is incomplete."""
        ...


class Joiner(Protocol):
    """Builds the stream of one connection. A container framing omits a header equal to the last one."""

    def join(self, data: pa.BinaryArray) -> bytes | memoryview: ...


def cut(splitter: Splitter, data: Buffer) -> Iterator[Frames]:
    """Yields all complete records so far, calling the splitter as often as needed. Raises FrameError after them."""
    frames = splitter.feed(data)
    while frames.count:
        yield frames
        frames = splitter.feed(b"")
