"""Literals read byte by byte, for machine code: text without escapes, numbers, dates and timestamps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gauss.plugins.formats.ascii_codes import (
    BACKSLASH,
    CARRIAGE_RETURN,
    COLON,
    DIGIT_0,
    DIGIT_9,
    FIRST_NON_ASCII,
    LOWER_E,
    MINUS,
    NEWLINE,
    POINT,
    QUOTE,
    SPACE,
    TAB,
    TO_LOWER,
    UPPER_T,
    UPPER_Z,
)

NOT_PLAIN = -(1 << 62)
"""Returned for a date or timestamp that is malformed or in a rare spelling."""
MAX_DIGITS_VALUE = 10**17
"""A number of this size takes no more digits: another one could overflow 64 bits."""
MAX_FRACTION_DIGITS = 22
BLOCK = 128
ZERO = np.uint8(0)
POWERS = np.array([10.0**power for power in range(MAX_FRACTION_DIGITS + 1)])
TRUE, FALSE, NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))

DATE_LENGTH = len("2026-01-02")
SHORTEST_TIMESTAMP = len("2026-01-02T03:04:05Z")
LONGEST_TIMESTAMP = len("2026-01-02T03:04:05.678901Z")


class Number(NamedTuple):
    """A decimal number: sign * digits / 10^scale."""

    end: int
    """Where it ends in the bytes; -1 if it is malformed, too long or has an exponent."""
    digits: int
    scale: int
    sign: int


NO_NUMBER = Number(-1, 0, 0, 0)


def utf8_end(data: Any, position: int, stop: int) -> int:
    """`stop` if the bytes up to there are UTF-8, else -1."""
    while position < stop:
        byte = data[position] & 255
        position += 1
        if byte < FIRST_NON_ASCII:
            continue
        # RFC 3629, section 4: how many bytes follow, and the range of the first of them.
        follow, low, high = 0, 0x80, 0xBF
        if 0xC2 <= byte <= 0xDF:
            follow = 1
        elif 0xE0 <= byte <= 0xEF:
            follow = 2
            low = 0xA0 if byte == 0xE0 else 0x80
            high = 0x9F if byte == 0xED else 0xBF
        elif 0xF0 <= byte <= 0xF4:
            follow = 3
            low = 0x90 if byte == 0xF0 else 0x80
            high = 0x8F if byte == 0xF4 else 0xBF
        if follow == 0 or position + follow > stop:
            return -1
        for _ in range(follow):
            byte = data[position] & 255
            if not low <= byte <= high:
                return -1
            low, high = 0x80, 0xBF
            position += 1
    return stop


def same(data: Any, start: int, stop: int, text: Any) -> bool:
    """Whether data[start:stop] is `text`."""
    if stop - start != len(text):
        return False
    for index in range(len(text)):  # noqa: SIM110 (numba has no generators)
        if data[start + index] != text[index]:
            return False
    return True


def space_end(data: Any, position: int, end: int) -> int:
    """The first position from here on that is not white space."""
    while position < end and data[position] <= SPACE:
        byte = data[position]
        if byte != SPACE and byte != NEWLINE and byte != CARRIAGE_RETURN and byte != TAB:  # noqa: PLR1714 (faster)
            return position
        position += 1
    return position


def text_end(data: Any, position: int, end: int) -> int:
    """Position of the closing quote; -1 for text with an escape or control character, or without an end."""
    near = min(position + BLOCK, end)
    while position < end:
        while position < near:
            byte = data[position]
            if byte == QUOTE:
                return position
            if byte == BACKSLASH or byte < SPACE:
                return -1
            position += 1
        # Long text is checked by blocks, in a loop without exits that the compiler vectorises.
        odd = ZERO
        while odd == 0 and end - position >= BLOCK:
            block = data[position : position + BLOCK]
            for at in range(BLOCK):
                byte = block[at]
                odd = max(odd, np.uint8((byte == QUOTE) | (byte == BACKSLASH) | (byte < SPACE)))
            position += BLOCK if odd == 0 else 0
        near = end
    return -1


def read_number(data: Any, position: int, end: int) -> Number:
    """The number that begins here, which must not be the end."""
    sign = 1
    if data[position] == MINUS:
        sign, position = -1, position + 1
    first, digits, scale = position, 0, 0
    while position < end and DIGIT_0 <= data[position] <= DIGIT_9:
        if digits >= MAX_DIGITS_VALUE:
            return NO_NUMBER
        digits = digits * 10 + (data[position] - DIGIT_0)
        position += 1
    if position == first or (data[first] == DIGIT_0 and position > first + 1):
        return NO_NUMBER
    if position < end and data[position] == POINT:
        position += 1
        first = position
        while position < end and DIGIT_0 <= data[position] <= DIGIT_9:
            if digits >= MAX_DIGITS_VALUE or position - first == MAX_FRACTION_DIGITS:
                return NO_NUMBER
            digits = digits * 10 + (data[position] - DIGIT_0)
            position += 1
        scale = position - first
        if scale == 0:
            return NO_NUMBER
    if (position < end and (data[position] | TO_LOWER) == LOWER_E) or (digits == 0 and sign < 0):
        return NO_NUMBER
    return Number(position, digits, scale, sign)


def nearest_double(digits: int, scale: int) -> float:
    """The double nearest to digits / 10^scale; NaN if this arithmetic can't decide between two."""
    power: float = POWERS[scale]
    if digits < 1 << 53:
        return digits / power  # both are exact, so the quotient is rounded once
    high = float(digits >> 20) * 1048576.0
    low = float(digits & 1048575)
    quotient = (high + low) / power
    # The exact error of the quotient, by Dekker's product.
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


def two_digits(data: Any, position: int) -> int:
    """A number of two digits; far below zero if they are none."""
    tens, ones = data[position] - DIGIT_0, data[position + 1] - DIGIT_0
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else -1000000


def read_date(data: Any, position: int) -> int:
    """Days since 1970 of ten bytes like `2026-01-02`, or NOT_PLAIN."""
    century, years, month, day = (
        two_digits(data, position),
        two_digits(data, position + 2),
        two_digits(data, position + 5),
        two_digits(data, position + 8),
    )
    year = century * 100 + years
    if data[position + 4] != MINUS or data[position + 7] != MINUS or century < 0 or years < 0 or year < 1:
        return NOT_PLAIN
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 31 - (month in (4, 6, 9, 11)) - (month == 2) * (2 if leap else 3)
    if month < 1 or month > 12 or day < 1 or day > longest:
        return NOT_PLAIN
    # Years that begin in March, in eras of 400 years: the leap day is the last of its year.
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def read_timestamp(data: Any, position: int, length: int) -> int:
    """Microseconds since 1970 of text like `2026-01-02T03:04:05.678Z`, or NOT_PLAIN."""
    if length < SHORTEST_TIMESTAMP or length > LONGEST_TIMESTAMP:
        return NOT_PLAIN
    if data[position + 10] != UPPER_T or data[position + length - 1] != UPPER_Z:
        return NOT_PLAIN
    days = read_date(data, position)
    hour = two_digits(data, position + 11)
    minute = two_digits(data, position + 14)
    second = two_digits(data, position + 17)
    fine = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60
    if days == NOT_PLAIN or not fine or data[position + 13] != COLON or data[position + 16] != COLON:
        return NOT_PLAIN
    micros = 0
    if length > SHORTEST_TIMESTAMP:
        if data[position + 19] != POINT or length == SHORTEST_TIMESTAMP + 1:
            return NOT_PLAIN
        for place in range(20, 26):
            digit = data[position + place] - DIGIT_0 if place < length - 1 else 0
            if digit < 0 or digit > 9:
                return NOT_PLAIN
            micros = micros * 10 + digit
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000000 + micros
