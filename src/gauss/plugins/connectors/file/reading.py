"""What the readers of all formats share: pieces of a file, and columns of which some values do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.file.listing import DataFile

BAD_VALUE = (pa.ArrowException, ValueError, TypeError, ArithmeticError)
"""What conversions of a value raise."""


class Piece(NamedTuple):
    """Rows of a file in its order."""

    rows: pa.RecordBatch
    end: int
    """Number of records of the file up to here, with those that were rejected."""


Columns = Callable[[], pa.Schema]


class Reject(Protocol):
    """Takes a row that can't be read. `number`: counted from 1 in its file, without a header."""

    def __call__(self, number: int, row: pa.RecordBatch, reason: str, column: str = "") -> None: ...


class OnNewColumns(Protocol):
    """Takes columns of a file that the schema lacks, and known ones with new fields. `place`: behind the file name."""

    def __call__(self, file: DataFile, place: str, found: pa.Schema) -> None: ...


class ReadOptions(NamedTuple):
    """How text files are read, and what is skipped."""

    header: bool
    delimiter: str
    quote: str
    null_text: list[str]
    batch_bytes: int
    record_bytes: int
    text_columns: tuple[str, ...] = ()
    on_new_columns: OnNewColumns | None = None
    """Called with columns that the schema lacks. None: they are left out."""


@contextmanager
def opened(file: DataFile) -> Iterator[Any]:
    """The bytes of a file, decompressed."""
    with pa.OSFile(str(file.path)) as raw:
        if not file.kind.compression:
            yield raw
            return
        with pa.CompressedInputStream(raw, file.kind.compression) as data:
            yield data


def converted(
    given: pa.Array, kind: pa.DataType, convert: Callable[[pa.Array], pa.Array]
) -> tuple[pa.Array, list[tuple[int, str]]]:
    """The values of a column in a type, and the index of each that does not fit, with the reason."""
    try:
        return convert(given), []
    except BAD_VALUE as error:
        if len(given) == 1:
            return pa.nulls(1, kind), [(0, str(error).splitlines()[0][:200])]
    middle = len(given) // 2
    # Copies: a slice of lists is converted with the values of all rows, also of those outside of it.
    left, bad = converted(pa.concat_arrays([given[:middle]]), kind, convert)
    right, more = converted(pa.concat_arrays([given[middle:]]), kind, convert)
    joined = pa.concat_arrays([left, right]) if not pa.types.is_dictionary(kind) else _joined(left, right, kind)
    return joined, [*bad, *((middle + place, reason) for place, reason in more)]


def _joined(left: pa.Array, right: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parts of a column whose dictionaries may differ."""
    return pa.chunked_array([left, right], kind).unify_dictionaries().combine_chunks()


def convert_rows(
    given: pa.RecordBatch,
    schema: pa.Schema,
    convert: Callable[[pa.Array, pa.DataType], pa.Array],
    numbers: np.ndarray[Any, Any],
    reject: Reject,
) -> pa.RecordBatch:
    """Rows with the columns of a schema: absent ones are null. Rows with a value that does not fit are rejected."""
    columns: list[pa.Array] = []
    bad: dict[int, tuple[str, str]] = {}
    for field in schema:
        if field.name not in given.schema.names:
            columns.append(pa.nulls(given.num_rows, field.type))
            continue
        column = given.column(field.name)
        made, misfits = converted(column, field.type, lambda part, kind=field.type: convert(part, kind))  # type: ignore[misc]
        columns.append(made)
        for place, reason in misfits:
            bad.setdefault(place, (field.name, reason))
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    if not bad:
        return rows
    for place, (column, reason) in sorted(bad.items()):
        reject(int(numbers[place]), given.slice(place, 1), reason, column)
    keep = np.ones(given.num_rows, dtype=bool)
    keep[list(bad)] = False
    return rows.filter(pa.array(keep))


def check_names(file: DataFile, names: list[str], known: pa.Schema, options: ReadOptions, columns: Columns) -> None:
    """Tells of columns of a file that a schema lacks. `columns`: all columns of the file."""
    if options.on_new_columns is not None and not set(names) <= set(known.names):
        options.on_new_columns(file, "", pa.schema([each for each in columns() if each.name not in known.names]))


def with_new(known: pa.Schema, found: pa.Schema) -> pa.Schema:
    """The known columns with the new fields of structs in them, and new columns."""
    fields = [
        each.with_type(grown(each.type, found.field(each.name).type)) if each.name in found.names else each
        for each in known
    ]
    # The rows before a new column have no value for it.
    return pa.schema([*fields, *(each.with_nullable(True) for each in found if each.name not in known.names)])


def grown(known: pa.DataType, found: pa.DataType) -> pa.DataType:
    """A type with the new fields of the structs in it; all else stays."""
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        return pa.struct(list(with_new(pa.schema(known.fields), pa.schema(found.fields))))
    if pa.types.is_list(known) and pa.types.is_list(found):
        return pa.list_(known.value_field.with_type(grown(known.value_type, found.value_type)))
    return known


def split(rows: pa.RecordBatch, batch_bytes: int) -> list[pa.RecordBatch]:
    """Rows in slices that are small enough, or have one row."""
    if rows.nbytes <= batch_bytes or rows.num_rows <= 1:
        return [rows] if rows.num_rows else []
    count = min(-(-rows.nbytes // batch_bytes), rows.num_rows)
    step = -(-rows.num_rows // count)
    slices = (rows.slice(start, step) for start in range(0, rows.num_rows, step))
    return [each for part in slices for each in ([part] if part.nbytes <= batch_bytes else _halves(part, batch_bytes))]


def _halves(rows: pa.RecordBatch, batch_bytes: int) -> list[pa.RecordBatch]:
    if rows.nbytes <= batch_bytes or rows.num_rows == 1:
        return [rows]
    middle = rows.num_rows // 2
    return [*_halves(rows.slice(0, middle), batch_bytes), *_halves(rows.slice(middle), batch_bytes)]


def too_large(size: int, most: int) -> ConnectorError:
    """The error of a record above the limit."""
    return ConnectorError.data(
        "RECORD_TOO_LARGE",
        f"a record has at most {most:,} bytes, found {size:,}",
        hint="raise max_record_bytes and max_batch_bytes in limits",
    )
