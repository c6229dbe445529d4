"""Decodes columns of numeric(p, s) up to 18 digits, which fit 64-bit integers, without a loop over rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

MOST_DIGITS = 18
_HEAD_WORDS = 4  # count of digits, weight, sign, scale as shown
_MOST_WORDS = 12
_NEGATIVE = 0x4000


def decode(
    body: np.ndarray, starts: np.ndarray, lengths: np.ndarray, precision: int, scale: int
) -> tuple[pa.Array, np.ndarray]:
    """(values, which are left to the row codec); `starts` and `lengths` say where each value lies, below 0 for null."""
    null = lengths < 0
    values, plain = np.zeros(len(starts), np.int64), null.copy()
    for digits in range(_MOST_WORDS):
        width = 2 * (_HEAD_WORDS + digits)
        at = np.flatnonzero(lengths == width)
        if len(at):
            words = body[starts[at][:, None] + np.arange(width)].view(">u2").astype(np.int64)
            values[at], plain[at] = _whole(words, digits, scale)
    plain &= np.abs(values) < 10**precision
    limbs = np.stack([values, values >> 63], axis=1)
    valid = pa.array(~null).buffers()[1] if null.any() else None
    kind = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(limbs.astype("<i8"))]), ~plain


def _whole(words: np.ndarray, digits: int, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """(the values times 10**scale, which of them that gives exactly) of numerics with so many digits of base 10000."""
    count, weight, sign = words[:, 0], words[:, 1].astype(np.int16).astype(np.int64), words[:, 2]
    plain = (count == digits) & ((sign == 0) | (sign == _NEGATIVE))
    total = np.zeros(len(words), np.int64)
    for number in range(digits):
        digit = words[:, _HEAD_WORDS + number]
        power = 4 * (weight - number) + scale
        up, down = 10 ** np.clip(power, 0, MOST_DIGITS), 10 ** np.clip(-power, 0, 4)
        # A zero has no place that it could be out of.
        fits = (power <= MOST_DIGITS) & (digit * 10.0 ** np.clip(power, 0, MOST_DIGITS) < 10.0**MOST_DIGITS)
        plain &= (digit <= 9999) & ((digit == 0) | (fits & (digit % down == 0)))
        total += np.where(plain, digit, 0) // down * up
    return np.where(sign == _NEGATIVE, -total, total), plain
