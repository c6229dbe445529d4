"""dedup and window-join on a real Spark: results do not depend on batches; keys, times and records without a match."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import Any

import pytest

from gauss.spark.session import STREAM_VARIABLES
from helpers.queries import start_query

from .conftest import EngineRun, MakeEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

T = 1_700_000_040_000
FORMATS = {
    "trade": [("id", "string"), ("n", "int64"), ("t", "int64")],
    "order": [("id", "string"), ("m", "int64"), ("t", "int64")],
}
ANY = {"input": {"format": "json"}, "event_time_field": "t", "watermark": "1h"}
JOIN = {**ANY, "join_topic": "orders", "join_key": "id", "window": "5s"}


def config(processors: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    names = ["trades", "orders", *(f"{name}.out" for name in processors)]
    return {
        "formats": [
            {"name": name, "plugin": "json", "config": {"fields": [{"name": n, "type": t} for n, t in fields]}}
            for name, fields in FORMATS.items()
        ],
        "topics": [{"name": name, "storage": "memory", "storage_config": {}} for name in names],
        "processors": [
            {
                "name": name,
                "plugin": plugin,
                "source": {"topic": "trades", "read": "offset"},
                "target": {"topic": f"{name}.out"},
                "config": given,
            }
            for name, (plugin, given) in processors.items()
        ],
    }


def settled(run: EngineRun, topic: str, count: int) -> list[dict[str, Any]]:
    """The output of a processor that has read everything and written at least `count` records."""
    run.wait_read(topic.removesuffix(".out"))
    run.wait_for(topic, count, 150)
    return [json.loads(record) for record in run.records(topic)]


def shown(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def pairs(trades: list[dict[str, Any]], orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The expected pairs, in plain Python: same key, within five seconds."""
    return [
        {**order, **trade}
        for trade in trades
        for order in orders
        if trade.get("id") is not None
        and str(trade["id"]) == str(order.get("id"))
        and abs(trade["t"] - order["t"]) <= 5000
    ]


def firsts(trades: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The expected first records of each key, in plain Python."""
    found: dict[str, dict[str, Any]] = {}
    for trade in trades:
        found.setdefault(json.dumps(trade["id"]), trade)
    return list(found.values())


def encoded(rows: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


@pytest.mark.parametrize("seed", [1, 2])
def test_results_do_not_depend_on_where_batches_end(make_engine: MakeEngine, spark: Any, seed: int) -> None:
    chance = random.Random(seed)
    kinds = {"dedup": ("dedup", {**ANY, "key": "id", "within": "30m"}), "join": ("window-join", JOIN)}
    run = make_engine(config(kinds))
    trades = [
        {"id": chance.choice([f"k{n % 40}", n % 7]), "n": n, "t": T + chance.randrange(60_000)} for n in range(300)
    ]
    orders = [{"id": f"k{chance.randrange(40)}", "m": n, "t": T + chance.randrange(60_000)} for n in range(300)]
    queries = [start_query(run, spark, name, max_rows=chance.choice([7, 50, 1000])) for name in kinds]
    try:
        sent = {"trades": encoded(trades), "orders": encoded(orders)}
        while any(sent.values()):
            topic = chance.choice([name for name in sent if sent[name]])
            many = chance.randrange(1, 200)
            run.send(topic, sent[topic][:many])
            sent[topic] = sent[topic][many:]
            time.sleep(chance.choice([0, 0.2]))  # batches of one send and of several
        wanted = pairs(trades, orders)
        assert shown(settled(run, "join.out", len(wanted))) == shown(wanted)
        assert shown(settled(run, "dedup.out", len(firsts(trades)))) == shown(firsts(trades))
    finally:
        for query in queries:
            query.stop()


def test_records_that_meet_none_come_out_once_nothing_can_come(make_engine: MakeEngine, spark: Any) -> None:
    timed = {**JOIN, "watermark": "1s", "idle_timeout": "1s"}
    typed = {**timed, "input": {"format": "trade"}, "join_input": {"format": "order"}, "output": {"format": "json"}}
    kinds = {
        "left": ("window-join", {**timed, "join_type": "left"}),
        "full": ("window-join", {**timed, "join_type": "full", "join_prefix": "o_"}),
        "right": ("window-join", {**typed, "join_type": "right"}),
    }
    run = make_engine(config(kinds))
    trades: list[dict[str, Any]] = [{"id": "a", "n": 1, "t": T}, {"id": "b", "n": 2, "t": T + 1}, {"n": 3, "t": T + 2}]
    orders: list[dict[str, Any]] = [
        {"id": "a", "m": 1, "t": T + 4000},
        {"id": "b", "m": 2, "t": T + 5002},
        {"id": None, "m": 3, "t": T},
    ]
    run.send("trades", encoded(trades))
    run.send("orders", encoded(orders))
    queries = [start_query(run, spark, name) for name in kinds]
    try:
        assert shown(settled(run, "left.out", 3)) == shown([{"id": "a", "n": 1, "t": T, "m": 1}, *trades[1:]])
        both = {"id": "a", "n": 1, "t": T, "o_m": 1, "o_t": T + 4000}
        others: list[dict[str, Any]] = [{"id": "b", "o_m": 2, "o_t": T + 5002}, {"id": None, "o_m": 3, "o_t": T}]
        assert shown(settled(run, "full.out", 5)) == shown([both, *trades[1:], *others])
        rows: list[dict[str, Any]] = [{"id": "a", "n": 1, "t": T, "m": 1}, {"id": "b", "n": None, "t": None, "m": 2}]
        rows.append({"id": None, "n": None, "t": None, "m": 3})
        assert shown(settled(run, "right.out", 3)) == shown(rows)
        # A replayed letter of the other topic is read as a record of that topic.
        run.send("orders", [b"oops"])
        run.wait_for("_dead", len(kinds))
        assert run.client.command("dlq.replay", {"processor": "right"})["replayed"] == 1
        letters = [json.loads(record) for record in run.wait_for("_dead", len(kinds) + 1)]
        mine = [(each["topic"], each["attempts"]) for each in letters if each["processor"] == "right"]
        assert mine == [("orders", 1), ("orders", 2)]
    finally:
        for query in queries:
            query.stop()


def test_record_comes_out_again_once_it_is_forgotten_and_one_without_key_is_dead(
    make_engine: MakeEngine, spark: Any
) -> None:
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "key": ("dedup", {**ANY, "key": ["id", "n"], "within": "10s", "watermark": "2s"}),
        "bytes": ("dedup", {"within": "1h"}),
    }
    run = make_engine(config(kinds))
    queries = [start_query(run, spark, name) for name in kinds]

    def sent(count: int, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """Sends a separate batch, and waits for its results."""
        run.send("trades", encoded(list(rows)))
        return settled(run, "key.out", count)

    try:
        first = {"id": "a", "n": 1, "t": T}
        sent(2, first, {"id": "a", "n": 2, "t": T}, first, {"id": "a", "t": T}, {"id": None, "n": 1, "t": T})
        sent(3, {"id": "a", "n": 1, "t": T + 9_000}, {"id": "x", "n": 1, "t": T + 20_000})  # watermark: 18 s
        sent(4, {"id": "y", "n": 1, "t": T + 20_000})
        rows = sent(5, {"id": "a", "n": 1, "t": T + 20_001}, {"id": "a", "n": 1, "t": T})
        found = [(row["id"], row["n"], row["t"] - T) for row in rows]
        assert found == [("a", 1, 0), ("a", 2, 0), ("x", 1, 20_000), ("y", 1, 20_000), ("a", 1, 20_001)]
        reasons = Counter(json.loads(record)["reason"] for record in run.records("_dead"))
        assert reasons == {"missing": 2}
        assert len(settled(run, "bytes.out", 8)) == 8
    finally:
        for query in queries:
            query.stop()


def test_streams_put_only_known_variables_into_the_map_that_they_share(make_engine: MakeEngine, spark: Any) -> None:
    run = make_engine(config({"bytes": ("dedup", {"within": "1h"})}))
    query = start_query(run, spark, "bytes")
    try:
        run.send("trades", [b"a", b"b", b"a"])
        assert run.wait_for("bytes.out", 2) == [b"a", b"b"]
    finally:
        query.stop()
    source = spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource("gauss")
    # Two streams that add a name at once may corrupt the map, so all names are there already.
    assert set(source.dataSourceCls().envVars().keySet().toArray()) == {"PYTHONPATH", *STREAM_VARIABLES}
