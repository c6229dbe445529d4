"""Reads rows from ClickHouse as Arrow: in pages by `_inc` and `_offset` if the table has them, else as one stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc

from gauss.clients.clickhouse.errors import sorted_errors
from gauss.clients.clickhouse.quote import identifier
from gauss.clients.clickhouse.write import query_arrow
from gauss.clients.where import SqlCondition
from gauss.contracts.expression import Expr, Kind
from gauss.contracts.table_read import PAGE_BYTES, PAGE_ROWS, READ_SECONDS, TableColumn
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

FIRST_ROWS = 1_024
MOST_INCARNATIONS = 500
_SETTINGS: Mapping[str, Any] = {
    # A selected expression has the name of its column; in conditions that name is the column.
    "prefer_column_name_to_alias": 1,
    "output_format_arrow_string_as_string": 0,
    "output_format_arrow_low_cardinality_as_dictionary": 0,
    "max_execution_time": READ_SECONDS,
}


@dataclass
class ClickHouseSql:
    """Names and values of one statement; values are sent as query parameters."""

    parameters: dict[str, Any] = field(default_factory=dict)

    def identifier(self, name: str) -> str:
        return identifier(name)

    def value(self, value: bool | int | float | str) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        if isinstance(value, bool):
            kind = "Bool"
        elif isinstance(value, int):
            kind = "Int64" if -(1 << 63) <= value < 1 << 63 else "Int256"
        else:
            kind = "Float64" if isinstance(value, float) else "String"
        return f"{{{name}:{kind}}}"

    def ordered(self, column: str) -> str:
        return column

    def test(self, name: str, column: str, argument: str) -> str:
        if name == "contains":
            return f"position({column}, {argument}) > 0"
        return f"{'startsWith' if name == 'startswith' else 'endsWith'}({column}, {argument})"


@dataclass
class ClickHouseSelection:
    """The parts of a SELECT statement."""

    table: str
    """The quoted name."""
    columns: Sequence[TableColumn]
    present: frozenset[str]
    """Columns that the live table has; the others are null."""
    final: bool = False
    conditions: list[str] = field(default_factory=list)
    sql: ClickHouseSql = field(default_factory=ClickHouseSql)

    def add_times(self, column: str, kind: Kind, times: tuple[int, int | None]) -> None:
        """Restricts a column of milliseconds or timestamps to [from, to)."""
        for op, moment in ((">=", times[0]), ("<", times[1])):
            if moment is not None and (moment > 0 or op == "<"):
                value = self.sql.value(moment)
                given = value if kind is Kind.INT else f"fromUnixTimestamp64Milli({value}, 'UTC')"
                self.conditions.append(f"{identifier(column)} {op} {given}")

    def add_where(self, conditions: Sequence[Expr], kinds: Mapping[str, Kind]) -> None:
        known = {name: kind for name, kind in kinds.items() if name in self.present}
        where = SqlCondition(self.sql, known)
        self.conditions += [text for each in conditions if (text := where.sql(each)) is not None]

    def text(self, more: Sequence[str] = (), *, marks: bool = False) -> str:
        """SELECT … FROM … WHERE …"""
        selected = [column.sql if column.name in self.present else "NULL" for column in self.columns]
        selected += [INC_COLUMN, OFFSET_COLUMN] if marks else []
        named = ", ".join(f"{sql} AS _gauss_{index}" for index, sql in enumerate(selected))
        conditions = [*self.conditions, *more]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {named} FROM {self.table}{' FINAL' if self.final else ''}{where}"


class Paged:
    """Reads an append-only table in pages: each starts after the last row of the previous one, and none includes rows
    that were added after the start."""

    order = "in the order of their records (_inc, _offset)"

    def __init__(self, client: Client, selection: ClickHouseSelection, committed: Mapping[int, int]) -> None:
        self._client = client
        self._selection = selection
        self._rows = FIRST_ROWS
        self._after: tuple[int, int] | None = None
        self._ended = False
        bounds = query_arrow(
            client,
            f"SELECT {INC_COLUMN} AS inc, max({OFFSET_COLUMN}) AS last FROM {selection.table} GROUP BY inc",
            settings={"max_execution_time": READ_SECONDS},
        ).to_pylist()
        self._bound(bounds, committed)
        self.sql = self._text()

    def _bound(self, found: list[dict[str, int]], committed: Mapping[int, int]) -> None:
        last = {row["inc"]: min(row["last"], committed.get(row["inc"], row["last"] + 1) - 1) for row in found}
        value = self._selection.sql.value
        if len(last) > MOST_INCARNATIONS:
            parts = [f"{INC_COLUMN} <= {value(max(last))}"]
        else:
            parts = [f"({INC_COLUMN} = {value(inc)} AND {OFFSET_COLUMN} <= {value(off)})" for inc, off in last.items()]
        self._ended = not parts
        self._selection.conditions.append(f"({' OR '.join(parts) or 'false'})")

    def _text(self) -> str:
        more = []
        if self._after is not None:
            inc, offset = self._after
            more = [f"({INC_COLUMN} > {inc} OR ({INC_COLUMN} = {inc} AND {OFFSET_COLUMN} > {offset}))"]
        # A record of several rows is never split.
        order = f" ORDER BY {INC_COLUMN}, {OFFSET_COLUMN} LIMIT {self._rows} WITH TIES"
        return self._selection.text(more, marks=True) + order

    def next(self) -> pa.RecordBatch | None:
        if self._ended:
            return None
        found = query_arrow(self._client, self._text(), self._selection.sql.parameters, _SETTINGS)
        self._ended = found.num_rows < self._rows
        if not found.num_rows:
            return None
        batch = found.combine_chunks().to_batches()[0]
        inc, offset = (batch.column(batch.num_columns - place)[-1].as_py() for place in (2, 1))
        self._after = inc, offset
        fitting = max(1, batch.num_rows * PAGE_BYTES // max(batch.nbytes, 1))
        self._rows = max(1, min(fitting, self._rows * 8, PAGE_ROWS))
        columns = self._selection.columns
        return as_columns(batch.select(range(len(columns))), columns)

    def cancel(self) -> None:
        """Does nothing: each page has its own time limit."""

    def close(self) -> None:
        self._client.close()


class Streamed:
    """Streams the rows of one statement, as of its start."""

    def __init__(self, client: Client, selection: ClickHouseSelection, order: Sequence[str]) -> None:
        self._client = client
        self._selection = selection
        self.order = f"in the order of {', '.join(order)}" if order else "in no order"
        self.sql = selection.text() + (f" ORDER BY {', '.join(order)}" if order else "")
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._answer: Any = None
        self._ending = threading.Lock()

    def next(self) -> pa.RecordBatch | None:
        with sorted_errors():
            if self._batches is None:
                settings = {**_SETTINGS, "max_execution_time": 0, "http_send_timeout": 600, "max_block_size": 8_192}
                self._answer = self._client.raw_stream(
                    self.sql, parameters=self._selection.sql.parameters, fmt="ArrowStream", settings=settings
                )
                self._batches = iter(pa.ipc.open_stream(self._answer))
            for batch in self._batches:
                if batch.num_rows:
                    return as_columns(batch, self._selection.columns)
        return None

    def cancel(self) -> None:
        with self._ending:
            answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def close(self) -> None:
        self.cancel()
        self._client.close()


def as_columns(batch: pa.RecordBatch, columns: Sequence[TableColumn]) -> pa.RecordBatch:
    """A received batch with the declared types of its columns."""
    schema = pa.schema([column.arrow for column in columns])
    arrays = [_as_type(array, kind) for array, kind in zip(batch.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid:
        if not pa.types.is_string(wanted):
            raise
        texts = [None if value is None else value.decode(errors="replace") for value in array.to_pylist()]
        return pa.array(texts, wanted)
