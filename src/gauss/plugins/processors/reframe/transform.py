"""Cuts the bytes of each record by another framing; a batch is cut at once wherever its records allow that."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Changed
from gauss.contracts.framing import Framing, FramingSpec, cut
from gauss.contracts.letter import Letter
from gauss.model.batch import MOST_BYTES, binary_array, gather, packed, value_buffer, value_offsets
from gauss.model.errors import FrameError
from gauss.plugins.processors.reframe.spec import ReframeConfig


class Recut(NamedTuple):
    """Frames made of a batch: how many came from each record, and what was left over."""

    payload: bytes | memoryview | pa.BinaryArray
    counts: np.ndarray
    left: list[tuple[int, FrameError, bytes]]
    """(index of the record, what is wrong, the bytes that fill no frame)"""


class ReframeTransform:
    def __init__(self, config: ReframeConfig) -> None:
        spec = registry.spec(FramingSpec, config.output.framing)
        parameters = spec.validate(config.output.parameters())
        self._framing: Framing = registry.build(spec, parameters)
        self._on_error = config.on_frame_error
        self._frame_size = int(getattr(parameters, "frame_size", 0)) if spec.name == "fixed_size" else 0

    def apply(self, chunk: Chunk, offset: int) -> Changed:
        data = chunk.data()
        cut = self._fixed(data) if self._frame_size else self._at_once(data) or self._one_by_one(data)
        if cut.left and self._on_error == "fail":
            raise cut.left[0][1]
        letters = [
            Letter(
                error.reason,
                error.message,
                "frame",
                "",
                rest,
                offset=offset + index,
                ts_ms=chunk.ts_ms if isinstance(chunk.ts_ms, int) else int(chunk.ts_ms[index]),
            )
            for index, error, rest in cut.left
        ]
        count = int(cut.counts.sum())
        if count == 0:
            return Changed(None, letters)
        times = chunk.ts_ms if isinstance(chunk.ts_ms, int) else np.repeat(chunk.ts_ms, cut.counts)
        return Changed(Chunk(cut.payload, count, times, self._framing if self._framing.raw else None), letters)

    def _fixed(self, data: pa.BinaryArray) -> Recut:
        """Frames of one size are arithmetic, whatever the records' sizes are."""
        offsets = value_offsets(data)
        lengths = np.diff(offsets)
        over = lengths % self._frame_size
        if not over.any():
            return Recut(packed(data), lengths // self._frame_size, [])
        if self._on_error == "pad":
            fill = np.zeros(len(data) + 1, np.int64)
            np.cumsum(-lengths % self._frame_size, out=fill[1:])
            zeros = binary_array(bytes(int(fill[-1])), fill)
            padded = pc.binary_join_element_wise(data, zeros, pa.scalar(b"", pa.binary()))
            return Recut(packed(padded), -(-lengths // self._frame_size), [])
        buffer = value_buffer(data)
        whole = offsets[1:] - over
        left = [
            (int(index), self._too_short(int(over[index])), bytes(buffer[whole[index] : offsets[index + 1]]))
            for index in np.flatnonzero(over)
        ]
        return Recut(packed(gather(buffer, offsets[:-1], whole)), lengths // self._frame_size, left)

    def _too_short(self, size: int) -> FrameError:
        return FrameError(
            f"{size} bytes are left of the record: expected a multiple of frame_size = {self._frame_size}",
            reason="truncated",
            hint='set on_frame_error = "pad" to fill the last frame with zero bytes',
        )

    def _at_once(self, data: pa.BinaryArray) -> Recut | None:
        """All records as one stream, which cuts them as each alone if every record's end is a frame's; else None."""
        if not self._framing.raw:
            return None
        splitter = self._framing.splitter(MOST_BYTES)
        try:
            frames = splitter.feed(packed(data))
            splitter.finish()
        except FrameError:
            return None
        record_ends = value_offsets(data)[1:] - value_offsets(data)[0]
        frame_ends = np.append(0, Chunk(frames.payload, frames.count, 0, self._framing).frame_ends())
        through = np.searchsorted(frame_ends, record_ends, side="right") - 1
        if not np.array_equal(frame_ends[through], record_ends):
            return None
        return Recut(frames.payload, np.diff(through, prepend=0), [])

    def _one_by_one(self, data: pa.BinaryArray) -> Recut:
        payloads: list[bytes | memoryview | pa.BinaryArray] = []
        counts = np.zeros(len(data), np.int64)
        left: list[tuple[int, FrameError, bytes]] = []
        for index, record in enumerate(data.to_pylist()):
            splitter = self._framing.splitter(MOST_BYTES)
            used = 0
            try:
                for frames in cut(splitter, record):
                    payloads.append(frames.payload)
                    counts[index] += frames.count
                    used += len(frames.payload) if self._framing.raw else 0
                splitter.finish()
            except FrameError as error:
                left.append((index, error, record[used:] if self._framing.raw else error.bad))
        if self._framing.raw:
            return Recut(b"".join(payloads), counts, left)
        arrays = [payload for payload in payloads if len(payload)]
        return Recut(pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary()), counts, left)
