"""A compiled walk over JSON objects that stores the values of the plain ones; see `walk_function.py`.

A record is a suspect, left to other decoders, if it is malformed or a value is not of its declared type. So are rare
records: an escape, a name twice, an exponent, more than 18 digits, a timestamp in another spelling than
`2026-01-02T03:04:05.678Z`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gauss.plugins.formats.ascii_codes import (
    CLOSE_BRACE,
    CLOSE_BRACKET,
    COLON,
    COMMA,
    DIGIT_0,
    DIGIT_9,
    LOWER_F,
    LOWER_N,
    MINUS,
    OPEN_BRACE,
    OPEN_BRACKET,
    QUOTE,
)
from gauss.plugins.formats.cells import (
    BOOL,
    DATE,
    ISO_TIMESTAMP,
    JSON,
    STORING,
    TEXT,
    Cells,
    Names,
    clear,
    find_name,
    store_literal,
    store_number,
)
from gauss.plugins.formats.literals import FALSE, NULL, TRUE, read_number, same, space_end, text_end, utf8_end
from gauss.plugins.formats.walk_function import WalkFunction

MAX_DEPTH = 32
ARRAY, UNKNOWN_OBJECT = -2, -1
NO_COLUMN = -1
NO_TARGET = 1 << 30
"""Target of a name that is not asked for."""


class JsonWalk(NamedTuple):
    """The argument of `walk`."""

    cells: Cells
    ascii_only: bool
    names: Names
    targets: np.ndarray
    """By name: its column, or -1 - the number of the object that it leads to."""
    objects: np.ndarray
    """By level: the number of the object whose names are asked for, UNKNOWN_OBJECT or ARRAY."""
    columns: np.ndarray
    """By level: the JSON column whose value began there, or NO_TARGET."""
    guesses: np.ndarray
    """By level: the name that probably comes next."""
    seen: np.ndarray
    """By name: the number of the last record that had it, from 1 on."""


def store(cells: Cells, record: int, column: int, position: int, end: int) -> int:
    """Stores a value that is no object or array, if it has a column; returns its end, -1 if it is suspect."""
    data = cells.data
    kind, byte, start = (cells.types.kinds[column] if column >= 0 else -1), data[position], position
    if byte == QUOTE:
        stop = text_end(data, position + 1, end)
        if stop < 0 or column < 0:
            return stop + 1 if stop >= 0 else -1
        if kind == TEXT:
            cells.numbers[column, record], cells.lengths[column, record] = position + 1, stop - position - 1
        elif kind in (ISO_TIMESTAMP, DATE):
            if not store_literal(cells, record, column, position + 1, stop):
                return -1
        elif kind != JSON:
            return -1
        position = stop + 1
    elif byte == MINUS or DIGIT_0 <= byte <= DIGIT_9:
        number = read_number(data, position, end)
        position = number.end
        if position < 0 or column < 0:
            return position
        if kind != JSON and not store_number(cells, record, column, number):
            return -1
    else:
        position += len(FALSE) if byte == LOWER_F else len(TRUE)
        if position > end:
            return -1
        if same(data, start, position, NULL):
            return position
        true = same(data, start, position, TRUE)
        if not true and not same(data, start, position, FALSE):
            return -1
        if column < 0:
            return position
        if kind == BOOL:
            cells.numbers[column, record] = true
        elif kind != JSON:
            return -1
    if kind == JSON:
        cells.numbers[column, record], cells.lengths[column, record] = start, position - start
    if column >= 0:
        cells.present[column, record] = 1
    return position


def walk(batch: JsonWalk) -> None:
    """Fills the cells of plain records and marks the others as suspects."""
    cells, names, columns, objects, guesses = batch.cells, batch.names, batch.columns, batch.objects, batch.guesses
    data, offsets = cells.data, cells.offsets
    for record in range(len(offsets) - 1):
        end = offsets[record + 1]
        position = space_end(data, offsets[record], end)
        fine = position < end and data[position] == OPEN_BRACE
        if fine and not batch.ascii_only:
            fine = utf8_end(data, position, end) == end
        level, fresh, after = 0, True, False
        objects[0], guesses[0], columns[0] = 0, names.first[0], NO_TARGET
        position += 1
        while fine and level >= 0:
            position = space_end(data, position, end)
            if position >= end:
                fine = False
                break
            byte, node = data[position], objects[level]
            if byte == (CLOSE_BRACKET if node == ARRAY else CLOSE_BRACE) and (after or fresh):
                position += 1
                column = columns[level]
                if column != NO_TARGET:
                    cells.lengths[column, record] = position - cells.numbers[column, record]
                    cells.present[column, record] = 1
                level -= 1
                fresh, after = False, True
                continue
            if after:
                fine = byte == COMMA
                position += 1
                after = False
                continue
            fresh = False
            target = NO_TARGET
            if node != ARRAY:
                stop = text_end(data, position + 1, end) if byte == QUOTE else -1
                if stop < 0:
                    fine = False
                    break
                if node >= 0:
                    name = find_name(names, node, guesses[level], data, position + 1, stop)
                    if name >= 0:
                        target = batch.targets[name]
                        fine = batch.seen[name] != record + 1
                        batch.seen[name] = record + 1
                        guesses[level] = name + 1 if name + 1 < names.first[node + 1] else names.first[node]
                position = space_end(data, stop + 1, end)
                if not fine or position >= end or data[position] != COLON:
                    fine = False
                    break
                position = space_end(data, position + 1, end)
                if position >= end:
                    fine = False
                    break
                byte = data[position]
            if byte in (OPEN_BRACKET, OPEN_BRACE):
                level += 1
                if level >= MAX_DEPTH:
                    fine = False
                    break
                columns[level] = NO_TARGET
                if byte == OPEN_BRACKET:
                    objects[level] = ARRAY
                    fine = target == NO_TARGET or target >= 0
                else:
                    objects[level] = -1 - target if target < 0 else UNKNOWN_OBJECT
                    if target < 0:
                        guesses[level] = names.first[objects[level]]
                if 0 <= target < NO_TARGET:
                    fine = cells.types.kinds[target] == JSON
                    columns[level] = target
                    cells.numbers[target, record] = position
                position += 1
                fresh = True
                continue
            if target < 0:
                # Null stands for an object without fields; no other value does.
                fine = byte == LOWER_N
            column = target if 0 <= target < NO_TARGET else NO_COLUMN
            position = store(cells, record, column, position, end)
            fine = fine and position >= 0
            after = True
        if not fine or space_end(data, position, end) != end:
            clear(cells, record)


WALK = WalkFunction(walk, same, space_end, text_end, *STORING, store, utf8_end, find_name, worth=200_000)
