"""The tables of types and DDL in the specification, row by row: rendered as printed there, and accepted by the real
servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from gauss import registry
from gauss.clients.clickhouse import ddl as clickhouse_ddl
from gauss.clients.clickhouse.types import render_type as clickhouse_type
from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres import ddl as postgres_ddl
from gauss.clients.postgres.connect import connect
from gauss.clients.postgres.types import render_type as postgres_type
from gauss.contracts.format import FieldType, FormatSpec, SourceSchema
from gauss.contracts.target import TargetField, TargetSchema, as_field_type
from gauss.mapping.script import run_file
from helpers.schemas import QUOTE, field

SCRIPTS = Path(__file__).parents[2] / "examples" / "schema-maps"
Attrs = dict[str, Any]


def schema_of(plugin: str, config: dict[str, Any]) -> SourceSchema:
    spec = registry.spec(FormatSpec, plugin)
    found = registry.build(spec, spec.validate(config)).schema()
    assert isinstance(found, SourceSchema)
    return found


SOURCE_TYPES: list[tuple[str, Attrs]] = [
    ("double", {}),
    ("decimal", {"precision": 18, "scale": 8}),
    ("varchar", {"length": 255}),
    ("varchar", {"length": "max"}),
    ("varchar", {}),
    ("timestamp", {"precision": 3}),
    ("array", {"element": "int64"}),
]


@pytest.mark.parametrize(
    ("plugin", "name", "attrs"),
    [
        (plugin, *row)
        for plugin in ("json", "csv", "msgpack")
        for row in SOURCE_TYPES
        if (plugin, row[0]) != ("csv", "array")  # a csv field holds one value
    ],
)
def test_a_format_gives_the_type_of_a_field_as_it_was_written(plugin: str, name: str, attrs: Attrs) -> None:
    found = schema_of(plugin, {"fields": [{"name": "f", "type": {"name": name, "attrs": attrs}}]})
    assert found.fields[0].field_type.name == name
    assert {key: value for key, value in found.fields[0].field_type.attrs.items() if key in attrs} == attrs


def test_paths_of_a_document_are_the_names_of_its_fields() -> None:
    text_array, double_array = ({"name": "array", "attrs": {"element": kind}} for kind in ("string", "double"))
    fields = [
        ("$.order.id", {"name": "int64"}),
        ("$.order.customer.name", {"name": "string"}),
        ("$.order.customer.tags", text_array),
        ("$.order.items[*].sku", text_array),
        ("$.order.items[*].price", double_array),
        ("$.ts", {"name": "int64"}),
    ]
    found = schema_of("json", {"fields": [{"name": name, "type": kind} for name, kind in fields]})
    assert [(field.name, field.field_type.name, field.field_type.attrs) for field in found.fields] == [
        ("$.order.id", "int64", {}),
        ("$.order.customer.name", "string", {}),
        ("$.order.customer.tags", "array", {"element": "string"}),
        ("$.order.items[*].sku", "array", {"element": "string"}),
        ("$.order.items[*].price", "array", {"element": "double"}),
        ("$.ts", "int64", {}),
    ]


def test_a_format_says_what_it_knows_of_its_source(tmp_path: Path) -> None:
    (tmp_path / "q.proto").write_text('syntax = "proto3"; package market.data; message Quote { string symbol = 1; }')
    attrs = schema_of("protobuf", {"proto": str(tmp_path / "q.proto"), "message": "Quote"}).attrs
    assert (attrs["package"], attrs["message"]) == ("market.data", "Quote")
    assert schema_of("json", {"fields": [{"name": "a", "type": "int64"}]}).attrs == {}


CLICKHOUSE_TYPES: list[tuple[str, Attrs, str]] = [
    ("Decimal64", {"scale": 8}, "Decimal64(8)"),
    ("String", {}, "String"),
    ("DateTime64", {"precision": 3}, "DateTime64(3)"),
    ("LowCardinality", {"inner": {"name": "String"}}, "LowCardinality(String)"),
    ("Array", {"element": {"name": "Int64"}}, "Array(Int64)"),
]
POSTGRES_TYPES: list[tuple[str, Attrs, str]] = [
    ("NUMERIC", {"precision": 18, "scale": 8}, "NUMERIC(18,8)"),
    ("NUMERIC", {}, "NUMERIC"),
    ("VARCHAR", {"length": 255}, "VARCHAR(255)"),
    ("TIMESTAMP", {"precision": 3, "timezone": True}, "TIMESTAMP(3) WITH TIME ZONE"),
    ("ARRAY", {"element": {"name": "BIGINT"}}, "BIGINT[]"),
    ("TEXT", {}, "TEXT"),
]


@pytest.mark.parametrize(("name", "attrs", "text"), CLICKHOUSE_TYPES)
def test_a_clickhouse_type_is_rendered_and_made(client: Client, table: str, name: str, attrs: Attrs, text: str) -> None:
    kind = FieldType(name, attrs)
    assert clickhouse_type(kind) == text
    client.command(clickhouse_ddl.create_table(TargetSchema((TargetField("x", kind),), {"table": table})))
    live = {"Decimal64(8)": "Decimal(18, 8)"}.get(text, text)
    assert clickhouse_columns(client, table) == [("x", live, "", "", "")]


@pytest.mark.parametrize(("name", "attrs", "text"), POSTGRES_TYPES)
def test_a_postgres_type_is_rendered_and_made(
    postgres: Endpoint, table: str, name: str, attrs: Attrs, text: str
) -> None:
    kind = FieldType(name, attrs)
    assert postgres_type(kind) == text
    with connect(postgres, autocommit=True) as connection:
        statement = postgres_ddl.create_table(TargetSchema((TargetField("x", kind),), {"table": table}))
        connection.execute(statement.encode())
        shown = connection.execute(f"SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = "
                                   f"'{table}'::regclass AND attnum > 0".encode()).fetchall()  # fmt: skip
    live = {"VARCHAR(255)": "character varying(255)", "TIMESTAMP(3) WITH TIME ZONE": "timestamp(3) with time zone"}
    assert shown == [(live.get(text, text.lower()),)]


def clickhouse_columns(client: Client, table: str) -> list[tuple[str, ...]]:
    columns = "name, type, default_kind, default_expression, compression_codec"
    query = f"SELECT {columns} FROM system.columns WHERE table = {{t:String}} ORDER BY position"
    return [tuple(row) for row in client.query(query, parameters={"t": table}).result_rows]


def postgres_columns(postgres: Endpoint, table: str) -> list[tuple[Any, ...]]:
    """Name, type, default, generation expression and nullability of each column."""
    query = """
        SELECT a.attname, format_type(a.atttypid, a.atttypmod),
               CASE WHEN a.attgenerated = '' THEN coalesce(pg_get_expr(d.adbin, d.adrelid), '') ELSE '' END,
               CASE WHEN a.attgenerated = 's' THEN pg_get_expr(d.adbin, d.adrelid) ELSE '' END, NOT a.attnotnull
        FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = %s::regclass AND a.attnum > 0 ORDER BY a.attnum"""
    with connect(postgres) as connection:
        return connection.execute(query.encode(), [table]).fetchall()


CLICKHOUSE_ATTRS: list[tuple[Attrs, str, str]] = [
    ({}, "CREATE TABLE IF NOT EXISTS `TABLE`", "name = 'TABLE'"),
    ({"engine": "MergeTree"}, "ENGINE = MergeTree()", "engine = 'MergeTree'"),
    ({"order_by": "(ts_ms)"}, "ORDER BY (ts_ms)", "sorting_key IN ('ts_ms', '(ts_ms)')"),
    (
        {"ttl": "at + INTERVAL 1 DAY"},
        "TTL at + INTERVAL 1 DAY",
        "create_table_query LIKE '%TTL at + %'",
    ),
]


@pytest.mark.parametrize(("attrs", "clause", "live"), CLICKHOUSE_ATTRS)
def test_an_attr_of_the_schema_becomes_its_clause_in_clickhouse(
    client: Client, table: str, attrs: Attrs, clause: str, live: str
) -> None:
    fields = (TargetField("ts_ms", FieldType("Int64"), "ts_ms"), TargetField("at", FieldType("DateTime"), "at"))
    statement = clickhouse_ddl.create_table(TargetSchema(fields, {"table": table, **attrs}))
    assert clause.replace("TABLE`", f"{table}`") in statement
    client.command(statement)
    where = live.replace("TABLE", table)
    assert client.query(f"SELECT count() FROM system.tables WHERE name = '{table}' AND {where}").result_rows == [(1,)]


def test_the_table_attr_names_the_table_in_postgres(postgres: Endpoint, table: str) -> None:
    statement = postgres_ddl.create_table(TargetSchema((TargetField("a", FieldType("BIGINT")),), {"table": table}))
    assert statement.startswith(f'CREATE TABLE IF NOT EXISTS "{table}"')
    with connect(postgres, autocommit=True) as connection:
        connection.execute(statement.encode())
    assert postgres_columns(postgres, table) == [("a", "bigint", "", "", True)]


def test_props_of_a_column_become_its_ddl_in_clickhouse(client: Client, table: str) -> None:
    number = FieldType("Float64")
    fields = (
        TargetField("bid", number, "bid"),
        TargetField("ask", number, "ask"),
        TargetField("at", FieldType("DateTime64", {"precision": 3}), None, {"default": "now64(3)"}),
        TargetField("spread", number, None, {"materialized": "ask - bid"}),
        TargetField("volume", FieldType("Int64"), "volume", {"codec": "Delta, ZSTD"}),
    )
    assert [clickhouse_ddl.column(field) for field in fields[2:]] == [
        "`at` DateTime64(3) DEFAULT now64(3)",
        "`spread` Float64 MATERIALIZED ask - bid",
        "`volume` Int64 CODEC(Delta, ZSTD)",
    ]
    client.command(clickhouse_ddl.create_table(TargetSchema(fields, {"table": table})))
    assert clickhouse_columns(client, table)[2:] == [
        ("at", "DateTime64(3)", "DEFAULT", "now64(3)", ""),
        ("spread", "Float64", "MATERIALIZED", "ask - bid", ""),
        ("volume", "Int64", "", "", "CODEC(Delta(8), ZSTD(1))"),
    ]


def test_props_of_a_column_become_its_ddl_in_postgres(postgres: Endpoint, table: str) -> None:
    number = FieldType("NUMERIC")
    fields = (
        TargetField("bid", number, "bid", {"not_null": True}),
        TargetField("ask", number, "ask"),
        TargetField("at", FieldType("TIMESTAMPTZ"), None, {"default": "now()"}),
        TargetField("spread", number, None, {"generated": "ask - bid"}),
    )
    assert [postgres_ddl.column(field) for field in (fields[0], *fields[2:])] == [
        '"bid" NUMERIC NOT NULL',
        '"at" TIMESTAMPTZ DEFAULT now()',
        '"spread" NUMERIC GENERATED ALWAYS AS (ask - bid) STORED',
    ]
    with connect(postgres, autocommit=True) as connection:
        connection.execute(postgres_ddl.create_table(TargetSchema(fields, {"table": table})).encode())
    assert postgres_columns(postgres, table) == [
        ("bid", "numeric", "", "", False),
        ("ask", "numeric", "", "", True),
        ("at", "timestamp with time zone", "now()", "", True),
        ("spread", "numeric", "", "(ask - bid)", True),
    ]


ORDERS = SourceSchema(
    (
        field("$.order.id", "int64"),
        field("$.order.customer.name", "string"),
        field("$.order.customer.tags", "array", element="string"),
        field("$.order.items[*].price", "array", element="double"),
        field("$.ts", "int64"),
    )
)


def test_the_quotes_script_makes_the_printed_table_in_clickhouse(client: Client, table: str) -> None:
    attrs = {"table": table, "engine": "MergeTree", "order_by": "(ts_ms)"}
    made = run_file(SCRIPTS / "proto-to-clickhouse.star", QUOTE, TargetSchema((), attrs))
    client.command(clickhouse_ddl.create_table(made))
    assert [row[:4] for row in clickhouse_columns(client, table)] == [
        ("ts_ms", "Int64", "", ""),
        ("sym", "LowCardinality(String)", "", ""),
        ("bid", "Decimal(18, 8)", "", ""),
        ("ask", "Decimal(18, 8)", "", ""),
        ("volume", "Int64", "", ""),
        ("wrt_ts", "DateTime64(3)", "DEFAULT", "now64(3)"),
        ("spread", "Float64", "MATERIALIZED", "ask - bid"),
    ]


def test_the_quotes_script_makes_every_field_a_column_in_postgres(postgres: Endpoint, table: str) -> None:
    made = run_file(SCRIPTS / "proto-to-postgres.star", QUOTE, TargetSchema((), {"table": table}))
    with connect(postgres, autocommit=True) as connection:
        connection.execute(postgres_ddl.create_table(made).encode())
    assert [row[:3] for row in postgres_columns(postgres, table)] == [
        ("ts_ms", "bigint", ""),
        ("symbol", "text", ""),
        ("bid", "numeric(18,8)", ""),
        ("ask", "numeric(18,8)", ""),
        ("volume", "bigint", ""),
        ("exchange", "text", ""),
        ("internal_id", "text", ""),
        ("debug_info", "bytea", ""),
        ("wrt_ts", "timestamp with time zone", "now()"),
    ]


def test_the_orders_script_makes_the_printed_table_in_postgres(postgres: Endpoint, table: str) -> None:
    made = run_file(SCRIPTS / "json-orders-to-postgres.star", ORDERS, TargetSchema((), {"table": table}))
    with connect(postgres, autocommit=True) as connection:
        connection.execute(postgres_ddl.create_table(made).encode())
    assert [row[:3] for row in postgres_columns(postgres, table)] == [
        ("order_id", "bigint", ""),
        ("customer_name", "text", ""),
        ("customer_tags", "text[]", ""),
        ("ts", "bigint", ""),
        ("created_at", "timestamp with time zone", "now()"),
    ]


SCRIPT_TYPES: list[tuple[str, Attrs, str, str]] = [
    ("decimal", {"precision": 9, "scale": 2}, "Decimal32(2)", "NUMERIC(9,2)"),
    ("decimal", {"precision": 10, "scale": 2}, "Decimal64(2)", "NUMERIC(10,2)"),
    ("decimal", {"precision": 18, "scale": 8}, "Decimal64(8)", "NUMERIC(18,8)"),
    ("decimal", {"precision": 19, "scale": 8}, "Decimal128(8)", "NUMERIC(19,8)"),
    ("decimal", {"precision": 39, "scale": 8}, "Decimal256(8)", "NUMERIC(39,8)"),
    ("decimal", {}, "Decimal128(0)", "NUMERIC"),
    ("varchar", {"length": 255}, "String", "VARCHAR(255)"),
    ("varchar", {"length": "max"}, "String", "TEXT"),
    ("varchar", {}, "String", "TEXT"),
    ("string", {}, "String", "TEXT"),
    ("timestamp", {}, "DateTime64(3)", "TIMESTAMP WITH TIME ZONE"),
    ("timestamp", {"precision": 6}, "DateTime64(6)", "TIMESTAMP(6) WITH TIME ZONE"),
    ("array", {"element": "int64"}, "Array(Int64)", "BIGINT[]"),
    ("double", {}, "Float64", "DOUBLE PRECISION"),
    ("float", {}, "Float32", "REAL"),
    ("int64", {}, "Int64", "BIGINT"),
    ("int32", {}, "Int32", "INTEGER"),
    ("uint64", {}, "UInt64", "BIGINT"),
    ("bool", {}, "UInt8", "BOOLEAN"),
    ("bytes", {}, "String", "BYTEA"),
]


def test_the_scripts_map_every_type_to_its_column(client: Client, postgres: Endpoint, table: str) -> None:
    """One table with all types: the servers accept it, and its DDL is the specification's."""
    source = SourceSchema(tuple(field(f"f{at}", name, **attrs) for at, (name, attrs, *_) in enumerate(SCRIPT_TYPES)))
    quotes = SourceSchema((*source.fields, field("bid", "double"), field("ask", "double")))
    clickhouse = run_file(SCRIPTS / "proto-to-clickhouse.star", quotes, TargetSchema((), {"table": table}))
    made = {each.name: clickhouse_type(as_field_type(each.field_type)) for each in clickhouse.fields}
    assert [made[f"f{at}"] for at in range(len(SCRIPT_TYPES))] == [row[2] for row in SCRIPT_TYPES]
    client.command(clickhouse_ddl.create_table(clickhouse))
    in_postgres = run_file(SCRIPTS / "proto-to-postgres.star", source, TargetSchema((), {"table": table}))
    made = {each.name: postgres_type(as_field_type(each.field_type)) for each in in_postgres.fields}
    assert [made[f"f{at}"] for at in range(len(SCRIPT_TYPES))] == [row[3] for row in SCRIPT_TYPES]
    with connect(postgres, autocommit=True) as connection:
        connection.execute(postgres_ddl.create_table(in_postgres).encode())
