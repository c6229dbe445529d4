"""Writes rows to Postgres by COPY, exactly once: the ledger is updated in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pgpq
import pyarrow as pa

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.ddl import names_list
from gauss.clients.postgres.errors import sorted_errors
from gauss.clients.postgres.ledger import Mark, admit, record
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.types import render_type
from gauss.clients.postgres.wire import wire_table
from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError, ProtocolError
from gauss.model.names import OFFSET_COLUMN

_BATCH = "_gauss_batch"
_ORDER = "_gauss_order"
_COPY_ROWS = 16_384
_OTHER_TYPES = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), w.type
FROM unnest(%s::text[], %s::text[]) AS w (name, type)
JOIN pg_attribute a ON a.attname = w.name AND a.attnum > 0 AND NOT a.attisdropped
WHERE a.attrelid = to_regclass(%s) AND a.atttypid <> to_regtype(w.type)
"""


@dataclass(frozen=True)
class PostgresTarget:
    """The name, column types and key of a table to write."""

    name: str
    """The quoted name."""
    types: Mapping[str, FieldType]
    key: tuple[str, ...] = ()
    """Rows with the same key replace each other; the last of a batch wins."""


def write(
    connection: Connection, table: PostgresTarget, rows: pa.Table | Sequence[pa.Table], mark: Mark | None = None
) -> int:
    """Writes rows in one transaction and returns the number of new ones; with a mark, its range is written once.

    Columns that the rows lack get their defaults; rows that lack different columns are passed as several tables.
    Columns that the table lacks are ignored.
    """
    parts = [rows] if isinstance(rows, pa.Table) else list(rows)
    with sorted_errors(), connection.transaction():
        if mark is not None:
            covered = admit(connection, mark)
            parts = [_without(part, covered, mark) for part in parts]
        written = [part for part in parts if part.num_rows]
        if written:
            _refuse_other_types(connection, table)
        for part in written:
            _write(connection, table, part.select([name for name in part.schema.names if name in table.types]))
        if written:
            _refuse_other_types(connection, table)  # after the first row, the table is locked against changes
        if mark is not None:
            record(connection, mark)
    return sum(int(part.num_rows) for part in parts)


def _refuse_other_types(connection: Connection, table: PostgresTarget) -> None:
    """Raises ConfigError if a column has another type: COPY BINARY is untyped, so an int8 would be read as a float8."""
    names, wanted = list(table.types), [render_type(type_) for type_ in table.types.values()]
    if found := connection.execute(_OTHER_TYPES, [names, wanted, table.name]).fetchall():
        others = ", ".join(f"{name} is {is_now} instead of {shall}" for name, is_now, shall in found)
        raise ConfigError(
            f"the table {table.name} has been changed: {others}", hint="compare the table with `gauss schema`"
        )


def _without(rows: pa.Table, covered: list[tuple[int, int]], mark: Mark) -> pa.Table:
    """The rows whose offsets no earlier transaction has written."""
    if not covered:
        return rows
    if (mark.start, mark.stop) in covered:
        return rows.slice(0, 0)
    if OFFSET_COLUMN not in rows.schema.names:
        raise ProtocolError(
            f"some of the offsets {mark.start} to {mark.stop} of {mark.processor} are already written",
            hint=f"rows need a column {OFFSET_COLUMN} to find out which",
        )
    offsets = rows[OFFSET_COLUMN].to_numpy()
    fresh = np.ones(len(offsets), dtype=bool)
    for start, stop in covered:
        fresh &= (offsets < start) | (offsets >= stop)
    return rows.filter(pa.array(fresh))


def _write(connection: Connection, table: PostgresTarget, rows: pa.Table) -> None:
    names = rows.schema.names
    wire, casts = wire_table(rows, table.types)
    if not casts and not table.key:
        _copy(connection, table.name, names, wire)
        return
    columns = [f"NULL::text AS {identifier(name)}" if name in casts else identifier(name) for name in names]
    connection.execute(
        f"CREATE TEMP TABLE {_BATCH} ON COMMIT DROP AS SELECT {', '.join(columns)}, NULL::bigint AS {_ORDER} "
        f"FROM {table.name} WITH NO DATA".encode()
    )
    order = pa.array(np.arange(rows.num_rows, dtype=np.int64))
    _copy(connection, _BATCH, [*names, _ORDER], wire.append_column(_ORDER, order))
    connection.execute(_merge(table, names, casts).encode())
    connection.execute(f"DROP TABLE {_BATCH}".encode())


def _merge(table: PostgresTarget, names: Sequence[str], casts: Mapping[str, str]) -> str:
    """The statement that moves the batch into the table; of rows with the same key the last one wins."""
    values = [f"{identifier(name)}::{casts[name]}" if name in casts else identifier(name) for name in names]
    insert = f"INSERT INTO {table.name} ({names_list(names)})"
    if not table.key:
        return f"{insert} SELECT {', '.join(values)} FROM {_BATCH} ORDER BY {_ORDER}"
    by_name = dict(zip(names, values, strict=True))
    key = ", ".join(by_name[name] for name in table.key)
    others = [name for name in names if name not in table.key]
    action = (
        "DO UPDATE SET " + ", ".join(f"{identifier(name)} = EXCLUDED.{identifier(name)}" for name in others)
        if others
        else "DO NOTHING"
    )
    return (
        f"{insert} SELECT DISTINCT ON ({key}) {', '.join(values)} FROM {_BATCH} "
        f"ORDER BY {key}, {_ORDER} DESC ON CONFLICT ({names_list(table.key)}) {action}"
    )


def _copy(connection: Connection, table: str, names: Sequence[str], rows: pa.Table) -> None:
    encoder = pgpq.ArrowToPostgresBinaryEncoder(rows.schema)
    statement = f"COPY {table} ({names_list(names)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.write(encoder.write_header())
        for batch in rows.to_batches(max_chunksize=_COPY_ROWS):
            copy.write(encoder.write_batch(batch))
        copy.write(encoder.finish())
