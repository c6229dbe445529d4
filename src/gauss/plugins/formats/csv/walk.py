"""A compiled walk over lines that stores the cells of the plain ones; see `walk_function.py`.

A line is a suspect, left to the line codec, if it is malformed or a cell is not of its declared type. So are rare
lines: a quote inside a cell, the header, a number with an exponent or more than 18 digits, a timestamp in another
spelling than `2026-01-02T03:04:05.678Z`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gauss.plugins.formats.ascii_codes import CARRIAGE_RETURN, NEWLINE
from gauss.plugins.formats.cells import BOOL, STORING, TEXT, TEXT_OR_BYTES, Cells, clear, store_literal
from gauss.plugins.formats.literals import FALSE, TRUE, same, utf8_end
from gauss.plugins.formats.walk_function import WalkFunction


class CsvWalk(NamedTuple):
    """The argument of `walk`."""

    cells: Cells
    ascii_only: bool
    delimiter: int
    quote: int
    """-1 if nothing is quoted."""
    null: np.ndarray
    header: np.ndarray
    """The first cell of the header: a line that begins with it is suspect."""


def store(cells: Cells, record: int, column: int, start: int, stop: int) -> bool:
    """Stores a cell in its column; False if it is suspect."""
    kind = cells.types.kinds[column]
    if kind in (TEXT, TEXT_OR_BYTES):
        cells.numbers[column, record], cells.lengths[column, record] = start, stop - start
        return True
    if kind == BOOL:
        true = same(cells.data, start, stop, TRUE)
        cells.numbers[column, record] = true
        return true or same(cells.data, start, stop, FALSE)
    return store_literal(cells, record, column, start, stop)


def walk(batch: CsvWalk) -> None:
    """Fills the cells of plain lines and marks the others as suspects."""
    cells, delimiter, quote = batch.cells, batch.delimiter, batch.quote
    data, offsets = cells.data, cells.offsets
    last = len(cells.types.kinds) - 1
    for record in range(len(offsets) - 1):
        position, end = offsets[record], offsets[record + 1]
        if end > position and data[end - 1] == NEWLINE:
            end -= 1
        if end > position and data[end - 1] == CARRIAGE_RETURN:
            end -= 1
        fine = batch.ascii_only or utf8_end(data, position, end) == end
        for column in range(last + 1):
            if not fine:
                break
            quoted = position < end and data[position] == quote
            position += quoted
            start = position
            if quoted:
                while position < end and data[position] != quote:
                    position += 1
                stop = position
                position += 1
                fine = stop < end
            else:
                while position < end and data[position] != delimiter:
                    byte = data[position]
                    if byte == quote or byte == NEWLINE or byte == CARRIAGE_RETURN:  # noqa: PLR1714, SIM109 (faster)
                        fine = False
                    position += 1
                stop = position
            # A delimiter follows each cell but the last.
            fine = fine and (position == end if column == last else position < end and data[position] == delimiter)
            position += 1
            if column == 0 and same(data, start, stop, batch.header):
                fine = False
            if fine and (quoted or not same(data, start, stop, batch.null)):
                fine = store(cells, record, column, start, stop)
                cells.present[column, record] = fine
        if not fine:
            clear(cells, record)


WALK = WalkFunction(walk, *STORING, utf8_end, same, store, worth=20_000)
