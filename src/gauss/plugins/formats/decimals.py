"""Exact decimals, without the arithmetic of Python's default context, which rounds at 28 digits."""

from __future__ import annotations

from decimal import Decimal


def unscaled(value: Decimal | int, scale: int) -> int | None:
    """`value` as an integer in units of 10^-scale; None if that would round it."""
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):  # NaN or infinite
        return None
    number: int = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    if shift < 0:
        if shift < -4000:
            return 0 if number == 0 else None
        number, rest = divmod(number, int(10**-shift))
        if rest:
            return None
    elif shift > 4000:
        return 0 if number == 0 else None
    else:
        number *= int(10**shift)
    return -number if sign else number


def scaled(number: int, scale: int) -> Decimal:
    """The decimal of an integer in units of 10^-scale."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
