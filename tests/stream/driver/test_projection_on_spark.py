"""Results whose format lacks some of their columns, on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.spark.session import Spark
from gauss.stream.driver.queries.query import Query
from gauss.stream.driver.supervised import Context
from helpers.format_kinds import format_config, format_ref
from helpers.windows import CANDLE, QUOTE, T, encoded

from .conftest import EngineRun, MakeEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FIELDS = {"ts_ms": "int64", "k": "string", "open": "double", "high": "double"}
FIELDS |= {"low": "double", "close": "double", "volume": "int64"}
PROCESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("ohlc", {**CANDLE, "event_time_field": "t", "watermark": "1ms", "intervals": ["1s"]}),
    "kept": (
        "ohlc",
        {**CANDLE, "event_time_field": "t", "watermark": "1ms", "intervals": ["1s"], "state_topic": "state"},
    ),
    "query": (
        "sql",
        {
            "query": "SELECT t AS ts_ms, k, v AS open, v AS high, v AS low, v AS close, t AS volume, 1 AS more"
            " FROM input"
        },
    ),
}


def config(folder: Path, fields: dict[str, str]) -> dict[str, Any]:
    out = {"name": "candle", "plugin": "avro", "config": format_config("avro", folder, fields)}
    topics: list[tuple[str, str, dict[str, Any]]] = [("in", "file", {}), ("state", "file", {})]
    topics += [*((f"{name}.out", "file", {}) for name in PROCESSORS)]
    return {
        "formats": [QUOTE, out],
        "topics": [{"name": name, "storage": storage, "storage_config": given} for name, storage, given in topics],
        "processors": [
            {
                "name": name,
                "plugin": plugin,
                "source": {"topic": "in", "read": "offset"},
                "target": {"topic": f"{name}.out"},
                "config": {"input": {"format": "quote"}, "output": {"format": "candle"}, **given},
            }
            for name, (plugin, given) in PROCESSORS.items()
        ],
    }


def start(run: EngineRun, spark: Spark, name: str) -> Query:
    processor = next(each for each in run.pipeline.processors if each.name == name)
    context = Context(spark, run.client, run.pipeline, DataDir(run.data_dir.root), str(run.data_dir.flight_json))
    query = Query(context, processor)
    while not query.is_started:  # the status that state is being loaded comes first
        query.start()
        query.statuses()
    return query


def test_columns_that_an_avro_schema_lacks_are_left_out(
    make_engine: MakeEngine, started_spark: Spark, tmp_path: Path
) -> None:
    run = make_engine(config(tmp_path, FIELDS))
    run.send("in", encoded([("a", 3.0, T), ("a", 1.0, T + 10), ("a", 4.0, T + 5000)]))
    candle = {"ts_ms": T, "k": "a", "open": 3.0, "high": 3.0, "low": 1.0, "close": 1.0, "volume": 2}
    row = {"ts_ms": T, "k": "a", "open": 3.0, "high": 3.0, "low": 3.0, "close": 3.0, "volume": T}
    format_ = format_ref("avro", tmp_path, FIELDS).build()
    for name, wanted in (("plain", candle), ("kept", candle), ("query", row)):
        query = start(run, started_spark, name)
        assert format_.decode(run.wait_for(f"{name}.out", 1)[0]) == wanted
        query.stop()


def test_a_query_that_gives_no_value_for_a_field_is_refused_before_it_reads(
    make_engine: MakeEngine, started_spark: Spark, tmp_path: Path
) -> None:
    run = make_engine(config(tmp_path, {**FIELDS, "vwap": "double"}))
    with pytest.raises(ConfigError, match="gives no value for the field vwap"):
        start(run, started_spark, "query")
