"""Digests of keys, 128 bits each (MurmurHash3, x64), the same on every machine; machine code by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.model.jit import compiled

C1, C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)


@compiled
def _turned(word: Any, by: Any) -> Any:
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@compiled
def _first(word: Any) -> Any:
    return _turned(word * C1, 31) * C2


@compiled
def _second(word: Any) -> Any:
    return _turned(word * C2, 33) * C1


@compiled
def _word(data: Any, start: int, count: int) -> Any:
    found = np.uint64(0)
    for place in range(count):
        found |= np.uint64(data[start + place]) << np.uint64(8 * place)
    return found


@compiled
def _mixed(word: Any) -> Any:
    word = (word ^ (word >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    word = (word ^ (word >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return word ^ (word >> np.uint64(33))


@compiled
def digest(data: Any, offsets: Any, digests: Any) -> None:
    """Goes on from the digests that are there by the value of each row."""
    five = np.uint64(5)
    for row in range(len(digests)):
        one, two = digests[row, 0], digests[row, 1]
        at, stop = offsets[row], offsets[row + 1]
        length = np.uint64(stop - at)
        while stop - at >= 16:
            one = (_turned(one ^ _first(_word(data, at, 8)), 27) + two) * five + np.uint64(0x52DCE729)
            two = (_turned(two ^ _second(_word(data, at + 8, 8)), 31) + one) * five + np.uint64(0x38495AB5)
            at += 16
        two ^= _second(_word(data, at + 8, max(stop - at - 8, 0)))
        one ^= _first(_word(data, at, min(stop - at, 8)))
        one, two = one ^ length, two ^ length
        one += two
        two += one
        one, two = _mixed(one), _mixed(two)
        one += two
        digests[row, 0], digests[row, 1] = one, two + one


@compiled
def mark_firsts(digests: Any, slots: Any, first: Any) -> None:
    """Which rows have a digest that no row before them has; `slots` are empty, and at least twice as many."""
    most = len(slots) - 1
    for row in range(len(digests)):
        at = np.int64(digests[row, 1] & np.uint64(most))
        while slots[at] >= 0:
            other = slots[at]
            if digests[other, 0] == digests[row, 0] and digests[other, 1] == digests[row, 1]:
                break
            at = (at + 1) & most
        first[row] = slots[at] < 0
        if first[row]:
            slots[at] = row


def digests_of(columns: list[pa.Array]) -> np.ndarray:
    """Two numbers for each row of some columns of texts or bytes without nulls."""
    found = np.zeros((len(columns[0]), 2), np.uint64)
    for column in columns:
        wide = column.cast(pa.large_binary())
        _, offsets, data = wide.buffers()
        places = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        digest(np.frombuffer(data or b"", np.uint8), places, found)
    return found


def firsts(digests: np.ndarray) -> np.ndarray:
    """Whether a row is the first with its digest."""
    slots = np.full(1 << (2 * len(digests)).bit_length(), -1, np.int32)
    found = np.empty(len(digests), bool)
    mark_firsts(digests, slots, found)
    return found
