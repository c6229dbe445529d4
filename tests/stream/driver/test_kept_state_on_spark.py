"""Open candles in a topic: each is closed once, survives a lost checkpoint, and leaves the table when it is closed."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.spark.session import Spark
from gauss.stream.driver.queries.query import Query
from gauss.stream.driver.supervised import Context, WorkState
from helpers.waiting import wait_until
from helpers.windows import QUOTE, Row, T, encoded, expected, in_order, results

from .conftest import EngineRun, MakeEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CANDLES = {
    "input": {"format": "quote"},
    "output": {"format": "json"},
    "key_field": "k",
    "price_field": "v",
    "volume_field": "v",
    "event_time_field": "t",
    "watermark": "1s",
    "intervals": ["1s", "4s"],
}
TABLE = {"mode": "table", "format": "json", "key_field": "window_key"}


def config() -> dict[str, Any]:
    topics = [("in", "file", {}), ("state.table", "memory", TABLE), ("state.log", "file", {})]
    topics += [(f"{name}.out", "file", {}) for name in ("table", "log")]
    return {
        "formats": [QUOTE],
        "topics": [{"name": name, "storage": storage, "storage_config": given} for name, storage, given in topics],
        "processors": [
            {
                "name": name,
                "plugin": "ohlc",
                "source": {"topic": "in", "read": "offset"},
                "target": {"topic": f"{name}.out"},
                "config": {**CANDLES, "state_topic": f"state.{name}", "state_format": "json"},
            }
            for name in ("table", "log")
        ],
    }


def made(run: EngineRun, spark: Spark, name: str) -> Query:
    processor = next(each for each in run.pipeline.processors if each.name == name)
    context = Context(spark, run.client, run.pipeline, DataDir(run.data_dir.root), str(run.data_dir.flight_json))
    return Query(context, processor)


def started(run: EngineRun, spark: Spark, name: str) -> Query:
    query = made(run, spark, name)
    while not query.is_started:  # the status that state is being loaded comes first
        query.start()
        query.statuses()
    return query


def open_keys(run: EngineRun, topic: str) -> list[str]:
    found: dict[str, bool] = {}
    for batch in run.client.scan(topic):
        for row in map(json.loads, batch.column("data").to_pylist()):
            found[row["window_key"]] = row["closed"]
    return sorted(key for key, closed in found.items() if not closed)


def wait_for_results(run: EngineRun, name: str, count: int) -> None:
    wait_until(lambda: len(results(run, name)) >= count, 150, what=lambda: (name, results(run, name)))


def wait_for_open_keys(run: EngineRun, name: str, keys: list[str]) -> None:
    topic = f"state.{name}"
    wait_until(lambda: open_keys(run, topic) == keys, 150, what=lambda: (name, open_keys(run, topic)))


def test_open_candles_outlive_a_lost_checkpoint(make_engine: MakeEngine, started_spark: Spark) -> None:
    run = make_engine(config())
    first: list[Row] = [("a", 3.0, T), ("a", 1.0, T + 10), ("b", 2.0, T + 900), ("a", 4.0, T + 2000)]
    then: list[Row] = [("a", 0.5, T + 2500), ("b", 9.0, T + 3000), ("a", 7.0, T + 2600)]
    last: list[Row] = [("b", 8.0, T + 3900), ("c", 1.0, T + 7000)]
    closed = [row for row in expected("ohlc", [*first, *then, *last]) if row["k"] != "c"]
    left_open = sorted([f"a|1s|{T + 3000}", f"a|4s|{T + 4000}", f"b|4s|{T + 4000}"])
    for name in ("table", "log"):
        query = started(run, started_spark, name)
        if name == "table":
            run.send("in", encoded(first))
        wait_for_results(run, name, 2)
        wait_for_open_keys(run, name, left_open)
        query.stop()
    run.send("in", encoded(then))
    # One query loses all of Spark's state, the other keeps it.
    shutil.rmtree(run.data_dir.checkpoints / "table")
    queries = {name: started(run, started_spark, name) for name in ("table", "log")}
    run.send("in", encoded(last))
    for name, query in queries.items():
        wait_for_results(run, name, len(closed))
        assert results(run, name) == in_order(closed), name
        wait_for_open_keys(run, name, [f"c|1s|{T + 8000}", f"c|4s|{T + 8000}"])
        query.stop()
    assert [row["records"] for row in [run.client.command("topic", {"name": "state.table"})]] == [2]
    # Both the table and the checkpoint are lost: no state is invented.
    run.stop()
    run.start()
    shutil.rmtree(run.data_dir.checkpoints / "table")
    with pytest.raises(ConfigError, match="state of processor"):
        started(run, started_spark, "table")
    # The status that state is being loaded comes first, and there are no results until it is loaded.
    query = made(run, started_spark, "log")
    for _ in range(2):
        query.tick()
        assert query.state is WorkState.STARTING
    assert query.statuses()[0].detail == "loading its state from topic state.log"
    query.tick()
    assert (query.state, query.detail) == (WorkState.RUNNING, "")
    run.send("in", encoded([("c", 2.0, T + 7100), ("d", 1.0, T + 60_000)]))
    wait_until(lambda: any(row["k"] == "c" for row in results(run, "log")), 150, what=lambda: results(run, "log"))
    assert [row["close"] for row in results(run, "log") if row["k"] == "c"] == [2.0, 2.0]
    query.stop()
