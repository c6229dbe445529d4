"""One-second candles from topic to topic: Gauss against the same job written by hand with from_json and a window.

Both read topics through the same source and publish through the same sink. Also: what a million open keys cost, and
example 5 from the socket to the table.
"""

from __future__ import annotations

import time
from typing import Any

import psutil
from bench import candles, peers
from bench.spark_json import Bench, fresh, plain_java

from gauss.contracts.format import SourceField, SourceSchema

RECORDS = 4_000_000
WARM_UP = 200_000
PER_SECOND = 10_000
SYMBOLS = 100
KEYS = 1_000_000
DDL = "symbol string, bid double, ask double, ts bigint"
FIELDS = [{"name": part.split()[0], "type": part.split()[1].replace("bigint", "int64")} for part in DDL.split(", ")]
BY_TIME = {"event_time_field": "ts", "watermark": "0s"}


class ByHand:
    """What one would write without Gauss."""

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        return []

    def apply(self, records: Any) -> Any:
        from pyspark.sql import functions as F

        row = F.from_json(F.col("_data").cast("string"), DDL)
        columns = records.select(row.alias("r")).select("r.*").withColumn("at", F.timestamp_millis("ts"))
        candles = (
            columns.withWatermark("at", "0 seconds")
            .groupBy(F.window("at", "1 second"), "symbol")
            .agg(
                F.min_by("bid", "ts").alias("open"),
                F.max("bid").alias("high"),
                F.min("bid").alias("low"),
                F.max_by("bid", "ts").alias("close"),
                F.count("*").alias("volume"),
            )
        )
        start = F.unix_millis("window.start").alias("ts_ms")
        made = F.struct(start, "symbol", F.lit("1s").alias("interval"), "open", "high", "low", "close", "volume")
        return candles.select(F.to_json(made).cast("binary").alias("_data"))


def config() -> dict[str, Any]:
    sizes = {"storage_size": "unlimited", "storage_bytes": "1GiB"}
    candles = {**BY_TIME, "intervals": ["1s"]}
    jobs: dict[str, tuple[str, dict[str, Any]]] = {
        "by_hand": ("ohlc", candles),  # the formats alone count: its transform is `ByHand`
        "ohlc": ("ohlc", candles),
        "keys": (
            "aggregator",
            {**BY_TIME, "group_by": ["symbol"], "interval": "1h", "aggregates": {"total": "sum(.bid)"}},
        ),
    }
    return {
        "formats": [{"name": "quote", "plugin": "json", "config": {"fields": FIELDS}}],
        "topics": [
            {"name": f"{name}.{side}", "storage": "memory", "storage_config": sizes}
            for name in jobs
            for side in ("in", "out")
        ],
        "processors": [
            {
                "name": name,
                "plugin": plugin,
                "source": {"topic": f"{name}.in", "read": "offset"},
                "target": {"topic": f"{name}.out"},
                "config": {"input": {"format": "quote"}, "output": {"format": "json"}, **given},
            }
            for name, (plugin, given) in jobs.items()
        ],
    }


def quotes(count: int, first: int = 0) -> list[bytes]:
    return [
        b'{"symbol":"SYM%03d","bid":%.4f,"ask":%.4f,"ts":%d}'
        % (i % SYMBOLS, i % 1009 / 10, i % 1009 / 10 + 0.05, 1700000000000 + i * 1000 // PER_SECOND)
        for i in range(first, first + count)
    ]


def closed(records: int) -> int:
    """How many candles are closed once so many records were read."""
    return (records - 1) // PER_SECOND * SYMBOLS


def throughput(bench: Bench, name: str, transform: Any = None) -> float:
    """Records per second from one topic to the other, after a warm-up."""
    query = bench.start(name, transform)
    bench.send(f"{name}.in", quotes(WARM_UP))
    bench.wait(f"{name}.out", closed(WARM_UP))
    query.stop()
    bench.send(f"{name}.in", quotes(RECORDS, WARM_UP))
    query = bench.start(name, transform)
    bench.wait(f"{name}.out", closed(WARM_UP) + 1)
    begun, already = time.perf_counter(), bench.end_of(f"{name}.out")
    total = closed(WARM_UP + RECORDS)
    bench.wait(f"{name}.out", total)
    seconds = time.perf_counter() - begun
    query.stop()
    return (total - already) / SYMBOLS * PER_SECOND / seconds


def many_keys(bench: Bench) -> tuple[float, float]:
    """MiB of Spark's state and of the JVM with a million open keys."""
    query = bench.start("keys")
    records = [b'{"symbol":"KEY%07d","bid":1.5,"ts":1700000000000}' % i for i in range(KEYS)]
    bench.send("keys.in", records)
    state: dict[str, Any] = {}
    while state.get("numRowsTotal", 0) < KEYS:
        time.sleep(0.2)
        operators = (query.lastProgress or {}).get("stateOperators") or [{}]
        state = operators[0]
    process = bench.spark.sparkContext._gateway.proc
    rss = psutil.Process(process.pid).memory_info().rss
    query.stop()
    return state["memoryUsedBytes"] / 2**20, rss / 2**20


def run() -> list[dict[str, object]]:
    """One row per measure."""
    with plain_java(), fresh(config()) as bench:
        by_hand = throughput(bench, "by_hand", ByHand())
    with fresh(config()) as bench:
        ohlc = throughput(bench, "ohlc")
        state, jvm = many_keys(bench)
    return [
        {"what": "1 s candles by hand, from_json and window", "measured": f"{by_hand / 1000:.0f}k rec/s", "aim": ""},
        {"what": "ohlc, begun in the readers", "measured": f"{ohlc / 1000:.0f}k rec/s", "aim": ""},
        {"what": "ohlc : by hand", "measured": f"{ohlc / by_hand:.2f}", "aim": "≥ 2"},
        *peers.compared("ohlc", quotes(peers.RECORDS), ohlc),
        {"what": "a million open keys, Spark's state", "measured": f"{state:.0f} MiB", "aim": ""},
        {"what": "a million open keys, the JVM", "measured": f"{jvm:.0f} MiB", "aim": ""},
        *candles.rows(),
    ]
