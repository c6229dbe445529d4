"""Records of a topic → bytes of the output framing; bytes that are framed so already stay as they are."""

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

Bury = Callable[[int, bytes, str, str, str], None]
"""(offset, record, reason, detail, stage)"""


class Encoded(NamedTuple):
    """The wire form of records [first, stop)."""

    first: int
    stop: int
    payload: bytes | memoryview
    frames: Chunk | None
    """The same bytes when there is one frame per record, to find out which of them arrived."""


class Encodes(Protocol):
    """Makes the wire form of a client's records."""

    def encode(self, placed: Placed) -> Encoded: ...

    def begin(self, version: int) -> bytes:
        """What goes before the rows of a snapshot of this version; may be nothing."""
        ...

    def end(self, version: int, rows: int) -> bytes:
        """What goes behind them."""
        ...


class Encoder:
    """One client's; a container framing keeps state between records."""

    def __init__(
        self, framing: Framing, conversion: Conversion | None, bury: Bury, snapshot_end: str | None = None
    ) -> None:
        self._framing = framing
        self._snapshot_end = snapshot_end
        self._joiner = framing.joiner()
        self._conversion = conversion
        self._bury = bury
        self._cut_size = framing.key[1] if framing.key[0] == "fixed_size" else None

    def encode(self, placed: Placed) -> Encoded:
        offset, chunk = placed
        stop = offset + chunk.count
        if self._conversion is None and chunk.is_framed_as(self._framing):
            return Encoded(offset, stop, chunk.payload, chunk)
        given = data = chunk.data()
        origins = None
        if self._conversion is not None:
            data, origins = converted(self._conversion, offset, given, self._bury)
        unfit = self._framing.unfit(data)
        if unfit is not None:
            unfit = self._without_multiples(unfit, data)
            for index in np.flatnonzero(unfit):
                origin = int(index if origins is None else origins[index])
                size = data[int(index)].as_buffer().size
                detail = f'framing "{self._framing.key[0]}" can\'t carry this record of {size} bytes'
                self._bury(offset + origin, given[origin].as_py(), "unfit", detail, "encode")
            data = data.filter(pa.array(~unfit))
            return Encoded(offset, stop, self._joiner.join(data), None)
        payload = self._joiner.join(data)
        # After a conversion a frame need not stand for one record of the topic.
        alike = self._framing.raw and (origins is None or np.array_equal(origins, np.arange(chunk.count)))
        frames = Chunk(payload, chunk.count, chunk.ts_ms, self._framing) if alike else None
        return Encoded(offset, stop, payload, frames)

    def begin(self, version: int) -> bytes:  # noqa: ARG002
        return b""

    def end(self, version: int, rows: int) -> bytes:  # noqa: ARG002
        if self._snapshot_end is None:
            return b""
        return bytes(self._joiner.join(pa.array([self._snapshot_end.encode()], pa.binary())))

    def _without_multiples(self, unfit: np.ndarray, data: pa.BinaryArray) -> np.ndarray:
        # A record of several frame sizes is cut: on the wire, frames of a fixed size have no borders.
        if not isinstance(self._cut_size, int):
            return unfit
        lengths = value_lengths(data)
        still: np.ndarray = np.logical_or(lengths == 0, lengths % self._cut_size != 0)
        return still


def converted(
    conversion: Conversion, offset: int, data: pa.BinaryArray, bury: Bury
) -> tuple[pa.BinaryArray, np.ndarray]:
    """Records from `offset` on in another format, and the index of the one that each was made from; what can't be
    converted is buried."""
    made = conversion.convert(data)
    for index, reason, detail, stage in made.bad:
        bury(offset + index, data[index].as_py(), reason, detail, stage)
    return made.records, made.origins
