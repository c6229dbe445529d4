"""Joins and dedup from topic to topic: Gauss against the same jobs written by hand with from_json and to_json.

All read topics through the same source and publish through the same sink, on the same session settings. By hand the
table is a cached frame that is broadcast; Gauss joins the live topic, which has the same 100,000 keys.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from bench.spark_json import Bench, fresh, plain_java

from gauss.clients.engine.task_messages import Claim
from gauss.config.topics import topics_of
from gauss.stream.driver.planning.reads import STATEFUL_MS, ReadRecords
from gauss.stream.driver.planning.refs import encode_fields
from gauss.stream.driver.planning.shared_reads import is_hosted
from gauss.stream.driver.planning.writes import WriteRows
from gauss.stream.driver.queries import compile as compiling

SCALE = float(os.environ.get("GAUSS_BENCH_SCALE", "1"))
PAIRS, REPEATS, QUOTES = (int(count * SCALE) for count in (400_000, 800_000, 1_500_000))
WARM_UP = 0.25
"""This share of the records comes before those that are measured: the JVM compiles, tables are loaded."""
KEYS = 100_000
T = 1_700_000_000_000
TRADE = "id string, price double, ts bigint"
ORDER = "id string, account string, size bigint, ts bigint"
QUOTE = "symbol string, bid double, ts bigint"
INSTRUMENT = "symbol string, name string, lot double"


def _fields(ddl: str) -> dict[str, Any]:
    parts = [part.split() for part in ddl.split(", ")]
    return {"fields": [{"name": name, "type": kind.replace("bigint", "int64")} for name, kind in parts]}


def config() -> dict[str, Any]:
    formats = {"trade": TRADE, "order": ORDER, "quote": QUOTE, "instrument": INSTRUMENT}
    by_time = {"event_time_field": "ts", "watermark": "10s"}
    pair = {**by_time, "input": {"format": "trade"}, "join_input": {"format": "order"}, "output": {"format": "json"}}
    near = {"window": "5s", "join_key": "id", "join_fields": ["account", "size"]}
    jobs = {
        "pairs": ("window-join", {**pair, **near, "join_topic": "pairs.orders"}),
        "dedup": ("dedup", {**by_time, "input": {"format": "trade"}, "key": "id", "within": "10s"}),
        "table": ("join", {"input": {"format": "quote"}, "join_topic": "instruments", "join_key": "symbol"}),
    }
    sizes = {"storage_size": "unlimited", "storage_bytes": "1GiB"}
    names = ["pairs.orders", *(f"{name}.{side}" for name in jobs for side in ("in", "out"))]
    rows = {"mode": "table", "format": "instrument", "key_field": "symbol"}
    return {
        "formats": [{"name": name, "plugin": "json", "config": _fields(ddl)} for name, ddl in formats.items()],
        "topics": [
            *({"name": name, "storage": "memory", "storage_config": sizes} for name in names),
            {"name": "instruments", "storage": "memory", "storage_config": rows},
        ],
        "processors": [
            {
                "name": name,
                "plugin": plugin,
                "source": {"topic": f"{name}.in", "read": "offset"},
                "target": {"topic": f"{name}.out"},
                "config": given,
            }
            for name, (plugin, given) in jobs.items()
        ],
    }


ByHand = Callable[[Any, Callable[[str], Any]], Any]
"""(session, topic → its records as a stream) → the result."""


def _parsed(records: Any, ddl: str) -> Any:
    from pyspark.sql import functions as F

    row = F.from_json(F.col("_data").cast("string"), ddl)
    return records.select("_ts_ms", "_data", row.alias("r")).select("_ts_ms", "_data", "r.*")


def _event(records: Any, name: str) -> Any:
    from pyspark.sql import functions as F

    return records.withColumn(name, F.timestamp_millis("ts")).withWatermark(name, "10 seconds")


def pairs_by_hand(_: Any, stream: Callable[[str], Any]) -> Any:
    from pyspark.sql import functions as F

    trades = _event(_parsed(stream("pairs.in"), TRADE), "at").drop("_data")
    orders = _event(_parsed(stream("pairs.orders"), ORDER), "at2").select(
        F.col("id").alias("id2"), "account", "size", "at2"
    )
    near = F.expr("id = id2 AND at2 BETWEEN at - INTERVAL 5 SECONDS AND at + INTERVAL 5 SECONDS")
    made = F.struct("id", "price", "ts", "account", "size")
    return trades.join(orders, near).select("_ts_ms", F.to_json(made).cast("binary").alias("_data"))


def dedup_by_hand(_: Any, stream: Callable[[str], Any]) -> Any:
    trades = _event(_parsed(stream("dedup.in"), TRADE), "at").select("_ts_ms", "_data", "id", "at")
    return trades.dropDuplicatesWithinWatermark(["id"]).select("_ts_ms", "_data")


def table_by_hand(session: Any, stream: Callable[[str], Any]) -> Any:
    from pyspark.sql import functions as F

    rows = session.createDataFrame([(f"SYM{i:06d}", f"Name {i}", i / 1000) for i in range(KEYS)], INSTRUMENT).cache()
    quotes = _parsed(stream("table.in"), QUOTE)
    made = F.struct("symbol", "bid", "ts", "name", "lot")
    joined = quotes.join(F.broadcast(rows), "symbol")
    return joined.select("_ts_ms", F.to_json(made).cast("binary").alias("_data"))


def start(bench: Bench, name: str, by_hand: ByHand | None) -> Any:
    processor = next(each for each in bench.pipeline.processors if each.name == name)
    if by_hand is None and is_hosted(processor):
        return bench.stand(name, 2)
    sources = [source.topic for source in topics_of(processor)[0]]
    claimed = bench.client.claim(Claim(name, "bench", sources, [f"{name}.out"]))
    flight, folder = str(bench.data_dir.flight_json), bench.data_dir.checkpoints / name
    design = compiling.design(bench.pipeline, processor)
    target_ms = STATEFUL_MS if design.stateful else 200
    write = WriteRows(
        flight,
        name,
        claimed.generation,
        f"{name}.out",
        design.output,
        checkpoint="bench",
        checkpoint_dir=str(folder),
        series="bench",
    )
    if by_hand is None:
        fields = design.decided({})
        read = ReadRecords(
            flight,
            name,
            claimed.generation,
            design.input,
            encode_fields(fields),
            start=claimed.start,
            target_ms=target_ms,
        )
        timed = compiling.by_time(read, design, fields, folder / "restored.arrows")
        return compiling.start(bench.spark, timed, write, design)

    def stream(topic: str) -> Any:
        # The hidden inlet for records that are tried again is read with the first of them.
        mine = {
            each: at for each, at in claimed.start.items() if each == topic or (topic == sources[0] and each[0] == "_")
        }
        read = ReadRecords(flight, name, claimed.generation, start=mine, target_ms=target_ms)
        return bench.spark.readStream.format("gauss").option("plan", read.option()).load()

    return compiling.run(bench.spark, by_hand(bench.spark, stream), write)


def trades(count: int) -> list[bytes]:
    return [b'{"id":"order-%07d","price":%.4f,"ts":%d}' % (i, i % 1000 / 10, T + i) for i in range(count)]


def orders(count: int) -> list[bytes]:
    return [b'{"id":"order-%07d","account":"acc%03d","size":%d,"ts":%d}' % (i, i % 500, i, T + i) for i in range(count)]


def repeated(count: int) -> list[bytes]:
    """Every fourth record is one that came a thousand records earlier."""
    ids = [i - 1001 if i % 4 == 3 and i > 1001 else i for i in range(count)]
    return [b'{"id":"order-%07d","price":%.4f,"ts":%d}' % (id_, i % 1000 / 10, T + i) for i, id_ in enumerate(ids)]


def quotes(count: int) -> list[bytes]:
    return [b'{"symbol":"SYM%06d","bid":%.4f,"ts":%d}' % (i * 7919 % KEYS, i % 1000 / 10, T + i) for i in range(count)]


def instruments() -> list[bytes]:
    return [b'{"symbol":"SYM%06d","name":"Name %d","lot":%.3f}' % (i, i, i / 1000) for i in range(KEYS)]


def rate(bench: Bench, name: str, feeds: dict[str, list[bytes]], wanted: int, by_hand: ByHand | None) -> float:
    """Records of the source per second through a backlog, after a warm-up: once in a query of its own, so that all is
    compiled and loaded, and then until the second query's first results are there."""
    query = start(bench, name, by_hand)
    out, warm = f"{name}.out", int(wanted * WARM_UP)
    for topic, records in feeds.items():
        bench.send(topic, records[: int(len(records) * WARM_UP)])
    bench.wait(out, warm // 2)  # of dedup's first records fewer are repeated than of all
    query.stop()
    for topic, records in feeds.items():
        bench.send(topic, records[int(len(records) * WARM_UP) :])
    query = start(bench, name, by_hand)
    bench.wait(out, warm + 1)
    begun, already = time.perf_counter(), bench.end_of(out)
    bench.wait(out, wanted)
    seconds = time.perf_counter() - begun
    query.stop()
    return len(feeds[f"{name}.in"]) * (wanted - already) / wanted / seconds


def run() -> list[dict[str, object]]:
    """One row per job."""
    again = repeated(REPEATS)
    jobs: dict[str, tuple[str, dict[str, list[bytes]], int, ByHand, float]] = {
        "pairs": (
            "two streams, ±5 s",
            {"pairs.in": trades(PAIRS), "pairs.orders": orders(PAIRS)},
            PAIRS,
            pairs_by_hand,
            1.2,
        ),
        "dedup": ("dedup", {"dedup.in": again}, len({record[:20] for record in again}), dedup_by_hand, 1.2),
        "table": ("a table of 100k keys", {"table.in": quotes(QUOTES)}, QUOTES, table_by_hand, 1.2),
    }
    measured: dict[str, list[float]] = {name: [] for name in jobs}
    for by_hand in (True, False):
        with plain_java() if by_hand else nullcontext(), fresh(config()) as bench:
            bench.send("instruments", instruments())
            for name, (_, feeds, wanted, hand, _) in jobs.items():
                measured[name].append(rate(bench, name, feeds, wanted, hand if by_hand else None))
    rows: list[dict[str, object]] = []
    for name, (title, _, _, _, aim) in jobs.items():
        theirs, ours = measured[name]
        rows += [
            {"what": f"{title}: by hand", "measured": f"{theirs / 1000:.0f}k rec/s", "aim": ""},
            {"what": f"{title}: Gauss", "measured": f"{ours / 1000:.0f}k rec/s", "aim": ""},
            {"what": f"{title}: Gauss to by hand", "measured": f"{ours / theirs:.2f}", "aim": f"≥ {aim}"},
        ]
    return rows
