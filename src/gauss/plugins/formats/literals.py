"""What stands in plain objects, read byte by byte: text without escapes, numbers, dates and times; for machine code."""

from __future__ import annotations

from typing import Any

import numpy as np

ODD = -(1 << 62)
ENOUGH = 10**17
"""A number from here on takes no more digits."""
BLOCK = 128
ZERO = np.uint8(0)
POWERS = np.array([10.0**power for power in range(23)])


def space_end(data: Any, position: int, end: int) -> int:
    while position < end and data[position] <= 32:
        byte = data[position]
        if byte != 32 and byte != 10 and byte != 13 and byte != 9:  # noqa: PLR1714 (a tuple would be built)
            return position
        position += 1
    return position


def text_end(data: Any, position: int, end: int) -> int:
    """Where the closing quote stands; -1 for text with an escape or without an end."""
    near = min(position + BLOCK, end)
    while position < end:
        while position < near:
            byte = data[position]
            if byte == 34:
                return position
            if byte == 92 or byte < 32:
                return -1
            position += 1
        # Long text is passed over by blocks, each a loop that the compiler turns into one over many bytes at a time.
        odd = ZERO
        while odd == 0 and end - position >= BLOCK:
            block = data[position : position + BLOCK]
            for at in range(BLOCK):
                byte = block[at]
                odd = max(odd, np.uint8((byte == 34) | (byte == 92) | (byte < 32)))
            position += BLOCK if odd == 0 else 0
        near = end
    return -1


def number(data: Any, position: int, end: int) -> tuple[int, int, int, int]:
    """(where it ends or -1, all its digits as one number, how many of them stand behind the point, the sign)."""
    sign = 1
    if data[position] == 45:
        sign, position = -1, position + 1
    first, value, fraction = position, 0, 0
    while position < end and 48 <= data[position] <= 57:
        if value >= ENOUGH:
            return -1, 0, 0, 0
        value = value * 10 + (data[position] - 48)
        position += 1
    if position == first or (data[first] == 48 and position > first + 1):
        return -1, 0, 0, 0
    if position < end and data[position] == 46:
        position += 1
        first = position
        while position < end and 48 <= data[position] <= 57:
            if value >= ENOUGH or position - first == 22:
                return -1, 0, 0, 0
            value = value * 10 + (data[position] - 48)
            position += 1
        fraction = position - first
        if fraction == 0:
            return -1, 0, 0, 0
    if (position < end and (data[position] | 32) == 101) or (value == 0 and sign < 0):
        return -1, 0, 0, 0
    return position, value, fraction, sign


def nearest(value: int, fraction: int) -> float:
    """The double nearest to value / 10^fraction; NaN where that can't be told."""
    power: float = POWERS[fraction]
    if value < 1 << 53:
        return value / power  # both are exact, so the quotient is rounded once
    high = float(value >> 20) * 1048576.0
    low = float(value & 1048575)
    quotient = (high + low) / power
    # What is missing of the quotient, exactly: Dekker's product.
    product = quotient * power
    one = quotient * 134217729.0
    one = one - (one - quotient)
    other = power * 134217729.0
    other = other - (other - power)
    two, rest = quotient - one, power - other
    error = ((one * other - product) + one * rest + two * other) + two * rest
    missing = (((high - product) + low) - error) / power
    found = quotient + missing
    if found != quotient + missing * 1.0000001 or found != quotient + missing * 0.9999999:
        return float("nan")
    return found


def two(data: Any, position: int) -> int:
    tens, ones = data[position] - 48, data[position + 1] - 48
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else -1000000


def date_of(data: Any, position: int) -> int:
    """Days since 1970 of `2026-01-02`."""
    century, years, month, day = (
        two(data, position),
        two(data, position + 2),
        two(data, position + 5),
        two(data, position + 8),
    )
    year = century * 100 + years
    if data[position + 4] != 45 or data[position + 7] != 45 or century < 0 or years < 0 or year < 1:
        return ODD
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 31 - (month in (4, 6, 9, 11)) - (month == 2) * (2 if leap else 3)
    if month < 1 or month > 12 or day < 1 or day > longest:
        return ODD
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def moment_of(data: Any, position: int, length: int) -> int:
    """Microseconds since 1970."""
    if length < 20 or length > 27 or data[position + 10] != 84 or data[position + length - 1] != 90:
        return ODD
    days = date_of(data, position)
    hour, minute, second = two(data, position + 11), two(data, position + 14), two(data, position + 17)
    fine = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60
    if days == ODD or not fine or data[position + 13] != 58 or data[position + 16] != 58:
        return ODD
    micros = 0
    if length > 20:
        if data[position + 19] != 46 or length == 21:
            return ODD
        for place in range(20, 26):
            digit = data[position + place] - 48 if place < length - 1 else 0
            if digit < 0 or digit > 9:
                return ODD
            micros = micros * 10 + digit
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000000 + micros
