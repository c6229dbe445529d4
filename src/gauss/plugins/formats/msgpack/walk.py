"""A compiled walk over msgpack maps that stores the values of the plain ones; see `walk_function.py`.

A record is a suspect, left to msgspec, if it is malformed or a value is not of its declared type. So are rare records:
a name twice, a number above 2⁶³, a nested key that is no text, an extension other than a timestamp of 4 or 8 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gauss.plugins.formats.cells import (
    BOOL,
    BYTES,
    DATE,
    DECIMAL,
    ISO_TIMESTAMP,
    REAL,
    STORING,
    TEXT,
    TEXT_OR_BYTES,
    UNIX_TIMESTAMP,
    Cells,
    Names,
    clear,
    find_name,
    store_literal,
    store_number,
)
from gauss.plugins.formats.literals import Number, utf8_end
from gauss.plugins.formats.walk_function import WalkFunction

MAX_DEPTH = 32
NIL, FALSE, TRUE, INT, FLOAT, DOUBLE, STR, BIN, LIST, MAP, TIME, BAD = range(12)
"""What a value is."""

FIX_MAP, FIX_ARRAY, FIX_STR, NEGATIVE_FIX_INT = 0x80, 0x90, 0xA0, 0xE0
NIL_BYTE, FALSE_BYTE, TRUE_BYTE, BIN_8, BIN_32, FLOAT_32, FLOAT_64 = 0xC0, 0xC2, 0xC3, 0xC4, 0xC6, 0xCA, 0xCB
UINT_8, UINT_64, INT_8, INT_32, INT_64, FIX_EXT_4, FIX_EXT_8 = 0xCC, 0xCF, 0xD0, 0xD2, 0xD3, 0xD6, 0xD7
STR_8, STR_32, ARRAY_16, MAP_16 = 0xD9, 0xDB, 0xDC, 0xDE
"""First bytes of values, as the msgpack specification names them."""
TIMESTAMP_EXTENSION = 255  # type -1
NANOS_PER_SECOND = 1_000_000_000


class MsgpackWalk(NamedTuple):
    """The argument of `walk`."""

    cells: Cells
    names: Names
    """The names of the columns, in their order."""
    left: np.ndarray
    """By level of a skipped value: how many of its elements are still to come."""
    maps: np.ndarray
    """By level of a skipped value: 1 if it is a map."""
    seen: np.ndarray
    """By column: the number of the last record that had it, from 1 on."""


def big_endian(data: np.ndarray, position: int, size: int) -> int:
    """An integer of one to eight bytes."""
    value = 0
    for place in range(size):
        value = (value << 8) | data[position + place]
    return value


def head(data: np.ndarray, position: int, end: int) -> tuple[int, int, int]:
    """(what begins here, its number or length, where its head ends); BAD if it ends too early or is rare."""
    if position >= end:
        return BAD, 0, position
    byte = int(data[position])
    position += 1
    if byte < FIX_MAP:
        return INT, byte, position
    if byte >= NEGATIVE_FIX_INT:
        return INT, byte - 256, position
    if byte < FIX_ARRAY:
        return MAP, byte & 15, position
    if byte < FIX_STR:
        return LIST, byte & 15, position
    if byte < NIL_BYTE:
        return (STR if end - position >= byte & 31 else BAD), byte & 31, position
    if byte in (NIL_BYTE, FALSE_BYTE, TRUE_BYTE):
        return (NIL if byte == NIL_BYTE else FALSE if byte == FALSE_BYTE else TRUE), 0, position
    if byte in (FIX_EXT_4, FIX_EXT_8):
        size = 4 if byte == FIX_EXT_4 else 8
        fine = end - position > size and data[position] == TIMESTAMP_EXTENSION
        if fine and size == 8:  # the highest 30 bits are nanoseconds
            fine = big_endian(data, position + 1, 4) >> 2 < NANOS_PER_SECOND
        return (TIME if fine else BAD), size, position + 1
    what, size = BAD, 0
    if BIN_8 <= byte <= BIN_32:
        what, size = BIN, 1 << (byte - BIN_8)
    elif FLOAT_32 <= byte <= FLOAT_64:
        what, size = (FLOAT, 4) if byte == FLOAT_32 else (DOUBLE, 8)
    elif UINT_8 <= byte <= INT_64:
        what, size = INT, 1 << ((byte - UINT_8) & 3)
    elif STR_8 <= byte <= STR_32:
        what, size = STR, 1 << (byte - STR_8)
    elif byte >= ARRAY_16:
        what, size = (LIST if byte < MAP_16 else MAP), 2 << (byte & 1)
    if what == BAD or end - position < size:
        return BAD, 0, position
    value = big_endian(data, position, size)
    position += size
    if INT_8 <= byte <= INT_32 and value >> (8 * size - 1):
        value -= 1 << (8 * size)
    if (byte == UINT_64 and value < 0) or (what in (STR, BIN) and value > end - position):
        what = BAD
    return what, value, position


def skip(batch: MsgpackWalk, position: int, end: int) -> int:
    """Where a value ends that is not asked for; -1 if it is suspect. All text in it must be UTF-8."""
    data, left, maps = batch.cells.data, batch.left, batch.maps
    level = 0
    left[0], maps[0] = 1, 0
    while level >= 0:
        if left[level] == 0:
            level -= 1
            continue
        left[level] -= 1
        what, size, position = head(data, position, end)
        if maps[level] == 1:  # a key
            if what != STR or utf8_end(data, position, position + size) < 0:
                return -1
            what, size, position = head(data, position + size, end)
        if what == BAD or (what == STR and utf8_end(data, position, position + size) < 0):
            return -1
        if what in (STR, BIN, TIME):
            position += size
        elif what in (LIST, MAP):
            level += 1
            if level >= MAX_DEPTH:
                return -1
            left[level], maps[level] = size, what == MAP
    return position


def store(cells: Cells, record: int, column: int, position: int, end: int) -> int:
    """Stores a value in its column; returns its end, -1 if it is suspect."""
    data, kind = cells.data, cells.types.kinds[column]
    what, value, position = head(data, position, end)
    if what == NIL:
        return position
    if what == INT:
        if kind == REAL:
            cells.reals[column, record] = float(value)
        elif (value == -value and value != 0) or not store_number(
            cells, record, column, Number(position, abs(value), 0, 1 if value >= 0 else -1)
        ):  # the lowest number of all has no positive
            return -1
    elif what in (FALSE, TRUE):
        if kind != BOOL:
            return -1
        cells.numbers[column, record] = what == TRUE
    elif what == DOUBLE:
        if kind != REAL:
            return -1
        cells.numbers[column, record] = value  # the same bits
    elif what == FLOAT:
        exponent, rest = (value >> 23) & 255, value & 0x7FFFFF
        if kind != REAL or exponent == 255 or (exponent == 0 and rest != 0):  # not finite, or denormal
            return -1
        cells.numbers[column, record] = (value >> 31) << 63
        if exponent != 0:
            cells.numbers[column, record] |= ((exponent + 896) << 52) | (rest << 29)
    elif what == STR:
        stop = position + value
        if kind in (TEXT, TEXT_OR_BYTES):
            if utf8_end(data, position, stop) < 0:
                return -1
            cells.numbers[column, record], cells.lengths[column, record] = position, value
        elif kind not in (DECIMAL, ISO_TIMESTAMP, DATE) or not store_literal(cells, record, column, position, stop):
            return -1
        position = stop
    elif what == BIN:
        if kind not in (BYTES, TEXT_OR_BYTES):
            return -1
        cells.numbers[column, record], cells.lengths[column, record] = position, value
        position += value
    elif what == TIME:
        nanos, seconds = 0, big_endian(data, position, value)
        if value == 8:
            nanos, seconds = (seconds >> 34) & 0x3FFFFFFF, seconds & 0x3FFFFFFFF
        if kind not in (ISO_TIMESTAMP, UNIX_TIMESTAMP) or nanos % 1000 != 0:
            return -1
        cells.numbers[column, record] = seconds * 1000000 + nanos // 1000
        position += value
    else:
        return -1
    cells.present[column, record] = 1
    return position


def walk(batch: MsgpackWalk) -> None:
    """Fills the cells of plain records and marks the others as suspects."""
    cells, names, seen = batch.cells, batch.names, batch.seen
    data, offsets = cells.data, cells.offsets
    many = len(seen)
    for record in range(len(offsets) - 1):
        end = offsets[record + 1]
        what, pairs, position = head(data, offsets[record], end)
        fine = what == MAP
        guess = 0
        while fine and pairs > 0:
            pairs -= 1
            what, size, position = head(data, position, end)
            if what != STR:
                fine = False
                break
            column = find_name(names, 0, guess, data, position, position + size)
            if column >= 0:
                fine = seen[column] != record + 1
                seen[column] = record + 1
                guess = column + 1 if column + 1 < many else 0
            else:
                fine = utf8_end(data, position, position + size) >= 0
            if not fine:
                break
            position += size
            position = store(cells, record, column, position, end) if column >= 0 else skip(batch, position, end)
            fine = position >= 0
        if not fine or position != end:
            clear(cells, record)


WALK = WalkFunction(walk, *STORING, utf8_end, big_endian, head, skip, store, find_name, worth=20_000)
