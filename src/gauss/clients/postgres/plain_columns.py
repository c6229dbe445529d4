"""Arrow columns of any type as those that `wire` and COPY can take: views, dictionaries, documents and intervals become
plain columns."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.errors import RowError
from gauss.clients.postgres.arrow_columns import is_document, is_list

_ENCODER = msgspec.json.Encoder(enc_hook=str, decimal_format="number")
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
_NANOS = 1_000


def plain_column(name: str, values: pa.Array) -> pa.Array:
    """The column in a plain layout; raises RowError for values that Postgres can't hold."""
    try:
        return _plain(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, TypeError) as error:
        raise RowError(
            f"column {name}: {values.type}: {str(error).splitlines()[0]}", reason="convert", column=name
        ) from error


def _plain(values: pa.Array) -> pa.Array:
    kind, kinds = values.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(values.storage)
    if kinds.is_dictionary(kind):
        return _plain(values.cast(kind.value_type))
    if is_document(kind):
        return _documents(values)
    if is_list(kind):
        return values.cast(pa.list_(_plain_element(kind.value_type)))
    if kinds.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if kinds.is_interval(kind):
        return _interval_text(values)
    target = _plain_element(kind)
    if target == kind:
        return values
    if kinds.is_time(kind) or kinds.is_duration(kind):
        # Postgres has microseconds: a finer value is cut, as it is for timestamps.
        return values.cast(target, safe=False)
    return values.cast(target)


def _plain_element(kind: pa.DataType) -> pa.DataType:
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return _plain_element(kind.value_type)
    if is_list(kind):
        return pa.list_(_plain_element(kind.value_type))
    if kinds.is_large_string(kind) or kinds.is_string_view(kind) or kinds.is_null(kind):
        return pa.string()
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind):
        return pa.binary()
    if kinds.is_date64(kind):
        return pa.date32()
    if kinds.is_time(kind):
        return pa.time64("us")
    if kinds.is_duration(kind):
        return pa.duration("us")
    return kind


def _documents(values: pa.Array) -> pa.Array:
    """JSON text of each value. Arrow has no such function: these are the only rows that become Python objects."""
    plain = values.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else _json(value) for value in plain], pa.string())


def _json(value: Any) -> str:
    return _ENCODER.encode(value).decode()


def _interval_text(values: pa.Array) -> pa.Array:
    """Intervals as Postgres reads them: `1 mons 2 days 3 microseconds`."""
    raw = np.frombuffer(values.buffers()[1], _INTERVAL)[values.offset : values.offset + len(values)]
    units = ((raw["months"], " mons "), (raw["days"], " days "), (raw["nanos"] // _NANOS, " microseconds"))
    parts: list[Any] = []
    for numbers, unit in units:
        parts += [pa.array(np.ascontiguousarray(numbers)).cast(pa.string()), pa.scalar(unit)]
    text = pc.binary_join_element_wise(*parts, "")
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))
