"""Loads Arrow rows into a table by binary COPY, COPY in text form or INSERT, which give the same rows. The caller owns
the transaction, and has locked the table against changes of its columns: binary COPY carries no types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import pgpq
import psycopg
import pyarrow as pa
import pyarrow.csv

from gauss.clients.errors import RowError
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.copy_rows import HEADER, TRAILER
from gauss.clients.postgres.ddl import names_list
from gauss.clients.postgres.plain_columns import plain_column
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.text_columns import text_column
from gauss.clients.postgres.types import canonical, render_type
from gauss.clients.postgres.wire import wire_table
from gauss.clients.postgres.write import PostgresTarget
from gauss.contracts.format import FieldType
from gauss.contracts.target import as_field_type

Load = Literal["copy_binary", "copy", "insert"]
_BATCH = "_gauss_batch"
_ORDER = "_gauss_order"
_TEXT = FieldType("TEXT")
_GIVEN = "\0"
"""Where parameters go, until the percent signs of names are escaped; no name contains it."""
_COPY_ROWS = 16_384
_CSV = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid")


def load(connection: Connection, table: PostgresTarget, rows: pa.RecordBatch, how: Load) -> None:
    """Writes rows; with a key, a row replaces the one with its key, and the last of a batch wins."""
    names = rows.schema.names
    plain = pa.table([plain_column(name, rows.column(name)) for name in names], names=names)
    if how == "copy_binary":
        _binary(connection, table, plain)
        return
    text = pa.table([text_column(name, plain[name], table.types[name]) for name in names], names=names)
    (_copied_text if how == "copy" else _inserted)(connection, table, text)


def load_copied(connection: Connection, table: PostgresTarget, names: Sequence[str], payload: bytes) -> None:
    """Writes rows that are in the binary form of COPY already, without header and trailer."""
    target = _batch_table(connection, table, names, ()) if table.key else table.name
    with connection.cursor() as cursor, cursor.copy(_copy(target, names, "BINARY")) as copy:
        copy.write(HEADER)
        copy.write(payload)
        copy.write(TRAILER)
    if table.key:
        _move(connection, table, names, ())


def _binary(connection: Connection, table: PostgresTarget, rows: pa.Table) -> None:
    names = rows.schema.names
    # The binary form of an array names its element's type, and text is not varchar.
    texts = {name for name in names if _is_varchar_array(table.types[name])}
    wire, given = wire_table(rows, {name: _TEXT if name in texts else table.types[name] for name in names})
    casts = {*given, *texts}
    through = bool(casts or table.key)
    target = _batch_table(connection, table, names, casts) if through else table.name
    encoder = pgpq.ArrowToPostgresBinaryEncoder(wire.schema)
    with connection.cursor() as cursor, cursor.copy(_copy(target, names, "BINARY")) as copy:
        copy.write(encoder.write_header())
        for batch in wire.to_batches(max_chunksize=_COPY_ROWS):
            copy.write(encoder.write_batch(batch))
        copy.write(encoder.finish())
    if through:
        _move(connection, table, names, casts)


def _copied_text(connection: Connection, table: PostgresTarget, rows: pa.Table) -> None:
    names = rows.schema.names
    casts = {name for name in names if _is_money(table.types[name])}
    through = bool(casts or table.key)
    target = _batch_table(connection, table, names, casts) if through else table.name
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(rows, sink, _CSV)
    with connection.cursor() as cursor, cursor.copy(_copy(target, names, "CSV")) as copy:
        copy.write(memoryview(sink.getvalue()))
    if through:
        _move(connection, table, names, casts)


def _inserted(connection: Connection, table: PostgresTarget, rows: pa.Table) -> None:
    """Without COPY and temporary tables, which not every pooler and compatible server has."""
    names = rows.schema.names
    aliases = [f"c{place}" for place in range(len(names))]
    source = f"unnest({_GIVEN}) WITH ORDINALITY AS batch ({', '.join([*aliases, _ORDER])})"
    values = {name: from_text(alias, table.types[name]) for name, alias in zip(names, aliases, strict=True)}
    arrays = ", ".join(["%s::text[]"] * len(names))
    statement = _insert(table, values, source, _ORDER).replace("%", "%%").replace(_GIVEN, arrays)
    try:
        # The parameters are the rows themselves, as an INSERT needs them.
        connection.execute(statement.encode(), [rows[name].to_pylist() for name in names])
    except psycopg.DataError as error:
        if error.sqlstate is None:  # a NUL, which the driver refuses itself
            raise RowError(f"Postgres: {error}", reason="encoding") from error
        raise


def _is_varchar_array(field_type: FieldType) -> bool:
    if field_type.name != "ARRAY":
        return False
    return canonical(as_field_type(field_type.attrs["element"])).name == "VARCHAR"


def from_text(value: str, field_type: FieldType) -> str:
    """The SQL that makes a value of text for a column."""
    wanted = _input_type(field_type)
    if not _is_money(field_type):
        return f"{value}::{wanted}"
    # A plain number is one in every locale; the input of `money` may take its point for a separator of thousands.
    number = "numeric[]" if field_type.name == "ARRAY" else "numeric"
    return f"CASE WHEN {value} ~ '[^-0-9.{{}}\",NUL]' THEN {value}::{wanted} ELSE {value}::{number}::{wanted} END"


def _is_money(field_type: FieldType) -> bool:
    """Whether values are `money`, or arrays of it."""
    if field_type.name == "ARRAY":
        return _is_money(as_field_type(field_type.attrs["element"]))
    return field_type.name.upper() == "MONEY"


def _input_type(field_type: FieldType) -> str:
    """The type to which text is cast before it is assigned to a column: without its length, since a cast to
    `varchar(3)` or `bit(3)` cuts values, and the assignment refuses them. Numbers and times are rounded by both; keys
    that become equal by it must be equal before they are inserted."""
    if field_type.name == "ARRAY":
        return f"{_input_type(as_field_type(field_type.attrs['element']))}[]"
    kept = {key: value for key, value in field_type.attrs.items() if key in ("timezone", "precision", "scale")}
    # `char` and `bit` alone mean a length of 1.
    name = {"CHAR": "bpchar", "BIT": "varbit"}.get(field_type.name.upper(), field_type.name)
    return render_type(FieldType(name, kept))


def _copy(target: str, names: Sequence[str], form: str) -> bytes:
    return f"COPY {target} ({names_list(names)}) FROM STDIN (FORMAT {form})".encode()


def _batch_table(connection: Connection, table: PostgresTarget, names: Sequence[str], casts: Collection[str]) -> str:
    """An empty temporary table with the columns of a batch; text for those that the server has to cast."""
    columns = [f"NULL::text AS {identifier(name)}" if name in casts else identifier(name) for name in names]
    connection.execute(
        f"CREATE TEMP TABLE {_BATCH} ON COMMIT DROP AS SELECT {', '.join(columns)} FROM {table.name}"
        " WITH NO DATA".encode()
    )
    return f"pg_temp.{_BATCH}"


def _move(connection: Connection, table: PostgresTarget, names: Sequence[str], casts: Collection[str]) -> None:
    """Moves the batch into the table. One COPY has filled it, so its rows lie in their order."""
    values = {
        name: from_text(identifier(name), table.types[name]) if name in casts else identifier(name) for name in names
    }
    connection.execute(_insert(table, values, f"pg_temp.{_BATCH}", "ctid").encode())
    connection.execute(f"DROP TABLE pg_temp.{_BATCH}".encode())


def _insert(table: PostgresTarget, values: Mapping[str, str], source: str, order: str) -> str:
    """The INSERT of rows from a batch."""
    if not table.key:
        selected = f"SELECT {', '.join(values.values())} FROM {source} ORDER BY {order}"
        return f"INSERT INTO {table.name} ({names_list(list(values))}) OVERRIDING SYSTEM VALUE {selected}"
    return merge(table, values, source, order)


def merge(table: PostgresTarget, values: Mapping[str, str], source: str, order: str) -> str:
    """The INSERT that replaces rows by key. `values`: an expression per column; `order`: of rows with the same key the
    one with the largest is written."""
    key = ", ".join(values[name] for name in table.key)
    others = [identifier(name) for name in values if name not in table.key]
    action = "DO UPDATE SET " + ", ".join(f"{name} = EXCLUDED.{name}" for name in others) if others else "DO NOTHING"
    return (
        f"INSERT INTO {table.name} ({names_list(list(values))}) OVERRIDING SYSTEM VALUE"
        f" SELECT DISTINCT ON ({key}) {', '.join(values.values())} FROM {source}"
        f" ORDER BY {key}, {order} DESC ON CONFLICT ({names_list(table.key)}) {action}"
    )
