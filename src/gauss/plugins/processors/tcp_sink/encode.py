"""Records of a topic → bytes of the output framing; bytes that are framed so already stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.model.batch import value_lengths


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


class Encoder:
    """One client's; a container framing keeps state between records."""

    def __init__(self, framing: Framing, bury: Callable[[int, bytes], None]) -> None:
        self._framing = framing
        self._joiner = framing.joiner()
        self._bury = bury
        self._cut_size = framing.key[1] if framing.key[0] == "fixed_size" else None

    def encode(self, placed: Placed) -> Encoded:
        offset, chunk = placed
        stop = offset + chunk.count
        if chunk.is_framed_as(self._framing):
            return Encoded(offset, stop, chunk.payload, chunk)
        data = chunk.data()
        unfit = self._framing.unfit(data)
        if unfit is not None:
            unfit = self._without_multiples(unfit, data)
            for index in np.flatnonzero(unfit):
                self._bury(offset + int(index), data[int(index)].as_py())
            data = data.filter(pa.array(~unfit))
            return Encoded(offset, stop, self._joiner.join(data), None)
        payload = self._joiner.join(data)
        frames = Chunk(payload, chunk.count, chunk.ts_ms, self._framing) if self._framing.raw else None
        return Encoded(offset, stop, payload, frames)

    def _without_multiples(self, unfit: np.ndarray, data: pa.BinaryArray) -> np.ndarray:
        # A record of several frame sizes is cut: on the wire, frames of a fixed size have no borders.
        if not isinstance(self._cut_size, int):
            return unfit
        lengths = value_lengths(data)
        still: np.ndarray = np.logical_or(lengths == 0, lengths % self._cut_size != 0)
        return still
