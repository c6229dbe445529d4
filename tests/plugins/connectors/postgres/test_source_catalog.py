"""Discovery, projection, validation, opaque reads, and hostile names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gauss.clients.postgres.connect import Connection
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig, ValidationStatus
from gauss.contracts.connector.stream import ColumnSchema, SyncMode
from gauss.plugins.connectors.postgres.names import StreamName

Sql = Callable[[str], list[Any]]
HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
HOSTILE = ['a"b', "a.b", "a b", "é☃", "'; DROP TABLE x; --", "x" * 63, "%s", "{}", "SELECT", "$1", "\\"]


def catalog(source: Any, schema: str, **config: Any) -> dict[str, Any]:
    made = source.make(source.start(source.stream(f"{schema}.t")), **config)
    found = {each.name: each for each in made.discover().streams}
    return {name: each for name, each in found.items() if name.startswith(f"{schema}.")}


def test_catalog_has_tables_and_views_with_keys_and_cursors(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (b int, a text NOT NULL, at timestamptz, f float8, n numeric(8,2), PRIMARY KEY (b, a))")
    run_sql("INSERT INTO t VALUES (1, 'x'); ANALYZE t; CREATE VIEW v AS SELECT f FROM t")
    run_sql("CREATE TABLE p (id int) PARTITION BY LIST (id); CREATE TABLE p1 PARTITION OF p DEFAULT")
    found = catalog(source, schema)
    assert set(found) == {f"{schema}.t", f"{schema}.v", f"{schema}.p"}
    table, view = found[f"{schema}.t"], found[f"{schema}.v"]
    assert table.schema == [
        ColumnSchema("b", "Int32", False),
        ColumnSchema("a", "Utf8", False),
        ColumnSchema("at", "Timestamp(Microsecond, UTC)"),
        ColumnSchema("f", "Float64"),
        ColumnSchema("n", "Decimal128(8, 2)"),
    ]
    assert (table.primary_key, table.cursor_candidates) == (["b", "a"], ["b", "a", "at", "n"])
    assert table.estimated_rows == 1
    assert table.supported_sync_modes == [SyncMode.FULL_REFRESH, SyncMode.INCREMENTAL, SyncMode.CDC]
    assert (view.primary_key, view.cursor_candidates, view.estimated_rows) == (None, None, None)
    assert view.supported_sync_modes == [SyncMode.FULL_REFRESH]


def test_catalog_excludes_system_schemas(source: Any, schema: str) -> None:
    made = source.make(source.start(source.stream(f"{schema}.t")))
    assert not [each for each in made.discover().streams if each.name.startswith(("pg_", "information_schema"))]


def test_projection_reads_the_named_columns_in_their_order(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, a text, b int); INSERT INTO t VALUES (1, 'x', 2)")
    config = {"columns": {f"{schema}.t": ["b", "id"]}}
    found = source.read(f"{schema}.t", config=config)
    assert found.table.to_pylist() == [{"b": 2, "id": 1}] and found.table.schema.names == ["b", "id"]
    stream = catalog(source, schema, **config)[f"{schema}.t"]
    assert [column.name for column in stream.schema] == ["b", "id"] and stream.primary_key == ["id"]
    without = {"columns": {f"{schema}.t": ["a", "b"]}}
    assert source.read(f"{schema}.t", "b", config=without).cursor.value == 2
    with pytest.raises(ConnectorError, match="no column"):
        source.read(f"{schema}.t", config={"columns": {f"{schema}.t": ["missing"]}})


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_and_columns_with_hostile_names_are_read(source: Any, schema: str, run_sql: Sql, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    run_sql(f"CREATE TABLE {quoted} ({quoted} int, k int PRIMARY KEY); INSERT INTO {quoted} VALUES (1, 2), (2, 3)")
    stream = str(StreamName(schema, name))
    assert stream in catalog(source, schema)
    found = source.read(stream, name)
    assert found.table[name].to_pylist() == [1, 2]
    assert source.read(stream, name, found.marks[-1].cursor).batches == []
    made = source.make(source.start(source.stream(stream)))
    kind = made.opaque_kind(source.stream(stream))
    assert sum(each.rows for each in source.read(stream, opaque=kind).opaque) == 2


def test_user_text_is_never_executed_as_sql(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, c text); INSERT INTO t VALUES (1, $$'; DROP TABLE t; --\\$$)")
    found = source.read(f"{schema}.t", "c")
    assert source.read(f"{schema}.t", "c", found.cursor).batches == []
    assert run_sql("SELECT count(*) FROM t") == [(1,)]


# --- the opaque lane ---


@pytest.mark.parametrize("cursor", [None, "id", "u"])
def test_opaque_rows_can_be_copied_into_an_equal_table(
    source: Any, schema: str, run_sql: Sql, connection: Connection, cursor: str | None
) -> None:
    run_sql("CREATE TABLE t (id int, u uuid, n numeric, at timestamptz, i inet, a text[], j jsonb)")
    run_sql("INSERT INTO t VALUES (1, gen_random_uuid(), 'NaN', 'infinity', '::1', '{{a},{b}}', '{}')")
    run_sql("INSERT INTO t (id) VALUES (2)")
    run_sql("INSERT INTO t SELECT i, gen_random_uuid(), i FROM generate_series(3, 6000) i")
    stream = source.stream(f"{schema}.t", cursor, max_batch_bytes=40_000)
    kind = source.make(source.start(stream)).opaque_kind(stream)
    assert kind == (
        'pgcopy:[["id","integer"],["u","uuid"],["n","numeric"],["at","timestamp with time zone"],["i","inet"],'
        '["a","text[]"],["j","jsonb"]]'
    )
    found = source.read(stream, opaque=kind)
    assert all(each.kind == kind and len(each.payload) <= 40_000 for each in found.opaque)
    assert sum(each.rows for each in found.opaque) == found.summary.records_read == 6000
    run_sql("CREATE TABLE copy (LIKE t)")
    with connection.cursor().copy(f"COPY {schema}.copy FROM STDIN (FORMAT binary)".encode()) as copy:
        copy.write(HEAD + b"".join(each.payload for each in found.opaque) + b"\xff\xff")
    digest = "SELECT md5(string_agg(r::text, ',' ORDER BY r::text)) FROM {} r"
    assert run_sql(digest.format("t")) == run_sql(digest.format("copy"))
    if cursor is not None:
        assert source.read(source.stream(f"{schema}.t", cursor, found.cursor), opaque=kind).opaque == []


def test_opaque_kind_is_empty_for_types_that_depend_on_the_database(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TYPE mood AS ENUM ('ok'); CREATE DOMAIN price AS numeric(9,2)")
    run_sql("CREATE TABLE a (m mood); CREATE TABLE b (m mood[]); CREATE TABLE c (r regclass); CREATE TABLE d (p price)")
    run_sql("CREATE TABLE e (n numeric, id int)")
    made = source.make(source.start(source.stream(f"{schema}.a")))
    for name in "abc":
        assert made.opaque_kind(source.stream(f"{schema}.{name}")) == "", name
    assert made.opaque_kind(source.stream(f"{schema}.d")) == 'pgcopy:[["p","numeric(9,2)"]]'
    # The position of a cursor that is read as text can't be found in raw rows.
    assert made.opaque_kind(source.stream(f"{schema}.e", "n")) == ""
    assert made.opaque_kind(source.stream(f"{schema}.e", "id")) != ""


def test_opaque_read_of_changed_columns_is_refused(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int)")
    with pytest.raises(ConnectorError) as caught:
        source.read(f"{schema}.t", opaque='pgcopy:[["id","bigint"]]')
    assert caught.value.category is ErrorCategory.SCHEMA


# --- validation ---


def test_validation_reports_the_fault(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int)")

    def validated(stream: str, **config: Any) -> tuple[ValidationStatus, str]:
        made = source.make(source.start(source.stream(stream)))
        found = made.validate(JsonConfig({**source.config, **config}))
        return found.status, found.message

    assert validated(f"{schema}.t") == (ValidationStatus.SUCCESS, "")
    status, message = validated(f"{schema}.gone")
    assert status is ValidationStatus.FAILED and f"{schema}.gone" in message
    status, message = validated(f"{schema}.t", columns={f"{schema}.t": ["nope"]})
    assert status is ValidationStatus.FAILED and '"nope"' in message
    with pytest.raises(ConnectorError) as raised:
        validated(f"{schema}.t", dsn="postgresql://u:hunter2@127.0.0.1:1/db")
    assert raised.value.retryable and "hunter2" not in raised.value.message
