"""Reads rows from Postgres as Arrow: a stream of one COPY in one REPEATABLE READ transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql as psql

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.errors import sorted_errors
from gauss.clients.postgres.quote import identifier
from gauss.clients.where import SqlCondition
from gauss.contracts.expression import Expr, Kind
from gauss.contracts.table_read import PAGE_BYTES, PAGE_ROWS, TableColumn

CHUNK_ROWS = 512
"""Rows between two checks of the page size."""


@dataclass
class PostgresSql:
    """Names and values of one statement; the driver quotes values, since COPY has no parameters."""

    connection: Connection

    def identifier(self, name: str) -> str:
        return identifier(name)

    def value(self, value: bool | int | float | str) -> str:
        return psql.Literal(value).as_string(self.connection)

    def ordered(self, column: str) -> str:
        return f'{column} COLLATE "C"'

    def test(self, name: str, column: str, argument: str) -> str:
        if name == "startswith":
            return f"starts_with({column}, {argument})"
        if name == "contains":
            return f"strpos({column}, {argument}) > 0"
        return f"right({column}, length({argument})) = {argument}"


@dataclass
class PostgresSelection:
    """The parts of a SELECT statement."""

    table: str
    """The quoted name."""
    columns: Sequence[TableColumn]
    present: frozenset[str]
    """Columns that the live table has; the others are null."""
    sql: PostgresSql
    conditions: list[str] = field(default_factory=list)
    order: Sequence[str] = ()

    def add_times(self, column: str, kind: Kind, times: tuple[int, int | None]) -> None:
        """Restricts a column of milliseconds or timestamps to [from, to)."""
        for op, moment in ((">=", times[0]), ("<", times[1])):
            if moment is not None and (moment > 0 or op == "<"):
                given = str(int(moment)) if kind is Kind.INT else f"to_timestamp({int(moment)} / 1000.0)"
                self.conditions.append(f"{identifier(column)} {op} {given}")

    def add_where(self, conditions: Sequence[Expr], kinds: Mapping[str, Kind]) -> None:
        where = SqlCondition(self.sql, {name: kind for name, kind in kinds.items() if name in self.present})
        self.conditions += [text for each in conditions if (text := where.sql(each)) is not None]

    def text(self) -> str:
        """SELECT … FROM … WHERE … ORDER BY …"""
        selected = [column.sql if column.name in self.present else "NULL" for column in self.columns]
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        order = f" ORDER BY {', '.join(map(identifier, self.order))}" if self.order else ""
        return f"SELECT {', '.join(selected)} FROM {self.table}{where}{order}"


class Copied:
    """The rows of one statement as of the start of its transaction."""

    def __init__(self, connection: Connection, selection: PostgresSelection) -> None:
        self._connection = connection
        self._columns = selection.columns
        self.sql = selection.text()
        self.order = f"in the order of {', '.join(selection.order)}" if selection.order else "in no order"
        self._rows: Iterator[memoryview] | None = None
        self._copy: Any = None

    def next(self) -> pa.RecordBatch | None:
        with sorted_errors():
            if self._rows is None:
                # Its context lives as long as this object; a reader that stops early closes the connection.
                self._copy = self._connection.cursor().copy(f"COPY ({self.sql}) TO STDOUT (FORMAT csv)".encode())
                self._rows = iter(self._copy.__enter__())
            parts: list[bytes] = []
            rows = size = 0
            while rows < PAGE_ROWS and size < PAGE_BYTES:
                lines = list(islice(self._rows, CHUNK_ROWS))
                parts.append(b"".join(lines))
                rows, size = rows + len(lines), size + len(parts[-1])
                if len(lines) < CHUNK_ROWS:
                    break
        return parsed(b"".join(parts), self._columns) if rows else None

    def cancel(self) -> None:
        try:
            self._connection.cancel_safe(timeout=5)
        except psycopg.Error:  # without a connection there is nothing to cancel
            pass

    def close(self) -> None:
        self._connection.close()


def parsed(text: bytes, columns: Sequence[TableColumn]) -> pa.RecordBatch:
    """Parses CSV lines to columns; an empty unquoted cell is null."""
    names = [f"f{index}" for index in range(len(columns))]
    types = {name: _cell_type(column) for name, column in zip(names, columns, strict=True)}
    options = pyarrow.csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        true_values=["t"],
        false_values=["f"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    found = pyarrow.csv.read_csv(
        pa.BufferReader(text),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=max(len(text), 1)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=options,
    ).combine_chunks()
    arrays = [_as_column(found[name].combine_chunks(), column) for name, column in zip(names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column.arrow for column in columns]))


def _cell_type(column: TableColumn) -> pa.DataType:
    wanted = column.arrow.type
    if column.hexadecimal or pa.types.is_list(wanted):
        return pa.string()
    return pa.int64() if pa.types.is_timestamp(wanted) else pa.int32() if pa.types.is_date32(wanted) else wanted


def _as_column(cells: pa.Array, column: TableColumn) -> pa.Array:
    wanted = column.arrow.type
    if isinstance(cells, pa.ChunkedArray):
        cells = pa.concat_arrays(cells.chunks) if cells.num_chunks else pa.nulls(0, cells.type)
    if column.hexadecimal:
        return unhex(cells)
    if pa.types.is_list(wanted):
        import polars as pl

        made: pa.Array = pl.from_arrow(cells).str.json_decode(_polars(wanted)).to_arrow()  # type: ignore[union-attr]
        return made.cast(wanted)
    return cells if cells.type == wanted else cells.cast(wanted)


def _polars(wanted: pa.DataType) -> Any:
    import polars as pl

    return pl.from_arrow(pa.nulls(0, wanted)).dtype  # type: ignore[union-attr]


def unhex(digits: pa.StringArray) -> pa.BinaryArray:
    """Converts hexadecimal digits to bytes, all rows at once."""
    _, offsets, data = digits.buffers()
    places = np.frombuffer(offsets, np.int32)[digits.offset : digits.offset + len(digits) + 1]
    first, last = int(places[0]), int(places[-1])
    content = bytes.fromhex(memoryview(data)[first:last].tobytes().decode()) if data is not None else b""
    halves = pa.py_buffer(((places - first) // 2).astype(np.int32).tobytes())
    mask = None
    if digits.null_count:
        mask = pa.array(digits.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
    return pa.BinaryArray.from_buffers(pa.binary(), len(digits), [mask, halves, pa.py_buffer(content)])
