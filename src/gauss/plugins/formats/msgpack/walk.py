"""A walk over maps that vouches for the plain ones and reads their values; machine code, see `compiled.py`.

Suspect, and left to others, is whatever is malformed or of another type than declared, and beside it what is rare: a
name twice, a number above 2⁶³, a key inside that is no text, an extension other than a timestamp of 4 or 8 bytes.
"""

from __future__ import annotations

from typing import Any

from gauss.plugins.formats.compiled import Walk, utf8_end
from gauss.plugins.formats.walked import (
    BOOL,
    BYTES,
    DATE,
    DECIMAL,
    EITHER,
    MOMENT,
    REAL,
    SINCE,
    SPELLING,
    TEXT,
    entry_of,
    spelled,
    stored,
)

DEPTH = 32
NIL, FALSE, TRUE, INT, FLOAT, DOUBLE, STR, BIN, LIST, MAP, TIME, BAD = range(12)


def big_endian(data: Any, position: int, size: int) -> int:
    """A number of one to eight bytes."""
    value = 0
    for place in range(size):
        value = (value << 8) | data[position + place]
    return value


def head(data: Any, position: int, end: int) -> tuple[int, int, int]:
    """(what begins here, its number or length, where that ends); BAD for what ends too early or is rare."""
    if position >= end:
        return BAD, 0, position
    byte = int(data[position])
    position += 1
    if byte < 0x80:
        return INT, byte, position
    if byte >= 0xE0:
        return INT, byte - 256, position
    if byte < 0x90:
        return MAP, byte & 15, position
    if byte < 0xA0:
        return LIST, byte & 15, position
    if byte < 0xC0:
        return (STR if end - position >= byte & 31 else BAD), byte & 31, position
    if byte in (0xC0, 0xC2, 0xC3):
        return (NIL if byte == 0xC0 else FALSE if byte == 0xC2 else TRUE), 0, position
    if byte in (0xD6, 0xD7):
        size = 4 if byte == 0xD6 else 8
        fine = end - position > size and data[position] == 255
        if fine and size == 8:  # the highest 30 bits are nanoseconds, and less than a second
            fine = big_endian(data, position + 1, 4) >> 2 < 1000000000
        return (TIME if fine else BAD), size, position + 1
    what, size = BAD, 0
    if 0xC4 <= byte <= 0xC6:
        what, size = BIN, 1 << (byte - 0xC4)
    elif 0xCA <= byte <= 0xCB:
        what, size = (FLOAT, 4) if byte == 0xCA else (DOUBLE, 8)
    elif 0xCC <= byte <= 0xD3:
        what, size = INT, 1 << ((byte - 0xCC) & 3)
    elif 0xD9 <= byte <= 0xDB:
        what, size = STR, 1 << (byte - 0xD9)
    elif byte >= 0xDC:
        what, size = (LIST if byte < 0xDE else MAP), 2 << (byte & 1)
    if what == BAD or end - position < size:
        return BAD, 0, position
    value = big_endian(data, position, size)
    position += size
    if 0xD0 <= byte <= 0xD2 and value >> (8 * size - 1):
        value -= 1 << (8 * size)
    if (byte == 0xCF and value < 0) or (what in (STR, BIN) and value > end - position):
        what = BAD
    return what, value, position


def skip(data: Any, position: int, end: int, left: Any, maps: Any) -> int:
    """Where a value ends that is not asked for; -1 when it is suspect. All text in it must be UTF-8."""
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
            if level >= DEPTH:
                return -1
            left[level], maps[level] = size, what == MAP
    return position


def put(  # noqa: PLR0917
    data: Any,
    position: int,
    end: int,
    record: int,
    column: int,
    kinds: Any,
    lows: Any,
    highs: Any,
    scales: Any,
    out: Any,
    reals: Any,
    lengths: Any,
    present: Any,
) -> int:
    """Reads a value into its column; gives its end, -1 when it is suspect."""
    kind = kinds[column]
    what, value, position = head(data, position, end)
    if what == NIL:
        return position
    if what == INT:
        if kind == REAL:
            reals[column, record] = float(value)
        elif (value == -value and value != 0) or not stored(
            abs(value), 0, 1 if value >= 0 else -1, record, column, kinds, lows, highs, scales, out, reals
        ):  # the lowest number of all has no positive
            return -1
    elif what in (FALSE, TRUE):
        if kind != BOOL:
            return -1
        out[column, record] = what == TRUE
    elif what == DOUBLE:
        if kind != REAL:
            return -1
        out[column, record] = value  # the same bits
    elif what == FLOAT:
        exponent, rest = (value >> 23) & 255, value & 0x7FFFFF
        if kind != REAL or exponent == 255 or (exponent == 0 and rest != 0):  # no number, or the tiniest
            return -1
        out[column, record] = (value >> 31) << 63
        if exponent != 0:
            out[column, record] |= ((exponent + 896) << 52) | (rest << 29)
    elif what == STR:
        stop = position + value
        if kind in (TEXT, EITHER):
            if utf8_end(data, position, stop) < 0:
                return -1
            out[column, record], lengths[column, record] = position, value
        elif kind not in (DECIMAL, MOMENT, DATE) or not spelled(
            data, position, stop, record, column, kinds, lows, highs, scales, out, reals
        ):
            return -1
        position = stop
    elif what == BIN:
        if kind not in (BYTES, EITHER):
            return -1
        out[column, record], lengths[column, record] = position, value
        position += value
    elif what == TIME:
        nanos, seconds = 0, big_endian(data, position, value)
        if value == 8:
            nanos, seconds = (seconds >> 34) & 0x3FFFFFFF, seconds & 0x3FFFFFFFF
        if kind not in (MOMENT, SINCE) or nanos % 1000 != 0:
            return -1
        out[column, record] = seconds * 1000000 + nanos // 1000
        position += value
    else:
        return -1
    present[column, record] = 1
    return position


def walk(  # noqa: PLR0917
    data: Any,
    offsets: Any,
    names: Any,
    entries: Any,
    kinds: Any,
    lows: Any,
    highs: Any,
    scales: Any,
    out: Any,
    reals: Any,
    lengths: Any,
    present: Any,
    suspects: Any,
    left: Any,
    maps: Any,
    seen: Any,
) -> None:
    """`entries` has the start and length of the name of each column."""
    many = len(entries)
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
            column = entry_of(data, position, size, names, entries, 0, many, guess)
            if column >= 0:
                fine = seen[column] != record + 1
                seen[column] = record + 1
                guess = column + 1 if column + 1 < many else 0
            else:
                fine = utf8_end(data, position, position + size) >= 0
            if not fine:
                break
            position += size
            if column >= 0:
                position = put(
                    data, position, end, record, column, kinds, lows, highs, scales, out, reals, lengths, present
                )
            else:
                position = skip(data, position, end, left, maps)
            fine = position >= 0
        if not fine or position != end:
            suspects[record] = 1
            for column in range(many):
                present[column, record] = 0


WALK = Walk(walk, *SPELLING, utf8_end, big_endian, head, skip, put, entry_of, worth=20_000)
