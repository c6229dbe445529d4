"""Kafka → ClickHouse through a table topic, exactly once: 1.5 KB JSON of which 5 or all 36 fields become columns.

Beside it: a bare loop of one process with the same reader, decoder and insert, without Spark and without any guarantee;
and the same by hand in PySpark, with a confluent-kafka reader, `json.loads` per message and clickhouse-connect. The CPU
time of ClickHouse counts in all of them, that of the broker in none.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow as pa
from bench.kafka_topics import PARTITIONS, api, cpu_of, settle, written
from bench.latency import Running, train

from gauss.clients.clickhouse import write as writing
from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.kafka import jars
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Range
from gauss.clients.kafka.settings import KafkaSettings
from gauss.config.formats import build_format
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType

RECORDS, WARM_UP = 300_000, 100_000
BLOCK_BYTES = 64 << 20
"""Of JSON in one insert of the bare loop."""
KINDS = ("int64", "double", "string")
FIELDS = [(f"{KINDS[number % 3]}_{number:02d}", KINDS[number % 3]) for number in range(36)]
CLICKHOUSE = {"int64": "Int64", "double": "Float64", "string": "String"}
PIPELINE = """
[spark]
master = "local[2]"

[[formats]]
name = "row"
plugin = "json"
config = {{ fields = {fields} }}

[[topics]]
name = "given"
storage = "kafka"
storage_config = {{ brokers = ["{address}"], topic = "{topic}" }}

[[topics]]
name = "made"
storage = "clickhouse"
storage_config = {{ format = "row" }}

[[processors]]
name = "land"
plugin = "passthrough"
source = {{ topic = "given", read = "offset" }}
target = {{ topic = "made" }}
"""


class Rate(NamedTuple):
    """Megabytes of JSON."""

    per_second: float
    per_cpu: float


def run() -> list[dict[str, object]]:
    jars.class_path()
    rows = []
    with tempfile.TemporaryDirectory() as folder, ensure("kafka", Path(folder) / "kafka") as server:
        (address,) = server.endpoint.shown.values()
        settings = KafkaSettings.model_validate({"brokers": [address], "request_timeout": "60s"})
        texts = records()
        size = sum(map(len, texts)) / len(texts)
        for count in (5, 36):
            place, topic = Path(folder) / str(count), f"given-{count}"
            place.mkdir()
            mine = ours(place, settings, topic, FIELDS[:count], texts)
            with ensure("clickhouse", place / "clickhouse") as clickhouse:
                bare = bare_loop(settings, topic, clickhouse, FIELDS[:count], size)
                hand = by_hand(address, topic, clickhouse, count, size)
            rows += [
                row(f"{count} columns, MB/s", mine.per_second, bare.per_second, hand.per_second),
                row(f"{count} columns, MB per CPU second", mine.per_cpu, bare.per_cpu, hand.per_cpu),
            ]
    return rows


def row(what: str, mine: float, bare: float, hand: float) -> dict[str, object]:
    return {
        "1.5 KB JSON": what,
        "Gauss": f"{mine:.1f}",
        "bare loop": f"{bare:.1f}",
        "PySpark by hand": f"{hand:.1f}",
        "Gauss / bare (≥ 0.7)": f"{mine / bare:.2f}",
        "Gauss / by hand (≥ 3)": f"{mine / hand:.1f}",
    }


def records() -> list[bytes]:
    chance = random.Random(7)

    def value(kind: str) -> Any:
        if kind == "string":
            return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=60))
        return chance.randrange(10**12) if kind == "int64" else round(chance.random() * 1e6, 6)

    return [json.dumps({name: value(kind) for name, kind in FIELDS}).encode() for _ in range(10_000)]


def ours(folder: Path, settings: KafkaSettings, topic: str, fields: list[tuple[str, str]], texts: list[bytes]) -> Rate:
    """All processes of the run, from the moment at which a warm run sees the records to the last row."""
    Admin(settings).create(topic, PARTITIONS)
    size, (address,) = sum(map(len, texts)) / len(texts), settings.brokers
    listed = ", ".join(f'{{ name = "{name}", type = "{kind}" }}' for name, kind in fields)
    config = folder / "pipeline.toml"
    config.write_text(PIPELINE.format(fields=f"[{listed}]", address=address, topic=topic))
    train(folder / "cache", "nothing")
    running = Running(config, folder / "run", folder / "cache")
    try:
        with written(settings, topic, texts, WARM_UP):
            wait_landed(folder / "run", WARM_UP)
        settle(running)
        with written(settings, topic, texts, RECORDS):
            began, cpu = time.perf_counter(), cpu_of(running)
            wait_landed(folder / "run", RECORDS + WARM_UP)
            return rate(RECORDS * size, time.perf_counter() - began, cpu_of(running) - cpu)
    finally:
        running.stop()


def wait_landed(data_dir: Path, count: int) -> None:
    while landed(data_dir) < count:
        time.sleep(0.1)


def landed(data_dir: Path) -> int:
    """Rows that were committed."""
    try:
        found = api(data_dir, "/api/processors")["processors"]
    except (OSError, ValueError, KeyError):
        return 0
    return next((int(each["records"]) for each in found if each["name"] == "_table.made"), 0)


def rate(size: float, seconds: float, cpu: float) -> Rate:
    return Rate(size / 1e6 / seconds, size / 1e6 / cpu)


def bare_loop(
    settings: KafkaSettings, topic: str, server: EmbeddedServer, fields: list[tuple[str, str]], size: float
) -> Rate:
    """Reads, decodes and inserts in turn, in this process."""
    format_ = build_format("json", {"fields": [{"name": name, "type": kind} for name, kind in fields]})
    schema = pa.schema([(name, arrow_type(FieldType(kind))) for name, kind in fields])
    target = writing.ClickHouseTarget("bare", {name: FieldType(CLICKHOUSE[kind]) for name, kind in fields})
    reader, ends = CompiledReader(settings), Admin(settings).latest(topic, range(PARTITIONS))
    began = cpu = 0.0
    rows = first = 0
    with connect(server.endpoint) as client:
        create(client, "bare", fields)
        for partition, end in ends.items():
            for batch in blocks(reader.read(Range(topic, partition, 0, end))):
                parts = [part.rows for _, _, part in format_.decode_parts(batch.column("data"), schema)]
                rows += len(batch)
                writing.insert(client, target, pa.Table.from_batches(parts), token=f"{partition}.{rows}")
                if rows >= WARM_UP and not first:
                    first, began, cpu = rows, time.perf_counter(), own_cpu(server)
        assert rows == RECORDS + WARM_UP
        return rate((rows - first) * size, time.perf_counter() - began, own_cpu(server) - cpu)


def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, concatenated to the size of an insert."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        kept.append(batch)
        if sum(each.nbytes for each in kept) >= BLOCK_BYTES:
            yield pa.concat_batches(kept)
            kept = []
    if kept:
        yield pa.concat_batches(kept)


def create(client: Any, table: str, fields: list[tuple[str, str]]) -> None:
    columns = ", ".join(f"{name} Nullable({CLICKHOUSE[kind]})" for name, kind in fields)
    client.command(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY tuple()")


def own_cpu(server: EmbeddedServer) -> float:
    return time.process_time() + server_cpu(server)


def server_cpu(server: EmbeddedServer) -> float:
    assert server.process is not None
    return sum(psutil.Process(server.process.pid).cpu_times()[:2])


def by_hand(address: str, topic: str, server: EmbeddedServer, count: int, size: float) -> Rate:
    """The same in another process, which prints its figures."""
    with connect(server.endpoint) as client:
        create(client, "by_hand", FIELDS[:count])
        settings = {"url": server.endpoint.url, "columns": [name for name, _ in FIELDS[:count]], "broker": address}
        assert server.process is not None
        parts = {"topic": topic, "partitions": PARTITIONS, "records": RECORDS, "server": server.process.pid}
        done = subprocess.run(
            [sys.executable, "-m", "bench.peers.kafka_clickhouse_by_hand", json.dumps(settings | parts)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        if done.returncode:
            raise RuntimeError(f"the job by hand failed:\n{done.stderr[-3000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        assert client.query("SELECT count() FROM by_hand").result_rows[0][0] >= found["rows"]
        return rate(found["rows"] * size, found["seconds"], found["cpu"])
