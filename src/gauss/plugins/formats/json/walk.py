"""A walk over objects that vouches for the plain ones and reads their values; machine code, see `compiled.py`.

Suspect, and left to others, is whatever is malformed or of another type than declared, and beside it what is rare: an
escape, a name twice, an exponent, more than 18 digits, a time in another spelling than `2026-01-02T03:04:05.678Z`.
"""

from __future__ import annotations

from typing import Any

from gauss.plugins.formats.compiled import Walk, utf8_end
from gauss.plugins.formats.literals import number, space_end, text_end
from gauss.plugins.formats.walked import ANY, BOOL, DATE, MOMENT, SPELLING, TEXT, entry_of, spelled, stored

DEPTH = 32
ARRAY, UNKNOWN = -2, -1
NOTHING = 1 << 30
"""What a name leads to that is not asked for."""


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
    """Reads a value that is no object or array into its column; gives its end, -1 when it is suspect."""
    kind, byte, start = (kinds[column] if column >= 0 else -1), data[position], position
    if byte == 34:
        stop = text_end(data, position + 1, end)
        if stop < 0 or column < 0:
            return stop + 1 if stop >= 0 else -1
        if kind == TEXT:
            out[column, record], lengths[column, record] = position + 1, stop - position - 1
        elif kind in (MOMENT, DATE):
            if not spelled(data, position + 1, stop, record, column, kinds, lows, highs, scales, out, reals):
                return -1
        elif kind != ANY:
            return -1
        position = stop + 1
    elif byte == 45 or 48 <= byte <= 57:
        position, value, fraction, sign = number(data, position, end)
        if position < 0 or column < 0:
            return position
        if kind != ANY and not stored(value, fraction, sign, record, column, kinds, lows, highs, scales, out, reals):
            return -1
    else:
        size = 5 if byte == 102 else 4
        if end - position < size:
            return -1
        one, more, last = data[position + 1], data[position + 2], data[position + 3]
        position += size
        if byte == 110 and one == 117 and more == 108 and last == 108:
            return position
        true = byte == 116 and one == 114 and more == 117 and last == 101
        false = byte == 102 and one == 97 and more == 108 and last == 115 and data[position - 1] == 101
        if not true and not false:
            return -1
        if column < 0:
            return position
        if kind == BOOL:
            out[column, record] = true
        elif kind != ANY:
            return -1
    if kind == ANY:
        out[column, record], lengths[column, record] = start, position - start
    if column >= 0:
        present[column, record] = 1
    return position


def walk(  # noqa: PLR0917
    data: Any,
    offsets: Any,
    ascii_only: bool,
    names: Any,
    first: Any,
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
    stack: Any,
    columns: Any,
    guess: Any,
    seen: Any,
) -> None:
    """`entries` has (start and length of the name, column or -1 - child node) of each name of each node from `first`;
    a stack level holds a node of names that are asked for, an unknown object or an array."""
    for record in range(len(offsets) - 1):
        end = offsets[record + 1]
        position = space_end(data, offsets[record], end)
        fine = position < end and data[position] == 123
        if fine and not ascii_only:
            fine = utf8_end(data, position, end) == end
        level, fresh, after = 0, True, False
        stack[0], guess[0], columns[0] = 0, first[0], NOTHING
        position += 1
        while fine and level >= 0:
            position = space_end(data, position, end)
            if position >= end:
                fine = False
                break
            byte, node = data[position], stack[level]
            if byte == (93 if node == ARRAY else 125) and (after or fresh):
                position += 1
                column = columns[level]
                if column != NOTHING:
                    lengths[column, record] = position - out[column, record]
                    present[column, record] = 1
                level -= 1
                fresh, after = False, True
                continue
            if after:
                fine = byte == 44
                position += 1
                after = False
                continue
            fresh = False
            target = NOTHING
            if node != ARRAY:
                stop = text_end(data, position + 1, end) if byte == 34 else -1
                if stop < 0:
                    fine = False
                    break
                if node >= 0:
                    size, begin, many = stop - position - 1, first[node], first[node + 1] - first[node]
                    entry = entry_of(data, position + 1, size, names, entries, begin, many, guess[level])
                    if entry >= 0:
                        target = entries[entry, 2]
                        fine = seen[entry] != record + 1
                        seen[entry] = record + 1
                        guess[level] = entry + 1 if entry + 1 < begin + many else begin
                position = space_end(data, stop + 1, end)
                if not fine or position >= end or data[position] != 58:
                    fine = False
                    break
                position = space_end(data, position + 1, end)
                if position >= end:
                    fine = False
                    break
                byte = data[position]
            if byte in (91, 123):
                level += 1
                if level >= DEPTH:
                    fine = False
                    break
                columns[level] = NOTHING
                if byte == 91:
                    stack[level] = ARRAY
                    fine = target == NOTHING or target >= 0
                else:
                    stack[level] = -1 - target if target < 0 else UNKNOWN
                    if target < 0:
                        guess[level] = first[stack[level]]
                if 0 <= target < NOTHING:
                    fine = kinds[target] == ANY
                    columns[level] = target
                    out[target, record] = position
                position += 1
                fresh = True
                continue
            if target < 0:
                # Null stands for an object without anything; no other value does.
                fine = byte == 110
            column = target if 0 <= target < NOTHING else -1
            position = put(
                data, position, end, record, column, kinds, lows, highs, scales, out, reals, lengths, present
            )
            fine = fine and position >= 0
            after = True
        if not fine or space_end(data, position, end) != end:
            suspects[record] = 1
            for column in range(len(kinds)):
                present[column, record] = 0


WALK = Walk(walk, space_end, text_end, *SPELLING, put, utf8_end, entry_of, worth=200_000)
