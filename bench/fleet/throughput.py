"""Kafka → ClickHouse by a worker of a fleet, exactly once: 1.5 KB JSON of which 5 or all 36 fields become columns.

Beside it the bare loop and the job by hand of `bench/kafka_tables.py`, on the same records.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.fleet.world import FleetWorld, cpu_of, fleet_world
from bench.kafka_tables import CLICKHOUSE, FIELDS, RECORDS, WARM_UP, Rate, bare_loop, by_hand, rate, records, server_cpu
from bench.kafka_topics import PARTITIONS, written


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    texts = records()
    size = sum(map(len, texts)) / len(texts)
    for count in (5, 36):
        with tempfile.TemporaryDirectory() as folder, fleet_world(Path(folder)) as world:
            topic = f"given-{count}"
            mine = ours(world, topic, count, texts, size)
            bare = bare_loop(world.settings, topic, world.clickhouse, FIELDS[:count], size)
            hand = by_hand(world.settings.brokers[0], topic, world.clickhouse, count, size)
        for what, one, two, three in (
            ("MB/s", mine.per_second, bare.per_second, hand.per_second),
            ("MB per CPU second", mine.per_cpu, bare.per_cpu, hand.per_cpu),
        ):
            measured = f"{one:.1f}; bare loop {two:.1f}; PySpark by hand {three:.1f}"
            rows.append({"what": f"1.5 KB JSON, {count} columns, {what}", "measured": measured, "aim": ""})
            found = f"{one / two:.2f} of the bare loop, {one / three:.1f} × by hand"
            rows.append({"what": f"1.5 KB JSON, {count} columns, {what}", "measured": found, "aim": "≥ 0.7, ≥ 3 ×"})
    for name, shown in PUBLISHED.items():
        rows.append({"what": f"published by {name}, not measured here", "measured": shown, "aim": ""})
    return rows


PUBLISHED = {
    "GlassFlow (docs.glassflow.dev/architecture/performance)": "77 MB/s on 11.6 cores: 6.6 MB per CPU second",
    "Vector (TCP lines, no ClickHouse)": "70 MiB/s",
}
"""Figures that others have published, with their own records and machines."""


def ours(world: FleetWorld, topic: str, count: int, texts: list[bytes], size: float) -> Rate:
    """The worker's processes and ClickHouse, from the moment at which a warm worker sees the records."""
    columns = {name: CLICKHOUSE[kind] for name, kind in FIELDS[:count]}
    pipeline = world.pipeline(topic, columns, partitions=PARTITIONS)
    with world.worker("worker") as worker:
        with written(world.settings, topic, texts, WARM_UP):
            wait_rows(world, pipeline, WARM_UP)
        with written(world.settings, topic, texts, RECORDS):
            began, cpu = time.perf_counter(), cpu_of(worker) + server_cpu(world.clickhouse)
            wait_rows(world, pipeline, WARM_UP + RECORDS)
            seconds = time.perf_counter() - began
            used = cpu_of(worker) + server_cpu(world.clickhouse) - cpu
        assert world.counted(topic) == WARM_UP + RECORDS
    return rate(RECORDS * size, seconds, used)


def wait_rows(world: FleetWorld, pipeline: str, count: int) -> None:
    while world.rows(pipeline) < count:
        time.sleep(0.05)
