"""Values for tests of formats: random values of a type, and the limits of the type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INT8, INT16, INT32, INT64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64))
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
DOUBLE = st.floats()
FLOAT = st.floats(width=32)
DECIMAL_38_8 = st.integers(-(10**38) + 1, 10**38 - 1).map(
    lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -8))
)
TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(lambda time: time.replace(tzinfo=dt.UTC))
MILLIS = TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
DATES = st.dates()
BIG_DECIMAL = Decimal("999999999999999999999999999999.99999999")
MEGABYTE = "é" * 524_288
