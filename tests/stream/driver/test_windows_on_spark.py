"""Windows on a real Spark: results do not depend on batches; late and invalid records."""

from __future__ import annotations

import base64
import json
import random
from functools import partial
from typing import Any

import pytest

from helpers.queries import start_query
from helpers.waiting import wait_until
from helpers.windows import CANDLE, QUOTE, Row, T, encoded, expected, in_order, results

from .conftest import EngineRun, MakeEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ALL = {
    "n": "count()",
    "s": "sum(.v)",
    "lo": "min(.v)",
    "hi": "max(.v)",
    "m": "avg(.v)",
    "a": "first(.v)",
    "z": "last(.v)",
}
KEYED = {"group_by": ["k"], "aggregates": ALL}
BY_EVENT = {"event_time_field": "t", "watermark": "1s"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "agg": ("aggregator", {**KEYED, **BY_EVENT, "interval": "1s"}),
    "slide": ("window", {**KEYED, **BY_EVENT, "type": "sliding", "size": "1s", "slide": "300ms"}),
    "session": ("window", {**KEYED, **BY_EVENT, "type": "session", "gap": "150ms"}),
    "ohlc": (
        "ohlc",
        {**BY_EVENT, "key_field": "k", "price_field": "v", "volume_field": "v", "intervals": ["1s", "4s"]},
    ),
}


def config(processors: dict[str, tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    topics = sorted({source for _, source, _ in processors.values()} | {f"{name}.out" for name in processors})
    return {
        "formats": [QUOTE],
        "topics": [{"name": name, "storage": "memory", "storage_config": {}} for name in topics],
        "processors": [
            {
                "name": name,
                "plugin": plugin,
                "source": {"topic": source, "read": "offset"},
                "target": {"topic": f"{name}.out"},
                "config": {"input": {"format": "quote"}, "output": {"format": "json"}, **given},
            }
            for name, (plugin, source, given) in processors.items()
        ],
    }


def enough(run: EngineRun, name: str, count: int) -> bool:
    return len(results(run, name)) >= count


def disordered(seed: int, count: int, keys: list[str | None]) -> list[Row]:
    """Rows out of order, none of them late: each is within a second of the newest before it."""
    chance, now = random.Random(seed), T
    rows: list[Row] = []
    for _ in range(count):
        now += chance.choice((0, 1, 20, 180))
        rows.append((chance.choice(keys), chance.randrange(40) / 4, now - chance.choice((0, 0, 5, 700))))
    return rows


def test_results_are_the_same_whatever_the_batches(make_engine: MakeEngine, spark: Any) -> None:
    seed = random.randrange(1 << 32)
    sizes = {"few": random.Random(seed).randrange(150, 600), "all": 100_000}
    jobs = {f"{kind}.{size}": (plugin, "in", given) for kind, (plugin, given) in KINDS.items() for size in sizes}
    run = make_engine(config(jobs))
    keys: list[str | None] = [*["hot"] * 20, "b", "Ω"]
    rows = disordered(seed, 1_200, keys)
    flush: Row = ("flush", 0.0, T + 3_600_000)
    run.send("in", encoded([*rows, flush]))
    wanted = {kind: expected(kind, rows) for kind in KINDS}
    for kind in KINDS:
        queries = {size: start_query(run, spark, f"{kind}.{size}", most) for size, most in sizes.items()}
        for size, query in queries.items():
            name = f"{kind}.{size}"
            wait_until(partial(enough, run, name, len(wanted[kind])), 150, what=(name, seed, sizes))
            assert results(run, name) == wanted[kind], (name, seed, sizes)
            dropped = [
                op["numRowsDroppedByWatermark"] for each in query.recentProgress for op in each["stateOperators"]
            ]
            assert dropped and not any(dropped), (name, seed, sizes)
            query.stop()
    told = {row["name"]: row for row in run.client.command("processors.ls")["processors"]}
    assert [told[name]["late"] for name in jobs] == [0] * len(jobs)


def test_late_and_broken_records_change_no_result_and_are_told(make_engine: MakeEngine, spark: Any) -> None:
    totals = {**KEYED, "interval": "1s"}
    run = make_engine(
        config(
            {
                "letters": ("aggregator", "in", {**totals, **BY_EVENT, "late": "dead_letter"}),
                "idle": ("aggregator", "in", {**totals, **BY_EVENT, "idle_timeout": "1s"}),
                "candles": ("ohlc", "in", {**BY_EVENT, **CANDLE, "intervals": ["1s"]}),
                "clock": ("aggregator", "in", {"aggregates": {"n": "count()"}, "interval": "1s"}),
            }
        )
    )
    queries = [start_query(run, spark, name) for name in ("letters", "idle", "candles", "clock")]
    early: list[Row] = [("a", 1.0, T), (None, 2.0, T + 1), ("a", None, T + 2), ("a", 4.0, T + 900)]
    run.send("in", encoded([*early, ("b", 3.0, T + 2500)]))
    # The clock and the idle timeout close windows without a further record.
    first = expected("agg", early)
    wait_until(lambda: results(run, "idle")[:2] == first, 150, what=lambda: results(run, "idle"))
    wait_until(lambda: sum(row["n"] for row in results(run, "clock")) == 5, 150, what=lambda: results(run, "clock"))
    wait_until(lambda: results(run, "letters") == first, 150, what=lambda: results(run, "letters"))
    wait_until(lambda: len(results(run, "candles")) == 1, 150, what=lambda: results(run, "candles"))
    assert results(run, "candles")[0] | {"k": "a", "open": 1.0, "close": 4.0, "volume": 2} == results(run, "candles")[0]
    # A clock that jumps back, then invalid records.
    run.send(
        "in",
        [*encoded([("a", 9.0, T + 100), ("b", 1.0, T + 2600)]), b'{"k":"a","v":1}', b'{"k":"a","v":"x","t":1}', b"{"],
    )
    run.send("in", encoded([("c", 1.0, T + 9000)]))
    both = [*first, *expected("agg", [("b", 3.0, T + 2500), ("b", 1.0, T + 2600)])]
    wait_until(lambda: results(run, "letters") == in_order(both), 150, what=lambda: results(run, "letters"))

    def letters(processor: str) -> list[tuple[str, bytes]]:
        found = [json.loads(data) for data in run.records("_dead")]
        return sorted(
            (each["reason"], base64.b64decode(each["data"])) for each in found if each["processor"] == processor
        )

    late = ("late", encoded([("a", 9.0, T + 100)])[0])
    missing = ("no_event_time", b'{"k":"a","v":1}')
    assert late in letters("letters") and missing in letters("letters")
    assert len(letters("letters")) == 4  # and two that cannot be decoded
    wait_until(lambda: missing in letters("candles"), 150)
    assert late not in letters("candles")
    assert [
        reason for reason, data in letters("candles") if data in encoded([(None, 2.0, T + 1), ("a", None, T + 2)])
    ] == ["missing"] * 2

    def late_ones() -> list[int]:
        told = {row["name"]: row for row in run.client.command("processors.ls")["processors"]}
        return [told[name]["late"] for name in ("letters", "candles")]

    wait_until(lambda: late_ones() == [1, 1], 150, what=late_ones)  # the counter follows the letters after a moment
    for query in queries:
        query.stop()
