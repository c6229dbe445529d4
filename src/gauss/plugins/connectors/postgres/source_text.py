"""Values in Postgres' text form as Arrow: equal to what `source_decode` makes of their binary form.

The text is that of a session with `DateStyle = ISO`, `TimeZone = UTC`, `IntervalStyle = iso_8601` and
`bytea_output = hex`. A column may have had another type when a value was written: text that is not of the type is
no value, since the server has converted the rest of the column in ways that are not known here.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.plugins.connectors.postgres.catalog_types import Reading
from gauss.plugins.connectors.postgres.source_decode import DAY_US, is_text
from gauss.plugins.connectors.postgres.source_position import micros_of
from gauss.plugins.connectors.postgres.source_text_arrays import split_arrays

Values = tuple[pa.Array, np.ndarray | None]
"""(values, which have no Arrow value and are null; None: all have one)."""
_NOT_NUMBERS = pa.array(["NaN", "Infinity", "-Infinity"])
_COMMON_DATE, _COMMON_TIME = r"^[0-9]{4}-[0-9-]{5}$", r"^[0-9]{4}-[0-9-]{5} [0-9:.]{8,15}$"


def text_column(pieces: pa.Array, reading: Reading, money_scale: int) -> Values:
    """A column of texts, as binary values, in the type of its reading. `money_scale`: digits behind the point of
    `money` on that server."""
    values, odd = _text(pieces)
    if reading.kind == "text" or not len(values):
        return (values if len(values) else pa.array([], reading.arrow)), odd
    try:
        made, bad = _typed(values, reading, money_scale)
    except ValueError:
        made, bad = _one_by_one(values, reading, money_scale)
    return made, bad if odd is None else odd if bad is None else odd | bad


def _typed(values: pa.Array, reading: Reading, money_scale: int) -> Values:
    if reading.kind == "list":
        return _list(values, reading, money_scale)
    if reading.kind == "money":
        return _money(values, money_scale)
    return _CONVERTERS.get(reading.kind, _cast)(values, reading)


def _text(values: pa.Array) -> Values:
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        odd = np.fromiter((not is_text(value) for value in values.to_pylist()), bool, len(values))
        return pc.if_else(pa.array(odd), pa.scalar(None, pa.binary()), values).cast(pa.string()), odd


def _one_by_one(values: pa.Array, reading: Reading, money_scale: int) -> Values:
    """The same for values of which some are not of the type."""
    odd, made = np.zeros(len(values), bool), []
    for place in range(len(values)):
        try:
            one, bad = _typed(values[place : place + 1], reading, money_scale)
            odd[place] = bad is not None and bad[0]
        except ValueError:
            one, odd[place] = pa.nulls(1, reading.arrow), True
        made.append(one)
    return pa.concat_arrays(made), odd


def _must_match(values: pa.Array, pattern: str, *, matches: bool = True) -> None:
    """Raises ValueError if the text of a value matches the pattern, or does not."""
    if pc.any(pc.not_equal(pc.match_substring_regex(values, pattern), matches)).as_py():
        raise ValueError(f"a value {'does not match' if matches else 'matches'} {pattern}")


def _cast(values: pa.Array, reading: Reading) -> Values:
    return values.cast(reading.arrow), None


def _bool(values: pa.Array, _: Reading) -> Values:
    _must_match(values, "^[tf]$")
    return pc.equal(values, "t"), None


def _same(values: pa.Array, _: Reading) -> Values:
    return values, None


def _inet(values: pa.Array, _: Reading) -> Values:
    """The cast to text writes the netmask of every address, the output function leaves out that of a host."""
    host = pc.if_else(pc.match_substring(values, ":"), "/128", "/32")
    whole = pc.binary_join_element_wise(values, host, "")
    return pc.if_else(pc.match_substring(values, "/"), values, whole), None


def _money(values: pa.Array, scale: int) -> Values:
    """`-$1,234.50` as `-1234.50`; sign, separators and currency depend on the locale, the digits do not."""
    digits = pc.replace_substring_regex(values, "[^0-9]", "")
    if scale:
        _must_match(values, rf"[0-9][^0-9][0-9]{{{scale}}}[^0-9]*$")
        digits = pc.replace_substring_regex(digits, rf"^0*([0-9]+)([0-9]{{{scale}}})$", r"\1.\2")
    negative = pc.match_substring_regex(values, r"[-(]")
    return pc.if_else(negative, pc.binary_join_element_wise("-", digits, ""), digits), None


def _number(values: pa.Array, _: Reading) -> Values:
    odd = pc.is_in(values, value_set=_NOT_NUMBERS).to_numpy(zero_copy_only=False)
    return (pc.if_else(pa.array(odd), pa.scalar(None, pa.string()), values) if odd.any() else values), odd


def _decimal(values: pa.Array, reading: Reading) -> Values:
    numbers, odd = _number(values, reading)
    return numbers.cast(reading.arrow), odd


def _bytea(values: pa.Array, _: Reading) -> Values:
    """`\\x` and hexadecimal digits, all rows at once."""
    _must_match(values, r"^\\x")
    digits = pc.utf8_slice_codeunits(values, 2)
    if digits.offset or digits.null_count == len(digits):
        digits = pa.concat_arrays([digits, pa.array([""])])[:-1]
    valid, offsets, data = digits.buffers()
    places = np.frombuffer(offsets, np.int32)[: len(digits) + 1]
    first, last = int(places[0]), int(places[-1])
    made = unhexlify(memoryview(data)[first:last]) if data is not None else b""
    halves = pa.py_buffer(((places - first) // 2).astype(np.int32).tobytes())
    return pa.BinaryArray.from_buffers(pa.binary(), len(digits), [valid, halves, pa.py_buffer(made)]), None


def _timestamp(values: pa.Array, reading: Reading) -> Values:
    zoned = bool(reading.arrow.tz)
    # Between a time with and one without a zone, the zone of a session decides.
    _must_match(values, r"(\+00( BC)?|infinity)$" if zoned else r"\+00( BC)?$", matches=zoned)
    plain = pc.replace_substring_regex(values, r"\+00( BC)?$", r"\1") if zoned else values
    numbers, odd = _moments(plain, _COMMON_TIME, pa.timestamp("us"), 1)
    return numbers.view(reading.arrow), odd


def _date(values: pa.Array, reading: Reading) -> Values:
    numbers, odd = _moments(values, _COMMON_DATE, reading.arrow, DAY_US)
    return numbers.view(reading.arrow), odd


def _moments(values: pa.Array, common: str, kind: pa.DataType, unit_us: int) -> Values:
    """Units since 1970. Arrow reads the years 0001 to 9999; the others are rare."""
    number = pa.int32() if kind.bit_width == 32 else pa.int64()
    usual = pc.match_substring_regex(values, common)
    numbers = pc.if_else(usual, values, pa.scalar(None, pa.string())).cast(kind).cast(number)
    if pc.all(usual, min_count=0).as_py():
        return numbers, None
    odd, made = np.zeros(len(values), bool), numbers.to_pylist()
    for place in pc.indices_nonzero(pc.fill_null(pc.invert(usual), False)).to_pylist():
        try:
            made[place] = micros_of(values[place].as_py()) // unit_us
        except ValueError:  # infinity
            odd[place] = True
            continue
        if made[place] >= 1 << (kind.bit_width - 1):
            odd[place], made[place] = True, None
    return pa.array(made, number), odd


def _time(values: pa.Array, reading: Reading) -> Values:
    """As times of the first day of 1970."""
    odd = pc.fill_null(pc.starts_with(values, "24:"), False).to_numpy(zero_copy_only=False)
    there = pc.if_else(pa.array(odd), pa.scalar(None, pa.string()), values)
    moments = pc.binary_join_element_wise("1970-01-01", there, " ").cast(pa.timestamp("us"))
    return moments.cast(pa.int64()).view(reading.arrow), odd


def _list(values: pa.Array, reading: Reading, money_scale: int) -> Values:
    assert reading.element is not None
    counts, elements, odd = split_arrays(values, reading.delimiter)
    made, bad = text_column(elements.cast(pa.binary()), reading.element, money_scale)
    if bad is not None and bad.any():
        odd[np.repeat(np.arange(len(counts)), counts)[bad]] = True
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    null = values.is_null().to_numpy(zero_copy_only=False) | odd
    mask = pa.array(null) if null.any() else None
    return pa.ListArray.from_arrays(offsets, made, type=reading.arrow, mask=mask), odd


_CONVERTERS: dict[str, Callable[[pa.Array, Reading], Values]] = {
    "bool": _bool,
    "jsonb": _same,
    "uuid": _same,
    "inet": _inet,
    "bytea": _bytea,
    "number": _number,
    "decimal": _decimal,
    "numeric": _decimal,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
}
