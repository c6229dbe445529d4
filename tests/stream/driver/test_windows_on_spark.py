"""Windows on a real Spark: the same results whatever the batches, and what becomes of late and broken records."""

from __future__ import annotations

import base64
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gauss.stream.driver import compile as compiling
from gauss.stream.driver.plan import ReadPlan, WritePlan, encode_fields
from gauss.stream.protocol import Claim

from .conftest import EngineRun, MakeEngine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

T = 1_700_000_040_000
QUOTE = {
    "name": "quote",
    "plugin": "json",
    "config": {
        "fields": [{"name": "k", "type": "string"}, {"name": "v", "type": "double"}, {"name": "t", "type": "int64"}]
    },
}
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
CANDLE = {"key_field": "k", "price_field": "v"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "agg": ("aggregator", {**KEYED, **BY_EVENT, "interval": "1s"}),
    "slide": ("window", {**KEYED, **BY_EVENT, "type": "sliding", "size": "1s", "slide": "300ms"}),
    "session": ("window", {**KEYED, **BY_EVENT, "type": "session", "gap": "150ms"}),
    "ohlc": (
        "ohlc",
        {**BY_EVENT, "key_field": "k", "price_field": "v", "volume_field": "v", "intervals": ["1s", "4s"]},
    ),
}

Row = tuple[str | None, float | None, int]


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


def start(run: EngineRun, spark: Any, name: str, max_rows: int = 100_000) -> Any:
    processor = next(each for each in run.pipeline.processors if each.name == name)
    assert processor.source is not None
    design = compiling.design(run.pipeline, processor)
    claimed = run.client.claim(Claim(name, "c", [processor.source.topic], [f"{name}.out"], stateful=True))
    flight, fields = str(run.data_dir.flight_json), design.decided({})
    read = ReadPlan(
        flight,
        name,
        claimed.generation,
        claimed.start,
        format=design.input,
        fields=encode_fields(fields),
        max_rows=max_rows,
        time=compiling.time_plan(design, fields),
    )
    folder = str(run.data_dir.checkpoints / name)
    write = WritePlan(flight, name, claimed.generation, "c", folder, f"{name}.out", design.output)
    return compiling.start(spark, read, write, design)


def encoded(rows: list[Row]) -> list[bytes]:
    return [json.dumps({"k": k, "v": v, "t": t}).encode() for k, v, t in rows]


def summed(rows: list[tuple[int, int, Row]]) -> dict[str, Any]:
    """What ALL gives for rows with their place."""
    ordered = [row for _, _, row in sorted(rows, key=lambda each: (each[0], each[1]))]
    values = [v for _, v, _ in ordered if v is not None]
    mean = sum(values) / len(values) if values else None
    numbers = {"s": sum(values), "lo": min(values), "hi": max(values)} if values else dict.fromkeys(("s", "lo", "hi"))
    return {"n": len(rows), **numbers, "m": mean, "a": ordered[0][1], "z": ordered[-1][1]}


def expected(kind: str, rows: list[Row]) -> list[dict[str, Any]]:
    """By plain Python: every record into each of its windows."""
    placed = [(row[2], place, row) for place, row in enumerate(rows)]
    groups: dict[tuple[Any, ...], list[tuple[int, int, Row]]] = defaultdict(list)
    for each in placed:
        t, k = each[0], each[2][0]
        if kind == "agg":
            groups[k, t // 1000 * 1000, t // 1000 * 1000 + 1000].append(each)
        elif kind == "slide":
            for begin in range(t // 300 * 300, t - 1000, -300):
                groups[k, begin, begin + 1000].append(each)
        elif kind == "ohlc":
            for name, length in (("1s", 1000), ("4s", 4000)):
                groups[k, t // length * length, name].append(each)
    if kind == "session":
        groups = defaultdict(list)
        for key in {row[0] for row in rows}:
            session: list[tuple[int, int, Row]] = []
            for each in sorted(each for each in placed if each[2][0] == key):
                if session and each[0] - session[-1][0] > 150:
                    groups[key, session[0][0], session[-1][0] + 150] = session
                    session = []
                session = [*session, each]
            groups[key, session[0][0], session[-1][0] + 150] = session
    if kind == "ohlc":
        columns = {"open": "a", "high": "hi", "low": "lo", "close": "z", "volume": "s"}
        made = [
            {"ts_ms": begin, "k": key, "interval": name, **{new: summed(found)[old] for new, old in columns.items()}}
            for (key, begin, name), found in groups.items()
        ]
    else:
        made = [
            {"k": key, "window_start": begin, "window_end": end, **summed(found)}
            for (key, begin, end), found in groups.items()
        ]
    return in_order(made)


PLACES = ("k", "window_start", "window_end", "ts_ms", "interval")


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps([row[name] for name in PLACES if name in row]))


def results(run: EngineRun, name: str) -> list[dict[str, Any]]:
    return in_order([json.loads(data) for data in run.records(f"{name}.out")])


def until(check: Callable[[], bool], seconds: float = 150.0) -> bool:
    deadline = time.monotonic() + seconds
    while not check() and time.monotonic() < deadline:
        time.sleep(0.2)
    return check()


def enough(run: EngineRun, name: str, count: int) -> bool:
    return len(results(run, name)) >= count


def disordered(seed: int, count: int, keys: list[str | None]) -> list[Row]:
    """Rows of which none is late, however they are cut: each within a second of the newest before it."""
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
        queries = {size: start(run, spark, f"{kind}.{size}", most) for size, most in sizes.items()}
        for size, query in queries.items():
            name = f"{kind}.{size}"
            assert until(partial(enough, run, name, len(wanted[kind]))), (name, seed, sizes)
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
    queries = [start(run, spark, name) for name in ("letters", "idle", "candles", "clock")]
    early: list[Row] = [("a", 1.0, T), (None, 2.0, T + 1), ("a", None, T + 2), ("a", 4.0, T + 900)]
    run.send("in", encoded([*early, ("b", 3.0, T + 2500)]))
    # The clock and the silence close what they may, without a further record.
    first = expected("agg", early)
    assert until(lambda: results(run, "idle")[:2] == first), results(run, "idle")
    assert until(lambda: sum(row["n"] for row in results(run, "clock")) == 5), results(run, "clock")
    assert until(lambda: results(run, "letters") == first), results(run, "letters")
    assert until(lambda: len(results(run, "candles")) == 1), results(run, "candles")
    assert results(run, "candles")[0] | {"k": "a", "open": 1.0, "close": 4.0, "volume": 2} == results(run, "candles")[0]
    # A clock that jumps back, then records that are none.
    run.send(
        "in",
        [*encoded([("a", 9.0, T + 100), ("b", 1.0, T + 2600)]), b'{"k":"a","v":1}', b'{"k":"a","v":"x","t":1}', b"{"],
    )
    run.send("in", encoded([("c", 1.0, T + 9000)]))
    both = [*first, *expected("agg", [("b", 3.0, T + 2500), ("b", 1.0, T + 2600)])]
    assert until(lambda: results(run, "letters") == in_order(both)), results(run, "letters")

    def letters(processor: str) -> list[tuple[str, bytes]]:
        found = [json.loads(data) for data in run.records("_dead")]
        return sorted(
            (each["reason"], base64.b64decode(each["data"])) for each in found if each["processor"] == processor
        )

    late = ("late", encoded([("a", 9.0, T + 100)])[0])
    missing = ("no_event_time", b'{"k":"a","v":1}')
    assert late in letters("letters") and missing in letters("letters")
    assert len(letters("letters")) == 4  # and two that could not be decoded
    assert until(lambda: missing in letters("candles"))
    assert late not in letters("candles")
    assert [
        reason for reason, data in letters("candles") if data in encoded([(None, 2.0, T + 1), ("a", None, T + 2)])
    ] == ["missing"] * 2

    def late_ones() -> list[int]:
        told = {row["name"]: row for row in run.client.command("processors.ls")["processors"]}
        return [told[name]["late"] for name in ("letters", "candles")]

    assert until(lambda: late_ones() == [1, 1]), late_ones()  # counted a moment after the letters are there
    for query in queries:
        query.stop()
