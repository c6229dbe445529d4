"""Checks of a ClickHouse table's schema that need no server."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.clients.clickhouse.ddl import create_table
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.errors import ConfigError

FIELDS = (
    TargetField("ts_ms", FieldType("Int64"), "ts_ms"),
    TargetField("sym", FieldType("LowCardinality", {"inner": {"name": "String"}}), "symbol"),
    TargetField("bid", FieldType("Float64"), "bid"),
)


def statement(*more: TargetField, **attrs: Any) -> str:
    return create_table(TargetSchema((*FIELDS, *more), {"table": "quotes", **attrs}))


@pytest.mark.parametrize("clause", ["order_by", "partition_by", "primary_key", "sample_by", "ttl"])
@pytest.mark.parametrize("asked", ["symbl", "lower(symbl)"])
def test_clause_with_an_unknown_column_is_refused(clause: str, asked: str) -> None:
    with pytest.raises(ConfigError, match=f'{clause}: the table has no column "symbl"'):
        statement(**{clause: asked})


def test_old_name_of_a_renamed_column_is_refused() -> None:
    with pytest.raises(ConfigError, match='order_by: the table has no column "symbol"') as caught:
        statement(order_by=["symbol", "ts_ms"])
    assert caught.value.hint in ('did you mean "sym"?', "its columns are ts_ms, sym, bid")


@pytest.mark.parametrize("word", ["default", "materialized", "alias", "ttl"])
def test_column_expression_with_an_unknown_column_is_refused(word: str) -> None:
    field = TargetField("more", FieldType("Float64"), None, {word: "bidd * 2"})
    with pytest.raises(ConfigError, match=f'column more: {word}: the table has no column "bidd"'):
        statement(field)


def test_clause_that_names_columns_is_written_unchanged() -> None:
    text = statement(
        TargetField("spread", FieldType("Float64"), None, {"materialized": "bid * 2"}),
        order_by=["sym", "ts_ms"],
        partition_by="toYYYYMM(toDateTime(ts_ms / 1000))",
        ttl="toDateTime(ts_ms / 1000) + INTERVAL 1 YEAR",
    )
    assert "ORDER BY (`sym`, `ts_ms`)" in text
    assert "TTL toDateTime(ts_ms / 1000) + INTERVAL 1 YEAR" in text


def test_hint_of_a_missing_key_names_columns_of_the_table() -> None:
    with pytest.raises(ConfigError, match="without order_by would merge all rows into one") as caught:
        statement(engine="ReplacingMergeTree")
    assert caught.value.hint.endswith('order_by = ["sym", "ts_ms"]')
    statement(engine="ReplacingMergeTree", order_by=["sym", "ts_ms"])


def test_misspelt_engine_is_refused_with_the_closest_match() -> None:
    with pytest.raises(ConfigError, match='no table engine "ReplacingMergeTre": did you mean "ReplacingMergeTree"'):
        statement(engine="ReplacingMergeTre(ts_ms)", order_by="ts_ms")


@pytest.mark.parametrize("kind", [FieldType("Strng"), FieldType("Array", {"element": {"name": "Strng"}})])
def test_misspelt_type_is_refused_with_the_closest_match(kind: FieldType) -> None:
    with pytest.raises(ConfigError, match='column more: ClickHouse has no type "Strng"') as caught:
        statement(TargetField("more", kind, "more"))
    assert caught.value.hint == 'did you mean "String"?'
