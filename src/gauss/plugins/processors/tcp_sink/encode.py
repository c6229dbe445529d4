"""Encodes records in the output framing; bytes that already have it are sent unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.model.batch import value_lengths

if TYPE_CHECKING:
    from gauss.plugins.processors.tcp_sink.convert import Conversion

DeadLetterWriter = Callable[[int, bytes, str, str, str], None]
"""(offset, record, reason, detail, stage)"""


class WireChunk(NamedTuple):
    """The wire form of records [first, stop)."""

    first: int
    stop: int
    payload: bytes | memoryview
    frames: Chunk | None
    """The same bytes if there is one frame per record, to find the records that the peer has acknowledged."""


class Encodes(Protocol):
    """Encodes the records of a client."""

    def encode(self, placed: Placed) -> WireChunk: ...

    def begin(self, version: int) -> bytes:
        """Bytes before the rows of a snapshot of this version; may be empty."""
        ...

    def end(self, version: int, rows: int) -> bytes:
        """Bytes after the rows."""
        ...


class Encoder:
    """The encoder of one client; a container framing has state between records."""

    def __init__(
        self,
        framing: Framing,
        conversion: Conversion | None,
        dead_letter: DeadLetterWriter,
        snapshot_end: str | None = None,
    ) -> None:
        self._framing = framing
        self._snapshot_end = snapshot_end
        self._joiner = framing.joiner()
        self._conversion = conversion
        self._dead_letter = dead_letter
        self._cut_size = framing.key[1] if framing.key[0] == "fixed_size" else None

    def encode(self, placed: Placed) -> WireChunk:
        offset, chunk = placed
        stop = offset + chunk.count
        if self._conversion is None and chunk.is_framed_as(self._framing):
            return WireChunk(offset, stop, chunk.payload, chunk)
        given = data = chunk.data()
        origins = None
        if self._conversion is not None:
            data, origins = converted(self._conversion, offset, given, self._dead_letter)
        unfit = self._framing.unfit(data)
        if unfit is not None:
            unfit = self._without_multiples(unfit, data)
            for index in np.flatnonzero(unfit):
                origin = int(index if origins is None else origins[index])
                size = data[int(index)].as_buffer().size
                detail = f'framing "{self._framing.key[0]}" can\'t carry this record of {size} bytes'
                self._dead_letter(offset + origin, given[origin].as_py(), "unfit", detail, "encode")
            data = data.filter(pa.array(~unfit))
            return WireChunk(offset, stop, self._joiner.join(data), None)
        payload = self._joiner.join(data)
        # After a conversion a frame need not stand for one record of the topic.
        alike = self._framing.raw and (origins is None or np.array_equal(origins, np.arange(chunk.count)))
        frames = Chunk(payload, chunk.count, chunk.ts_ms, self._framing) if alike else None
        return WireChunk(offset, stop, payload, frames)

    def begin(self, version: int) -> bytes:  # noqa: ARG002
        return b""

    def end(self, version: int, rows: int) -> bytes:  # noqa: ARG002
        if self._snapshot_end is None:
            return b""
        return bytes(self._joiner.join(pa.array([self._snapshot_end.encode()], pa.binary())))

    def _without_multiples(self, unfit: np.ndarray, data: pa.BinaryArray) -> np.ndarray:
        # A record of several frame sizes is split: on the wire, fixed-size frames have no delimiters.
        if not isinstance(self._cut_size, int):
            return unfit
        lengths = value_lengths(data)
        still: np.ndarray = np.logical_or(lengths == 0, lengths % self._cut_size != 0)
        return still


def converted(
    conversion: Conversion, offset: int, data: pa.BinaryArray, dead_letter: DeadLetterWriter
) -> tuple[pa.BinaryArray, np.ndarray]:
    """Records from `offset` on in another format, and the index of each one's input record; records that cannot be
    converted become dead letters."""
    made = conversion.convert(data)
    for index, reason, detail, stage in made.bad:
        dead_letter(offset + index, data[index].as_py(), reason, detail, stage)
    return made.records, made.origins
