"""A walk over rows in COPY's binary form that finds where each column lies; see `walk_function.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gauss.plugins.formats.walk_function import WalkFunction

NULL_LENGTH = 0xFFFFFFFF


class PgRowWalk(NamedTuple):
    """The argument of `walk`."""

    data: np.ndarray | bytes
    """Signed bytes for machine code, in which unsigned ones would become floats; hence `& 255`."""
    offsets: np.ndarray | list[int]
    columns: int
    starts: np.ndarray | list[int]
    """By record and column: where the value begins."""
    lengths: np.ndarray | list[int]
    """By record and column: the length of the value, -1 for null."""
    suspects: np.ndarray | bytearray
    """By record: 1 if it is malformed."""


def walk(batch: PgRowWalk) -> None:
    """Fills `starts` and `lengths`, and marks suspects."""
    data, offsets, columns = batch.data, batch.offsets, batch.columns
    for record in range(len(offsets) - 1):
        position, end = offsets[record], offsets[record + 1]
        fine = end - position >= 2
        if fine:
            fine = ((data[position] & 255) << 8 | (data[position + 1] & 255)) == columns
            position += 2
        column = 0
        while fine and column < columns:
            if end - position < 4:
                fine = False
                break
            length = (data[position] & 255) << 24 | (data[position + 1] & 255) << 16
            length |= (data[position + 2] & 255) << 8 | (data[position + 3] & 255)
            position += 4
            if length == NULL_LENGTH:
                length = -1
            place = record * columns + column
            batch.starts[place] = position
            batch.lengths[place] = length
            if length > 0:
                position += length
            fine = position <= end
            column += 1
        if not fine or position != end:
            batch.suspects[record] = 1


WALK = WalkFunction(walk)
