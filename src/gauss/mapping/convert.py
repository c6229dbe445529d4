"""Values of one type as values of another: by Arrow's checked casts, or by a converter made for the pair.

Nothing is rounded, cut or guessed: a value that does not fit is a verdict about its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.format import FieldType
from gauss.contracts.table import Converter
from gauss.model.errors import ConfigError


class Failed(NamedTuple):
    """A value that could not be converted."""

    row: int
    reason: str
    detail: str


def find(
    source: FieldType,
    target: FieldType,
    given: pa.DataType,
    wanted: pa.DataType,
    special: Mapping[tuple[str, str], Converter],
) -> Converter:
    """The converter for a pair of types; raises ConfigError if there is none."""
    if (found := special.get((source.name, target.name))) is not None:
        return found
    if source.name == "timestamp" and pa.types.is_integer(given) and pa.types.is_timestamp(wanted):
        return NANOSECONDS
    if given.equals(wanted):
        return AS_IT_IS
    for test, converter in _GENERIC:
        if test(given, wanted):
            return converter
    try:
        pa.nulls(0, given).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(
            f"a {source.name} can't become a {target.name}", hint="give the column another type in the schema map"
        ) from None
    return CAST


def convert_rows(values: pa.Array, converter: Converter, wanted: pa.DataType) -> tuple[pa.Array, list[Failed]]:
    """Converts all values; those that do not fit are null and reported, found by bisection."""
    try:
        return converter.run(values, wanted), []
    except pa.ArrowInvalid as error:
        if len(values) == 1:
            return pa.nulls(1, wanted), [Failed(0, "conversion", str(error))]
    middle = len(values) // 2
    left, left_failed = convert_rows(values[:middle], converter, wanted)
    right, right_failed = convert_rows(values[middle:], converter, wanted)
    shifted = [failed._replace(row=failed.row + middle) for failed in right_failed]
    return pa.concat_arrays([left, right]), left_failed + shifted


def _ticks_to_time(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Converts nanoseconds since 1970, the form of timestamps that are too fine for Spark."""
    return _cut(values.view(pa.timestamp("ns", tz="UTC")), wanted)


_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _cut(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Truncates times to the target's precision."""
    order = list(_UNITS)
    if order.index(wanted.unit) < order.index(values.type.unit):
        values = pc.floor_temporal(values, unit=_UNITS[wanted.unit])
    return values.cast(wanted)


def _text_of_bytes(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return values.cast(pa.string()).cast(wanted)  # Arrow checks that the bytes are UTF-8


def _time_to_number(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Converts a time to milliseconds since 1970, as in `ts_ms`."""
    return values.cast(pa.timestamp("ms", tz=values.type.tz), safe=False).cast(pa.int64()).cast(wanted)


def _number_to_time(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return _cut(values.cast(pa.int64()).cast(pa.timestamp("ms", tz="UTC")), wanted)


def _text_to_time(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Parses ISO 8601. Without a zone it is UTC, as in every format."""
    zoned = pc.match_substring_regex(values, r"(Z|[+-]\d\d:?\d\d)$")
    return pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", "")).cast(wanted)


NANOSECONDS = Converter("nanoseconds to time", _ticks_to_time)
AS_IT_IS = Converter("as it is", lambda values, _: values)
CAST = Converter("checked cast", lambda values, wanted: values.cast(wanted))

_GENERIC: list[tuple[Callable[[pa.DataType, pa.DataType], bool], Converter]] = [
    (lambda a, b: pa.types.is_binary(a) and pa.types.is_string(b), Converter("text of bytes", _text_of_bytes)),
    (lambda a, b: pa.types.is_timestamp(a) and pa.types.is_integer(b), Converter("time to ms", _time_to_number)),
    (lambda a, b: pa.types.is_integer(a) and pa.types.is_timestamp(b), Converter("ms to time", _number_to_time)),
    (lambda a, b: pa.types.is_string(a) and pa.types.is_timestamp(b), Converter("text to time", _text_to_time)),
]
