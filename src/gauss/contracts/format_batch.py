"""Batch methods for formats without their own: a loop over `decode` and `encode`.

The built-in formats use the same functions for records that their fast paths do not handle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import BadRecord, BadRows, Decoded, Format, RecordFormat, SourceSchema
from gauss.model.details import capped
from gauss.model.errors import GaussError

if TYPE_CHECKING:
    from gauss.contracts.format_guard import GuardedFormat

Bad = list[tuple[int, str, str]]
_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)


def batched(made: RecordFormat) -> GuardedFormat:
    """The format with batch methods (its own, or a loop), guarded against unexpected exceptions. All formats that
    decode untrusted records are built here."""
    from gauss.contracts.format_guard import GuardedFormat

    if isinstance(made, GuardedFormat):
        return made
    return GuardedFormat(cast("Format", made) if hasattr(made, "decode_batch") else _Batched(made))


def blames_record(error: BaseException) -> bool:
    """Whether an exception of a codec is caused by the record: all except those that end the process and those that a
    retry may fix, such as an unavailable registry. A Rust panic is not an `Exception`."""
    if isinstance(error, GaussError):
        return not error.retryable
    return isinstance(error, Exception) or type(error).__module__ == "pyo3_runtime"


class _Batched:
    """Adds batch methods to a format of single records."""

    def __init__(self, records: RecordFormat) -> None:
        self._records = records
        schema = records.schema()
        self._fields = arrow_schema(schema.fields) if schema else pa.schema([])

    def schema(self) -> SourceSchema | None:
        return self._records.schema()

    def decode(self, data: bytes) -> dict[str, Any]:
        row = self._records.decode(data)
        if (found := _misfit(row, self._fields)) is not None:
            raise BadRecord("wrong_type", found)
        return row

    def encode(self, row: dict[str, Any]) -> bytes:
        return self._records.encode(row)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        rows, good, bad = decode_each(self._records.decode, enumerate(data.to_pylist()))
        return to_columns(rows, good, bad, fields)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        return encode_each(self._records.encode, rows)


def decode_each(decode: Callable[[Any], Any], records: Iterable[tuple[int, Any]]) -> tuple[list[Any], list[int], Bad]:
    """Decodes each (index, record). Returns rows, indexes of good records, and (index, reason, detail) of bad ones."""
    rows: list[Any] = []
    good: list[int] = []
    bad: Bad = []
    for index, record in records:
        try:
            rows.append(decode(record))
        except BaseException as error:
            if not blames_record(error):
                raise
            bad.append((index, *verdict(error)))
        else:
            good.append(index)
    return rows, good, bad


def encode_each(encode: Callable[[dict[str, Any]], bytes], rows: pa.RecordBatch) -> pa.BinaryArray:
    """Encodes each row. Raises BadRows."""
    try:
        records, _, bad = decode_each(encode, enumerate(rows.to_pylist()))
    except Exception:  # a value that Python cannot represent, such as the year 12345
        made = (lambda index: encode(rows.slice(index, 1).to_pylist()[0]), enumerate(range(len(rows))))
        records, _, bad = decode_each(*made)
    if bad:
        raise BadRows([(index, reason.replace("undecodable", "unencodable"), detail) for index, reason, detail in bad])
    return pa.array(records, pa.binary())


class Encoded(NamedTuple):
    """An encoded batch: the records, their row indexes (all rows if one record holds them), and the bad rows."""

    records: pa.BinaryArray
    good: np.ndarray
    bad: Bad


def encode_good(made: Format, rows: pa.RecordBatch, rest: pa.BinaryArray | None = None) -> Encoded:
    """Encodes all rows that can be encoded. With `rest`, adds them to those records."""
    good = np.arange(len(rows))
    try:
        return Encoded(_encode(made, rows, rest), good, [])
    except BadRows as error:
        bad = error.bad
    except BaseException as error:
        # A GaussError concerns the schema, not a row.
        if isinstance(error, GaussError) or not blames_record(error) or not (bad := _culprits(made, rows, rest)):
            raise
    good = np.delete(good, [index for index, _, _ in bad])
    kept = pa.array(good)
    return Encoded(_encode(made, rows.take(kept), None if rest is None else rest.take(kept)), good, bad)


def _culprits(made: Format, rows: pa.RecordBatch, rest: pa.BinaryArray | None) -> Bad:
    """The rows that cannot be encoded individually."""

    def encode(index: int) -> pa.BinaryArray:
        try:
            return _encode(made, rows.slice(index, 1), None if rest is None else rest.slice(index, 1))
        except BadRows as error:
            _, reason, detail = error.bad[0]
            raise BadRecord(reason, detail) from None

    _, _, bad = decode_each(encode, enumerate(range(len(rows))))
    return [(index, reason.replace("undecodable", "unencodable"), detail) for index, reason, detail in bad]


def _encode(made: Format, rows: pa.RecordBatch, rest: pa.BinaryArray | None) -> pa.BinaryArray:
    if rest is None:
        return made.encode_batch(rows)
    merged: pa.BinaryArray = made.merge_batch(rest, rows)  # type: ignore[attr-defined]  # the design has asked for it
    return merged


def projected_names(schema: SourceSchema, names: Iterable[str]) -> list[str]:
    """The columns of a result that are in a schema. `order` counts if a field is `$.order.id`."""
    known = {field.name.removeprefix("$.") for field in schema.fields}
    known |= {name.partition(".")[0] for name in known}
    return [name for name in names if name.removeprefix("$.") in known]


def verdict(error: BaseException) -> tuple[str, str]:
    """(reason, detail with the column) of an exception of `decode`."""
    if isinstance(error, BadRecord):
        return error.reason, capped((f"{error.column}: " if error.column else "") + error.detail)
    if isinstance(error, ValueError | GaussError):
        return "bad_utf8" if isinstance(error, UnicodeError) else "undecodable", capped(str(error))
    return "undecodable", capped(f"{type(error).__name__}: {error}")


def to_columns(rows: list[dict[str, Any]], good: list[int], bad: Bad, fields: pa.Schema) -> Decoded:
    """Converts rows to columns. A row with a value that does not fit its column becomes bad."""
    try:
        arrays = [pa.array([find(row, field.name) for row in rows], field.type) for field in fields]
    except _MISFITS:
        misfits = {place: found for place, row in enumerate(rows) if (found := _misfit(row, fields)) is not None}
        bad = sorted([*bad, *((good[place], "wrong_type", found) for place, found in misfits.items())])
        rows = [row for place, row in enumerate(rows) if place not in misfits]
        good = [index for place, index in enumerate(good) if place not in misfits]
        arrays = [pa.array([find(row, field.name) for row in rows], field.type) for field in fields]
    batch = pa.RecordBatch.from_arrays(arrays, schema=fields) if len(fields) else empty_rows(len(rows))
    return Decoded(batch, np.array(good, np.int64), bad)


def empty_rows(count: int) -> pa.RecordBatch:
    """A batch of rows without columns."""
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["_"]).select([])


def _misfit(row: dict[str, Any], fields: pa.Schema) -> str | None:
    for field in fields:
        value = None
        try:
            value = find(row, field.name)
            pa.array([value], field.type)
        except BadRecord as error:
            return verdict(error)[1]
        except _MISFITS:
            return f"{field.name}: {value!r:.100} is not a valid {field.type}"
    return None


def find(row: Any, name: str) -> Any:
    """A row's value by name, or by a path into it: `$.order.id`, `$.items[*].sku`."""
    if not name.startswith("$.") or (isinstance(row, dict) and name in row):
        return row.get(name) if isinstance(row, dict) else None
    return _walk(row, name[2:].split("."))


def _walk(value: Any, parts: list[str]) -> Any:
    for place, part in enumerate(parts):
        if not isinstance(value, dict):
            return None
        value = value.get(part.removesuffix("[*]"))
        if part.endswith("[*]"):
            rest = parts[place + 1 :]
            if not isinstance(value, list):
                return None if value is None else _not_array(part, value)
            return [_walk(item, rest) for item in value] if rest else value
    return value


def _not_array(part: str, value: Any) -> Any:
    raise BadRecord("wrong_type", f"expected an array, found {type(value).__name__}", part.removesuffix("[*]"))
