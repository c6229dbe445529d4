"""A hash table from key bytes to numbers, compiled by numba. Imported only by tasks that look up rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.model.jit import compiled

SMALL = 1 << 10
NONE = -1


@compiled
def _hash(data: Any, start: int, stop: int) -> Any:
    found = np.uint64(14695981039346656037)
    for place in range(start, stop):
        found = (found ^ np.uint64(data[place])) * np.uint64(1099511628211)
    return np.int64((found ^ (found >> np.uint64(29))) >> np.uint64(1))


@compiled
def _slot(slots: Any, held: Any, ends: Any, data: Any, start: int, stop: int) -> Any:  # noqa: PLR0917
    """The index of a key's slot, or of the free slot where it belongs."""
    most = len(slots) - 1
    at = _hash(data, start, stop) & most
    while slots[at] >= 0:
        number = slots[at]
        first = ends[number]
        if ends[number + 1] - first == stop - start:
            same = True
            for place in range(stop - start):
                if held[first + place] != data[start + place]:
                    same = False
                    break
            if same:
                return at
        at = (at + 1) & most
    return at


@compiled
def find(slots: Any, held: Any, ends: Any, data: Any, offsets: Any, found: Any) -> None:  # noqa: PLR0917
    """Writes the number of each key to `found`; -1 for an unknown key."""
    for row in range(len(found)):
        found[row] = slots[_slot(slots, held, ends, data, offsets[row], offsets[row + 1])]


@compiled
def put(slots: Any, held: Any, ends: Any, count: int, data: Any, offsets: Any, found: Any) -> int:  # noqa: PLR0917
    """Like `find`, but unknown keys get the next numbers. Returns the number of keys."""
    for row in range(len(found)):
        start, stop = offsets[row], offsets[row + 1]
        at = _slot(slots, held, ends, data, start, stop)
        if slots[at] < 0:
            first = ends[count]
            for place in range(stop - start):
                held[first + place] = data[start + place]
            ends[count + 1] = first + stop - start
            slots[at] = count
            count += 1
        found[row] = slots[at]
    return count


class KeyIndex:
    """Numbers keys from 0 in the order of their first appearance."""

    def __init__(self) -> None:
        self.count = 0
        self._slots = np.full(2 * SMALL, NONE, np.int32)
        self._held = np.zeros(16 * SMALL, np.uint8)
        self._ends = np.zeros(SMALL + 1, np.int64)

    def put(self, keys: pa.Array) -> np.ndarray:
        """The number of each key; new keys are added. Keys must not be null."""
        data, offsets = _buffers(keys)
        self._make_room(len(keys), int(offsets[-1] - offsets[0]))
        found = np.empty(len(keys), np.int32)
        self.count = put(self._slots, self._held, self._ends, self.count, data, offsets, found)
        return found

    def find(self, keys: pa.Array) -> np.ndarray:
        """The number of each key; -1 for unknown keys and nulls."""
        data, offsets = _buffers(keys)
        found = np.empty(len(keys), np.int32)
        find(self._slots, self._held, self._ends, data, offsets, found)
        if keys.null_count:
            found[keys.is_null().to_numpy(zero_copy_only=False)] = NONE
        return found

    def keys(self) -> pa.Array:
        """All keys in the order of their numbers."""
        ends = self._ends[: self.count + 1]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._held[: ends[-1]])]
        return pa.Array.from_buffers(pa.large_string(), self.count, buffers)

    def _make_room(self, keys: int, size: int) -> None:
        """Makes room for more keys and bytes; at least half of the slots stay free."""
        most, used = self.count + keys, int(self._ends[self.count])
        if most + 1 > len(self._ends):
            self._ends = np.concatenate([self._ends, np.zeros(max(most, len(self._ends)), np.int64)])
        if used + size > len(self._held):
            self._held = np.concatenate([self._held, np.zeros(max(size, len(self._held)), np.uint8)])
        if 2 * most > len(self._slots):
            known, self._slots = self.keys(), np.full(1 << (2 * most).bit_length(), NONE, np.int32)
            held, ends = np.empty_like(self._held), np.zeros_like(self._ends)
            put(self._slots, held, ends, 0, *_buffers(known), np.empty(self.count, np.int32))
            self._held, self._ends = held, ends


def _buffers(keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of the keys, and the offset of each."""
    wide = keys if pa.types.is_large_string(keys.type) else keys.cast(pa.large_string())
    _, offsets, data = wide.buffers()
    if offsets is None:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    places = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return (np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)), places
