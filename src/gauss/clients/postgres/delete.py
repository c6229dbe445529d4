"""Deletes rows of a table by their keys. The caller owns the transaction."""

from __future__ import annotations

import pyarrow as pa

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.ddl import names_list
from gauss.clients.postgres.load import Load, from_text, load
from gauss.clients.postgres.plain_columns import plain_column
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.text_columns import text_column
from gauss.clients.postgres.write import PostgresTarget

_KEYS = "_gauss_keys"
_GIVEN = "\0"
"""Where parameters go, until the percent signs of names are escaped; no name contains it."""


def delete_rows(connection: Connection, table: PostgresTarget, keys: pa.RecordBatch, how: Load) -> None:
    """Deletes the rows with these keys. `how`: as rows are loaded; without COPY the keys are parameters."""
    names = keys.schema.names
    if how == "insert":
        _delete_given(connection, table, keys)
        return
    there, columns = f"pg_temp.{_KEYS}", names_list(names)
    connection.execute(
        f"CREATE TEMP TABLE {_KEYS} ON COMMIT DROP AS SELECT {columns} FROM {table.name} WITH NO DATA".encode()
    )
    load(connection, PostgresTarget(there, table.types), keys, how)
    same = " AND ".join(f"t.{identifier(name)} = k.{identifier(name)}" for name in names)
    connection.execute(f"DELETE FROM {table.name} AS t USING {there} AS k WHERE {same}".encode())
    connection.execute(f"DROP TABLE {there}".encode())


def _delete_given(connection: Connection, table: PostgresTarget, keys: pa.RecordBatch) -> None:
    names = keys.schema.names
    given = []
    for name in names:
        column = pa.chunked_array([plain_column(name, keys.column(name))])
        given.append(text_column(name, column, table.types[name]).to_pylist())
    aliases = ", ".join(f"c{place}" for place in range(len(names)))
    same = " AND ".join(
        f"t.{identifier(name)} = {from_text(f'k.c{place}', table.types[name])}" for place, name in enumerate(names)
    )
    statement = f"DELETE FROM {table.name} AS t USING unnest({_GIVEN}) AS k ({aliases}) WHERE {same}"
    arrays = ", ".join(["%s::text[]"] * len(names))
    connection.execute(statement.replace("%", "%%").replace(_GIVEN, arrays).encode(), given)
