"""sql over given rows: the decoded fields, the resulting rows and their times."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from gauss.plugins.processors.sql.spec import SPEC as SQL
from gauss.plugins.processors.sql.transform import Sql

pytestmark = pytest.mark.spark

SCHEMA = SourceSchema(
    (
        SourceField("symbol", FieldType("string")),
        SourceField("bid", FieldType("double")),
        SourceField("$.o.id", FieldType("int64")),
    )
)


def sql(query: str) -> Sql:
    return Sql(SQL.validate({"input": {"format": "json"}, "query": query}))  # type: ignore[arg-type]


def records(spark: Any) -> Any:
    rows = [("BTC", 101.0, (1,), 10, 10, b"a"), ("ETH", 50.0, (2,), 20, 20, b"b")]
    return spark.createDataFrame(
        rows, "symbol string, bid double, o struct<id: bigint>, ts_ms bigint, _ts_ms bigint, _data binary"
    )


def names(fields: list[SourceField]) -> list[str]:
    return [field.name for field in fields]


@pytest.mark.usefixtures("spark")
def test_sql_decodes_only_the_fields_it_names() -> None:
    named, every = "SELECT upper(symbol) AS s FROM input WHERE o.id > 1", "SELECT * FROM input"
    assert names(sql(named).bind(Schemas(SCHEMA)).fields) == ["symbol", "$.o.id"]
    assert names(sql(every).bind(Schemas(SCHEMA)).fields) == ["symbol", "bid", "$.o.id"]


@pytest.mark.usefixtures("spark")
def test_sql_without_a_schema_leaves_types_to_the_records() -> None:
    query = "SELECT t.symbol, bid * 2 AS twice, twice + 1 AS more, o.id, ts_ms FROM input AS t WHERE a.b IS NOT NULL"
    found = sql(query).bind(Schemas()).fields
    assert sorted(names(found)) == ["$.a.b", "$.o.id", "bid", "symbol"]
    assert {field.field_type.name for field in found} == {"auto"}
    with pytest.raises(ConfigError, match="needs to know the fields"):
        sql("SELECT * FROM input").bind(Schemas())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT symbol FROM input WHERE bid > 100", [{"_ts_ms": 10, "symbol": "BTC"}]),
        ("select symbol, ts_ms from input i where i.o.id = 2", [{"_ts_ms": 20, "symbol": "ETH", "ts_ms": 20}]),
        ("SELECT count(*) AS n FROM input", [{"n": 2}]),
        ("SELECT max(bid) AS top FROM input", [{"top": 101.0}]),
        ("SELECT DISTINCT 1 AS one FROM input", [{"one": 1}]),
        ("SELECT explode(array(1, 2)) AS e FROM input WHERE symbol = 'BTC'", [{"e": 1}, {"e": 2}]),
        ("SELECT s FROM (SELECT symbol AS s FROM input) LIMIT 1", [{"s": "BTC"}]),
        ("SELECT bid / 0 AS nothing FROM input LIMIT 1", [{"nothing": None}]),
    ],
)
def test_sql_keeps_a_records_time_only_where_each_row_comes_from_one(
    spark: Any, query: str, expected: list[dict[str, Any]]
) -> None:
    made = sql(query).apply(records(spark))
    assert [row.asDict() for row in made.collect()] == expected


def test_sql_star_gives_the_fields_and_no_hidden_column(spark: Any) -> None:
    made = sql("SELECT * FROM input").apply(records(spark))
    assert sorted(made.columns) == ["_ts_ms", "bid", "o", "symbol", "ts_ms"]


def test_sql_queries_that_are_planned_side_by_side_read_each_their_own_records(spark: Any) -> None:
    given = [records(spark).where(f"symbol = '{symbol}'") for symbol in ("BTC", "ETH") * 6]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(sql("SELECT symbol FROM input").apply, given))
    assert [row.symbol for result in made for row in result.collect()] == ["BTC", "ETH"] * 6
