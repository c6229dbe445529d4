"""Detects from its plan what a function or query keeps in Spark's state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from gauss.config.spec import ProcessorDef, SourceRef, TargetRef
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.function import DataFrameFunction, FunctionConfig
from gauss.contracts.transform import Schemas
from gauss.plugins.processors.sql.spec import SPEC as SQL
from gauss.plugins.processors.sql.transform import Sql
from gauss.stream.driver.planning.refs import FormatRef, TransformRef
from gauss.stream.driver.queries.compile import Design
from gauss.stream.driver.queries.state_plan import UNKNOWN, kept_state

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FIELDS = {"at": "timestamp", "symbol": "string", "bid": "double"}
ENTRY = ProcessorDef(name="p", plugin="f:f", source=SourceRef(topic="a", read="offset"), target=TargetRef(topic="b"))


def design(transform: Any, **fields: str) -> Design:
    schema = SourceSchema(tuple(SourceField(name, FieldType(kind)) for name, kind in fields.items()))
    traits = transform.bind(Schemas(schema if "auto" not in fields.values() else None))
    return Design(ENTRY, SQL, TransformRef("f:f", input=FormatRef("json")), transform, traits, FormatRef("json"))


def of_function(function: Callable[..., Any], **fields: str) -> Design:
    named = list(fields) if "auto" in fields.values() else None
    return design(DataFrameFunction(function, FunctionConfig(input={"format": "json"}, fields=named)), **fields)  # type: ignore[arg-type]


def timed(records: Any) -> Any:
    return records.withWatermark("at", "1 minute")


class Same(StatefulProcessor):
    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002
        yield from rows

    def close(self) -> None: ...


def in_pandas(_key: Any, frames: Iterator[Any], _state: Any) -> Iterator[Any]:
    yield from frames


STATEFUL: dict[str, Callable[[Any], Any]] = {
    "group": lambda r: timed(r).groupBy(F.window("at", "1 minute"), "symbol").count(),
    "distinct": lambda r: timed(r).select("at", "symbol").distinct(),
    "dropDuplicates": lambda r: timed(r).dropDuplicates(["at", "symbol"]),
    "dropDuplicatesWithinWatermark": lambda r: timed(r).dropDuplicatesWithinWatermark(["symbol"]),
    "join": lambda r: r.select("symbol", "at").join(r.select("symbol", F.col("at").alias("then")), "symbol"),
    "limit": lambda r: r.limit(5),
    "applyInPandasWithState": lambda r: r.groupBy("symbol").applyInPandasWithState(
        in_pandas, "symbol string", "n long", "append", "NoTimeout"
    ),
    "transformWithStateInPandas": lambda r: r.groupBy("symbol").transformWithStateInPandas(
        Same(), "symbol string", "append", "None"
    ),
    "transformWithState": lambda r: r.groupBy("symbol").transformWithState(Same(), "symbol string", "append", "None"),
    "below a projection": lambda r: timed(r).groupBy("at").count().select("count").where("count > 1"),
}
STATELESS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda r: r.withColumn("twice", F.col("bid") * 2).where("bid > 1"),
    "watermark alone": timed,
    "union": lambda r: r.union(r),
    "explode": lambda r: r.select(F.explode(F.array("bid", "bid")).alias("bid")),
    "join with a table": lambda r: r.join(r.sparkSession.range(3).groupBy("id").count(), F.col("bid") == F.col("id")),
    "mapInPandas": lambda r: r.mapInPandas(lambda frames: frames, r.schema),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_an_operator_that_keeps_state_is_seen(spark: Any, name: str) -> None:
    assert kept_state(spark, of_function(STATEFUL[name], **FIELDS))


@pytest.mark.parametrize("name", STATELESS)
def test_a_function_of_single_records_keeps_nothing(spark: Any, name: str) -> None:
    assert kept_state(spark, of_function(STATELESS[name], **FIELDS)) == ""


@pytest.mark.parametrize("name", [name for name in STATEFUL if name != "join"])
def test_a_field_that_the_state_does_not_use_changes_nothing(spark: Any, name: str) -> None:
    def without(records: Any) -> Any:
        return STATEFUL[name](records)

    before = kept_state(spark, of_function(without, **FIELDS))
    assert kept_state(spark, of_function(without, **FIELDS, agent="string")) == before


def test_a_type_or_key_that_the_state_uses_changes_it(spark: Any) -> None:
    def grouped(records: Any) -> Any:
        return timed(records).groupBy("at", "symbol").agg(F.max("bid").alias("most"))

    def otherwise(records: Any) -> Any:
        return timed(records).groupBy("at").agg(F.max("bid").alias("most"))

    found = {
        kept_state(spark, of_function(grouped, **FIELDS)),
        kept_state(spark, of_function(grouped, **{**FIELDS, "symbol": "int64"})),
        kept_state(spark, of_function(otherwise, **FIELDS)),
    }
    assert len(found) == 3


def test_state_is_seen_where_only_records_tell_the_types(spark: Any) -> None:
    assert kept_state(spark, of_function(lambda r: r.dropDuplicates(["n"]), n="auto"))
    assert kept_state(spark, of_function(lambda r: r.where(F.col("n") + 1 > 2), n="auto")) == ""
    assert kept_state(spark, of_function(lambda r: r.where(F.size("n") > 1), n="auto")) == UNKNOWN


def test_a_query_that_limits_keeps_state(spark: Any) -> None:
    def query(text: str) -> str:
        config = SQL.validate({"input": {"format": "json"}, "query": text})
        return kept_state(spark, design(Sql(config), **FIELDS))  # type: ignore[arg-type]

    assert query("SELECT symbol FROM input LIMIT 5")
    assert query("SELECT DISTINCT symbol FROM input")
    assert query("SELECT symbol, bid FROM input WHERE bid > 2") == ""
