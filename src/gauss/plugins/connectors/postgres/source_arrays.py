"""Finds the elements of arrays in binary COPY: dimensions, then each element with its length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gauss.plugins.formats.walk_function import WalkFunction

HEAD_BYTES = 20
"""Of an array with one dimension: number of dimensions, flag of nulls, type, length, lower bound."""
_NULL_LENGTH = 0xFFFFFFFF


class ElementWalk(NamedTuple):
    """The argument of `walk_elements`."""

    data: np.ndarray | bytes
    """Signed bytes for machine code, in which unsigned ones would become floats; hence `& 255`."""
    places: np.ndarray | list[int]
    """By array: where its first element begins."""
    ends: np.ndarray | list[int]
    counts: np.ndarray | list[int]
    starts: np.ndarray | list[int]
    """By element: where its value begins."""
    lengths: np.ndarray | list[int]
    """By element: the length of its value, -1 for null."""
    odd: np.ndarray | list[bool]
    """By array: whether it is malformed."""


def walk_elements(batch: ElementWalk) -> None:
    """Fills `starts` and `lengths`, and marks malformed arrays."""
    data, element = batch.data, 0
    for array in range(len(batch.places)):
        position, end = batch.places[array], batch.ends[array]
        for _ in range(batch.counts[array]):
            length = -1
            if end - position >= 4:
                length = (data[position] & 255) << 24 | (data[position + 1] & 255) << 16
                length |= (data[position + 2] & 255) << 8 | (data[position + 3] & 255)
                position += 4
                if length == _NULL_LENGTH:
                    length = -1
                elif position + length > end:
                    batch.odd[array] = True
                    length = -1
            else:
                batch.odd[array] = True
            batch.starts[element] = position
            batch.lengths[element] = length
            if length > 0:
                position += length
            element += 1


WALK = WalkFunction(walk_elements)


def locate_elements(
    body: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(elements of each array, starts and lengths of all elements, which arrays have several dimensions)."""
    wide = lengths >= HEAD_BYTES
    heads = np.zeros((len(starts), HEAD_BYTES), np.uint8)
    heads[wide] = body[starts[wide][:, None] + np.arange(HEAD_BYTES)]
    words = heads.view(">i4").astype(np.int64)
    odd = wide & (words[:, 0] != 1)
    counts = np.where(wide & ~odd, words[:, 3], 0)
    total = int(counts.sum())
    element_starts, element_lengths = np.zeros(total, np.int64), np.zeros(total, np.int64)
    places, ends = starts + HEAD_BYTES, starts + np.maximum(lengths, 0)
    function, compiled = WALK.ready(total, 0)
    if compiled:
        data = body.view(np.int8)
        data.flags.writeable = False  # always: machine code is compiled anew for writable arrays
        function(ElementWalk(data, places, ends, counts, element_starts, element_lengths, odd))
    else:
        function(
            ElementWalk(
                body.tobytes(), places.tolist(), ends.tolist(), counts.tolist(), element_starts, element_lengths, odd
            )
        )
    return counts, element_starts, element_lengths, odd
