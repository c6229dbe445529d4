"""Kafka topic → filter and derive on Spark → Kafka topic: Gauss beside the same job written by hand in PySpark, with a
confluent-kafka reader and `json.loads` per message. Also the time of a record from producer to consumer, beside the
same path through memory topics."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench.latency import Running, train
from confluent_kafka import Consumer, TopicPartition

from gauss.clients.embedded import ensure
from gauss.clients.engine.client import EngineClient
from gauss.clients.kafka import jars
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.producer import Producer
from gauss.clients.kafka.reading import reader_conf
from gauss.clients.kafka.settings import KafkaSettings
from gauss.clients.kafka.transaction import TransactionalProducer
from gauss.contracts.cursor import Mode, Program, Seq
from gauss.model.paths import DataDir

RECORDS, PARTITIONS = 4_000_000, 4
WARM_UP = 500_000
RATE, SECONDS = 1_000, 15
ASKED, TOLD = "asked", "told"
"""The topics of the measured times in Kafka."""
PROGRAM = "select(.bid > 66.6) | {symbol, bid, ask, mid: (.bid + .ask) / 2, ts}"
PIPELINE = """
[spark]
master = "local[2]"

[[formats]]
name = "quote"
plugin = "json"
config = {{ fields = [
    {{ name = "symbol", type = "string" }},
    {{ name = "bid", type = "double" }},
    {{ name = "ask", type = "double" }},
    {{ name = "ts", type = "int64" }},
] }}

[[topics]]
name = "given"
{given}

[[topics]]
name = "made"
{made}

[[processors]]
name = "mids"
plugin = "expression"
source = {{ topic = "given", read = "offset" }}
target = {{ topic = "made" }}
config = {{ input = {{ format = "quote" }}, program = "{program}" }}
"""


def run() -> list[dict[str, object]]:
    jars.class_path()
    with tempfile.TemporaryDirectory() as folder, ensure("kafka", Path(folder)) as server:
        (address,) = server.endpoint.shown.values()
        settings = KafkaSettings.model_validate({"brokers": [address], "request_timeout": "60s"})
        admin = Admin(settings)
        for name in ("given", "made", "by-hand"):
            admin.create(name, PARTITIONS)
        train(Path(folder) / "cache", "nothing")
        rate, cpu = ours(settings, Path(folder), address)
        hand_rate, hand_cpu = by_hand(address)
        return [
            row("filter + derive, records/s", rate, hand_rate),
            row("filter + derive, records per CPU second", cpu, hand_cpu),
            latency_row(settings, Path(folder), address),
        ]


def row(what: str, found: float, hand: float) -> dict[str, object]:
    return {"what": what, "Gauss": f"{found:,.0f}", "beside": f"{hand:,.0f} by hand", "ratio": f"{found / hand:.1f}"}


def quotes() -> list[bytes]:
    return [
        json.dumps({"symbol": f"S{n % 50}", "bid": n % 1000 / 10, "ask": n % 1000 / 10 + 0.1, "ts": n}).encode()
        for n in range(50_000)
    ]


@contextmanager
def written(settings: KafkaSettings, topic: str, texts: list[bytes], count: int) -> Iterator[None]:
    """Writes records that readers see when the block begins, all at once."""
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())], ["data"])
    with TransactionalProducer(settings, f"bench.{topic}", timeout_ms=300_000) as producer:
        producer.begin()
        for _ in range(count // len(texts)):
            producer.write(topic, batch, Partitioning(PARTITIONS, by_key=False))
        producer.flush()
        producer.commit()
        yield


def pipeline(folder: Path, given: str, made: str) -> Path:
    path = folder / "pipeline.toml"
    path.write_text(PIPELINE.format(given=given, made=made, program=PROGRAM))
    return path


def kafka_storage(address: str, topic: str) -> str:
    config = f'brokers = ["{address}"], partitions = {PARTITIONS}, topic = "{topic}"'
    return f'storage = "kafka"\nstorage_config = {{ {config} }}'


def api(data_dir: Path, path: str) -> Any:
    found = json.loads((data_dir / "engine.json").read_text())
    request = urllib.request.Request(found["endpoint"] + path, headers={"Authorization": f"Bearer {found['token']}"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.loads(reply.read())


def records(data_dir: Path) -> int:
    try:
        rows = api(data_dir, "/api/processors")["processors"]
    except (OSError, ValueError, KeyError):
        return 0
    return next((int(each["records"]) for each in rows if each["name"] == "mids"), 0)


def ours(settings: KafkaSettings, folder: Path, address: str) -> tuple[float, float]:
    """Records per second and per CPU second of all processes of a warm run, from the moment at which it sees them."""
    data_dir, texts = folder / "run", quotes()
    given, made = kafka_storage(address, "given"), kafka_storage(address, "made")
    running = Running(pipeline(folder, given, made), data_dir, folder / "cache")
    try:
        with written(settings, "given", texts, WARM_UP):
            while records(data_dir) < WARM_UP:
                time.sleep(0.05)
        settle(running)
        with written(settings, "given", texts, RECORDS):
            began, cpu = time.perf_counter(), cpu_of(running)
            while records(data_dir) < RECORDS + WARM_UP:
                time.sleep(0.1)  # each answer takes 2 ms of the CPU time that is measured
            return RECORDS / (time.perf_counter() - began), RECORDS / (cpu_of(running) - cpu)
    finally:
        running.stop()


def settle(running: Running) -> None:
    """Returns when the run does nothing in the background any more: it makes machine code as it starts."""
    while running.idle(1.0) > 0.2:
        pass


def cpu_of(running: Running) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in running.family())


def by_hand(address: str) -> tuple[float, float]:
    """The same in another process, which prints its figures."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers.kafka_by_hand", address, str(RECORDS + WARM_UP), str(PARTITIONS)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    if done.returncode:
        raise RuntimeError(f"the job by hand failed:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found["rate"], found["per_cpu"]


# --- latency ---


def latency_row(settings: KafkaSettings, folder: Path, address: str) -> dict[str, object]:
    found = {}
    for name in ("kafka", "memory"):
        place = folder / name
        place.mkdir()
        storages = [
            kafka_storage(address, topic) if name == "kafka" else 'storage = "memory"' for topic in (ASKED, TOLD)
        ]
        running = Running(pipeline(place, *storages), place / "run", folder / "cache")
        try:
            found[name] = through_kafka(settings, place / "run") if name == "kafka" else through_memory(place / "run")
        finally:
            running.stop()
    p50 = {name: statistics.median(times) for name, times in found.items()}
    p99 = {name: sorted(times)[len(times) * 99 // 100] for name, times in found.items()}
    return {
        "what": f"producer → Spark → consumer at {RATE:,} records/s, p50 / p99 ms",
        "Gauss": f"{p50['kafka']:.0f} / {p99['kafka']:.0f}",
        "beside": f"{p50['memory']:.0f} / {p99['memory']:.0f} by memory topics",
        "ratio": f"{p50['kafka'] / p50['memory']:.1f} (p50)",
    }


def quote(now_us: int) -> bytes:
    return json.dumps({"symbol": "A", "bid": 100.0, "ask": 100.1, "ts": now_us}).encode()


def through_kafka(settings: KafkaSettings, data_dir: Path) -> list[float]:
    """Milliseconds of records from an outside producer to an outside consumer of committed records."""
    ready(data_dir)
    ends = Admin(settings).latest(TOLD, range(PARTITIONS))
    consumer = Consumer({**reader_conf(settings, queue_bytes=1 << 20), "auto.offset.reset": "latest"})
    consumer.assign([TopicPartition(TOLD, number, end) for number, end in ends.items()])
    times: list[float] = []
    stop = threading.Event()

    def listen() -> None:
        while not stop.is_set():
            for message in consumer.consume(1_000, 0.002):
                if not message.error():
                    times.append(time.time() * 1e3 - json.loads(message.value() or b"{}")["ts"] / 1e3)

    listener = threading.Thread(target=listen)
    listener.start()
    with Producer(settings, conf={"linger.ms": "0"}) as producer:
        spread = Partitioning(PARTITIONS, by_key=False)
        pace(lambda texts: produce(producer, texts, spread))
    time.sleep(1)
    stop.set()
    listener.join()
    consumer.close()
    return times[len(times) // 3 :]


def produce(producer: Producer, texts: list[bytes], spread: Partitioning) -> None:
    producer.write(ASKED, pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())], ["data"]), spread)
    producer.flush()


def through_memory(data_dir: Path) -> list[float]:
    """The same with the engine's own client at both ends."""
    ready(data_dir)
    client = EngineClient.from_file(DataDir(data_dir).flight_json)
    times: list[float] = []

    def listen() -> None:
        for batch in client.scan("made", Program(Seq(), mode=Mode.LIVE)):
            now = time.time() * 1e3
            times.extend(now - json.loads(each)["ts"] / 1e3 for each in batch.column("data").to_pylist())

    threading.Thread(target=listen, daemon=True).start()
    schema = ["data"]
    pace(lambda texts: client.append("given", [pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())], schema)]))
    time.sleep(1)
    return times[len(times) // 3 :]


def pace(send: Any) -> None:
    """Sends records at the rate, in lots of ten."""
    began = time.monotonic()
    for lot in range(RATE * SECONDS // 10):
        time.sleep(max(0.0, began + lot * 10 / RATE - time.monotonic()))
        send([quote(int(time.time() * 1e6)) for _ in range(10)])


def ready(data_dir: Path) -> None:
    while True:
        try:
            if api(data_dir, "/api/health")["status"] == "ready":
                return
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.1)
