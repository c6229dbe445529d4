"""Encodes batches of records as WebSocket messages, with vectorized headers and UTF-8 checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import Placed
from gauss.model.batch import value_lengths
from gauss.plugins.framings.affixes import with_heads, with_tail
from gauss.plugins.processors.tcp_sink.encode import DeadLetterWriter, WireChunk, converted

if TYPE_CHECKING:
    from gauss.plugins.processors.tcp_sink.convert import Conversion

TEXT, BINARY = 0x81, 0x82
"""The FIN bit: a message in a single frame."""


class Messages:
    """Encodes records as messages, unchanged or converted to another format."""

    def __init__(self, conversion: Conversion | None, dead_letter: DeadLetterWriter, *, marks: bool = False) -> None:
        self._conversion = conversion
        self._dead_letter = dead_letter
        self._marks = marks

    def encode(self, placed: Placed) -> WireChunk:
        offset, chunk = placed
        data = chunk.data()
        if self._conversion is not None:
            data, _ = converted(self._conversion, offset, data, self._dead_letter)
        return WireChunk(offset, offset + chunk.count, frames(data, is_text(data)), None)

    def begin(self, version: int) -> bytes:
        return self._mark({"_snapshot": "begin", "version": version})

    def end(self, version: int, rows: int) -> bytes:
        return self._mark({"_snapshot": "end", "version": version, "rows": rows})

    def _mark(self, content: dict[str, Any]) -> bytes:
        return bytes(frames(pa.array([msgspec.json.encode(content)], pa.binary()), True)) if self._marks else b""


def is_text(data: pa.BinaryArray) -> bool | np.ndarray:
    """Whether records are UTF-8: True if all are, else one bool per record."""
    try:
        data.cast(pa.string())
        return True
    except pa.ArrowInvalid:
        # A byte between records that is no continuation shows a character that its record cut off.
        found = np.ones(len(data), bool)
        found[np.searchsorted(np.cumsum(value_lengths(data) + 1), _misplaced(with_tail(data, b"\0")), "right")] = False
        return found


def _misplaced(text: bytes | memoryview) -> np.ndarray:
    """The positions of bytes that are invalid in UTF-8."""
    byte = np.frombuffer(text, np.uint8)
    follows = (byte & 0xC0) == 0x80
    needs = (byte >= 0xC2).astype(np.int8) + (byte >= 0xE0) + (byte >= 0xF0)
    wanted = np.zeros(len(byte), bool)
    wanted[1:] = needs[:-1] >= 1
    wanted[2:] |= (needs[:-2] >= 2) & follows[1:-1]
    wanted[3:] |= (needs[:-3] >= 3) & follows[1:-2] & follows[2:-1]
    wrong = (wanted != follows) | (byte == 0xC0) | (byte == 0xC1) | (byte > 0xF4)
    # Longer than they must be, surrogates, and beyond the last character there is.
    before, second = byte[:-1], byte[1:]
    wrong[1:] |= (before == 0xE0) & (second < 0xA0)
    wrong[1:] |= (before == 0xED) & (second > 0x9F)
    wrong[1:] |= (before == 0xF0) & (second < 0x90)
    wrong[1:] |= (before == 0xF4) & (second > 0x8F)
    return np.flatnonzero(wrong)


def frames(data: pa.BinaryArray, text: bool | np.ndarray) -> bytes | memoryview:
    """One unmasked frame per record."""
    lengths = value_lengths(data)
    heads = np.zeros((len(lengths), 10), np.uint8)
    heads[:, 0] = np.where(text, TEXT, BINARY)
    short, medium = lengths < 126, lengths < 65_536
    widths = np.where(short, 2, np.where(medium, 4, 10))
    heads[:, 1] = np.where(short, lengths, np.where(medium, 126, 127))
    big_endian = lengths.astype(">u8").view(np.uint8).reshape(-1, 8)
    two = np.flatnonzero(medium & ~short)
    heads[two, 2:4] = big_endian[two, 6:]
    eight = np.flatnonzero(~medium)
    heads[eight, 2:] = big_endian[eight]
    widest = int(widths.max()) if len(widths) else 2
    return with_heads(data, np.ascontiguousarray(heads[:, :widest]), widths)
