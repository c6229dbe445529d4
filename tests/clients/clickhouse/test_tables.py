"""Tables are created, described and compared on a real ClickHouse."""

from __future__ import annotations

import pytest
from clickhouse_connect.driver.client import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.clickhouse.ddl import DEDUPLICATION_WINDOW, column, create_table
from gauss.clients.clickhouse.live import describe, differences
from gauss.clients.clickhouse.quote import identifier, literal
from gauss.clients.clickhouse.write import execute
from gauss.contracts.evolution import Change
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.errors import ConfigError
from gauss.tables.evolution import additions
from helpers.cases import cases

INT, TEXT = FieldType("Int64"), FieldType("String")
QUOTES = (
    TargetField("ts_ms", INT, "ts_ms"),
    TargetField("sym", FieldType("LowCardinality", {"inner": {"name": "String"}}), "symbol"),
    TargetField("bid", FieldType("Decimal64", {"scale": 8}), "bid"),
    TargetField("ask", FieldType("Decimal64", {"scale": 8}), "ask"),
    TargetField("volume", INT, "volume", {"codec": "Delta, ZSTD"}),
    TargetField("wrt_ts", FieldType("DateTime64", {"precision": 3}), None, {"default": "now64(3)"}),
    TargetField("spread", FieldType("Float64"), None, {"materialized": "ask - bid"}),
)


def quotes(table: str, *extra: TargetField, **attrs: object) -> TargetSchema:
    return TargetSchema((*QUOTES, *extra), {"table": table, "engine": "MergeTree", "order_by": "(ts_ms)", **attrs})


def test_create_table_statement_is_as_expected() -> None:
    target = quotes(
        "quotes",
        partition_by="toYYYYMM(toDateTime(intDiv(ts_ms, 1000)))",
        ttl="toDateTime(intDiv(ts_ms, 1000)) + INTERVAL 30 DAY",
        settings={"index_granularity": 1024, "storage_policy": "hot"},
        database="market",
    )
    assert create_table(target) == (
        "CREATE TABLE IF NOT EXISTS `market`.`quotes`\n(\n"
        "    `ts_ms` Int64,\n"
        "    `sym` LowCardinality(String),\n"
        "    `bid` Decimal64(8),\n"
        "    `ask` Decimal64(8),\n"
        "    `volume` Int64 CODEC(Delta, ZSTD),\n"
        "    `wrt_ts` DateTime64(3) DEFAULT now64(3),\n"
        "    `spread` Float64 MATERIALIZED ask - bid\n"
        ")\nENGINE = MergeTree()\n"
        "PARTITION BY toYYYYMM(toDateTime(intDiv(ts_ms, 1000)))\n"
        "ORDER BY (ts_ms)\n"
        "TTL toDateTime(intDiv(ts_ms, 1000)) + INTERVAL 30 DAY\n"
        "SETTINGS index_granularity = 1024, storage_policy = 'hot', "
        f"non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}"
    )


@pytest.mark.parametrize(
    ("attrs", "clause"),
    [
        ({}, "ORDER BY `ts_ms`"),
        ({"order_by": ["sym", "toDate(wrt_ts)"]}, "ORDER BY (`sym`, toDate(wrt_ts))"),
        ({"order_by": "sym, ts_ms"}, "ORDER BY (sym, ts_ms)"),
        ({"engine": "ReplacingMergeTree(volume)", "order_by": "sym"}, "ENGINE = ReplacingMergeTree(volume)"),
        (
            {"engine": "ReplacingMergeTree", "engine_params": ["volume"], "order_by": "sym"},
            "ReplacingMergeTree(volume)",
        ),
        ({"engine": "Memory"}, "ENGINE = Memory()"),
        ({"settings": {"non_replicated_deduplication_window": 7}}, "non_replicated_deduplication_window = 7"),
        ({"order_by": "sym", "primary_key": "sym"}, "PRIMARY KEY sym"),
        ({"comment": "it's"}, "COMMENT 'it\\'s'"),
    ],
)
def test_attributes_become_clauses_that_clickhouse_accepts(
    client: Client, table: str, attrs: dict[str, object], clause: str
) -> None:
    target = TargetSchema(QUOTES, {"table": table, **attrs})
    assert clause in create_table(target)
    execute(client, [create_table(target)])
    live = describe(client, table)
    assert live and differences(client, target, live) == []


def test_table_without_ts_ms_is_ordered_by_tuple() -> None:
    assert "ORDER BY tuple()" in create_table(TargetSchema((TargetField("a", INT),), {"table": "t"}))


@pytest.mark.parametrize("engine", ["ReplacingMergeTree", "SummingMergeTree()", "ReplacingMergeTree(ts_ms)"])
def test_engine_that_merges_rows_requires_order_by(engine: str) -> None:
    with pytest.raises(ConfigError, match="merge all rows into one"):
        create_table(TargetSchema(QUOTES, {"table": "t", "engine": engine}))


def test_describe_of_a_missing_table_is_none(client: Client, table: str) -> None:
    assert describe(client, table) is None


def test_added_columns_are_found_and_created(client: Client, table: str) -> None:
    execute(client, [create_table(quotes(table))])
    wanted = quotes(
        table,
        TargetField("no`te", TEXT, "note", {"default": "'a\\'b'", "codec": "ZSTD", "comment": "x"}),
        TargetField("tags", FieldType("Array", {"element": TEXT}), "tags"),
    )
    live = describe(client, table)
    assert live
    found = differences(client, wanted, live)
    assert [(difference.change, difference.name) for difference in found] == [
        (Change.ADD, "no`te"),
        (Change.ADD, "tags"),
    ]
    execute(client, additions(found))
    live = describe(client, table)
    assert live and differences(client, wanted, live) == []
    assert [column.name for column in live.columns] == [field.name for field in wanted.fields]


def test_other_changes_are_refused_with_a_statement_as_hint(client: Client, table: str) -> None:
    execute(client, [create_table(quotes(table))])
    fields = {field.name: field for field in QUOTES}
    fields["volume"] = TargetField("volume", FieldType("Int128"), "volume")
    fields["wrt_ts"] = TargetField("wrt_ts", FieldType("DateTime64", {"precision": 3}), "x", {"default": "now64(6)"})
    del fields["ask"], fields["spread"]
    attrs = {"table": table, "engine": "ReplacingMergeTree", "order_by": ["sym", "ts_ms"]}
    wanted = TargetSchema(tuple(fields.values()), attrs)
    live = describe(client, table)
    assert live
    found = differences(client, wanted, live)
    assert [(difference.change, difference.name) for difference in found] == [
        (Change.TYPE, "volume"),
        (Change.DEFAULT, "wrt_ts"),
        (Change.EXTRA, "ask"),
        (Change.EXTRA, "spread"),
        (Change.TABLE, "engine"),
        (Change.TABLE, "order_by"),
    ]
    with pytest.raises(ConfigError, match="more than added columns") as caught:
        additions(found)
    assert "MODIFY COLUMN `volume` Int128" in caught.value.hint
    execute(client, [difference.statement for difference in found[:2]])
    live = describe(client, table)
    assert live and all(d.change in (Change.EXTRA, Change.TABLE) for d in differences(client, wanted, live))


@pytest.mark.parametrize(
    ("field", "match"),
    [
        (TargetField("a", INT, None, {"generated": "x"}), "no generated"),
        (TargetField("a", INT, None, {"default": "1", "materialized": "2"}), "default and materialized"),
        (TargetField("", INT), "at least one character"),
    ],
)
def test_column_attribute_that_clickhouse_lacks_is_refused(field: TargetField, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        column(field)


RESERVED = [
    "select",
    "index",
    "constraint",
    "projection",
    "table",
    "from",
    "primary",
    "order",
    "null",
    "format",
    "values",
]


def test_reserved_words_and_long_names_are_valid_columns(client: Client, table: str) -> None:
    names = [*RESERVED, "x" * 300, "é" * 150, "`", "a`b\\c'd\"e\n\t", "😀 😀"]
    target = TargetSchema(tuple(TargetField(name, INT) for name in names), {"table": table, "order_by": names[:3]})
    execute(client, [create_table(target)])
    live = describe(client, table)
    assert live and [found.name for found in live.columns] == names
    assert differences(client, target, live) == []


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)


@settings(max_examples=cases(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(names, min_size=1, max_size=4, unique=True))
def test_any_column_name_is_kept_unchanged(client: Client, columns: list[str]) -> None:
    definition = literal(", ".join(f"{identifier(name)} Int8" for name in columns))
    assert [row[0] for row in client.query(f"DESCRIBE TABLE null({definition})").result_rows] == columns


@settings(max_examples=cases(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_quoted_as_a_literal(client: Client, text: str) -> None:
    assert client.query(f"SELECT {literal(text)}").result_rows == [(text,)]
