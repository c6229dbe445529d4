"""Reading a Kafka topic: the compiled reader beside `consume(n)` into Python objects, and kcat (installed where that is
possible). Records per second of CPU time of the reading process, all threads, and per second of time."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from gauss.clients.embedded import ensure
from gauss.clients.kafka import jars
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.producer import Compression, Producer
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Range, reader_conf
from gauss.clients.kafka.settings import KafkaSettings

TIMES = 3
TOPICS: dict[str, tuple[int, int, Compression]] = {
    "100 B": (1_500_000, 100, "none"),
    "100 B, zstd": (1_500_000, 100, "zstd"),
    "1.5 KB JSON, lz4": (150_000, 1_500, "lz4"),
}


def run() -> list[dict[str, object]]:
    """A row per topic."""
    jars.class_path()
    with tempfile.TemporaryDirectory() as folder, ensure("kafka", Path(folder)) as server:
        (address,) = server.endpoint.shown.values()
        settings = KafkaSettings.model_validate({"brokers": [address]})
        return [measure(settings, name, *about) for name, about in TOPICS.items()]


def measure(settings: KafkaSettings, name: str, count: int, size: int, codec: Compression) -> dict[str, object]:
    topic = name.replace(" ", "-").replace(",", "")
    write_cpu = fill(settings, topic, count, size, codec)
    found = {
        "compiled": fastest(lambda: compiled(settings, topic, count), count),
        "consume": fastest(lambda: consumed(settings, topic, count), count),
        "kcat": kcat(settings, topic, count),
    }
    (cpu, wall), (plain_cpu, plain_wall), (kcat_cpu, _) = found.values()
    return {
        "records": name,
        "compiled, k/s of CPU": round(cpu / 1000),
        "consume(n)": round(plain_cpu / 1000),
        "kcat": round(kcat_cpu / 1000) or "–",
        "compiled / consume(n)": f"{cpu / plain_cpu:.1f}",
        "by wall clock": f"{wall / plain_wall:.1f}",
        "compiled, MB/s of CPU": round(cpu * size / 1e6),
        "written, k/s of CPU": round(count / write_cpu / 1000),
    }


def fill(settings: KafkaSettings, topic: str, count: int, size: int, codec: Compression) -> float:
    """Writes the records; returns the CPU seconds of all but the first batch, which compiles."""
    Admin(settings).create(topic)
    chance = random.Random(7)
    names = [f',"field{n}":' for n in range(size // 12)]
    texts = []
    for number in range(10_000):
        fields = "".join(f"{name}{chance.random() * 1000:.3f}" for name in names)
        texts.append((f'{{"id":{number:09d}' + fields)[: size - 1].encode() + b"}")
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())], ["data"])
    with Producer(settings, compression=codec) as producer:
        began = 0.0
        for part in range(count // len(texts)):
            if part == 1:
                began = time.process_time()
            producer.write(topic, batch, Partitioning(1))
        producer.flush()
        return time.process_time() - began


def fastest(read: Callable[[], int], count: int) -> tuple[float, float]:
    """Records per second of CPU and of time in the fastest run, after one that compiles what is needed."""
    cpu, wall = [], []
    for _ in range(TIMES + 1):
        began, clock = time.process_time(), time.perf_counter()
        assert read() == count
        cpu.append(count / (time.process_time() - began))
        wall.append(count / (time.perf_counter() - clock))
    return max(cpu[1:]), max(wall[1:])


def compiled(settings: KafkaSettings, topic: str, count: int) -> int:
    return sum(batch.num_rows for batch in CompiledReader(settings).read(Range(topic, 0, 0, count)))


def consumed(settings: KafkaSettings, topic: str, count: int) -> int:
    """What a user's own loop would do: a list of records with their offset, time, data and key."""
    consumer = Consumer(reader_conf(settings, queue_bytes=32 << 20))
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows = 0
    while rows < count:
        kept = []
        for message in consumer.consume(min(10_000, count - rows), 0.1):
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF  # type: ignore[union-attr]
                continue
            kept.append((message.offset(), message.timestamp()[1], message.value(), message.key()))
        rows += len(kept)
    consumer.close()
    return rows


def kcat(settings: KafkaSettings, topic: str, count: int) -> tuple[float, float]:
    """Records per second of its CPU and of time, written to /dev/null; 0 if it can't be installed."""
    program = kcat_program()
    if program is None:
        return 0.0, 0.0
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with Path(os.devnull).open("w") as nothing:
        command = [program, "-C", "-b", settings.brokers[0], "-t", topic, "-p", "0", "-o", "beginning"]
        subprocess.run([*command, "-c", str(count), "-q"], stdout=nothing, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return count / cpu, count / (time.perf_counter() - clock)


@cache
def kcat_program() -> str | None:
    """Its path, installed if need be; None where that can't be done."""
    if (found := shutil.which("kcat")) is not None or shutil.which("apt-get") is None or os.geteuid() != 0:
        return found
    print("  installs kcat, once", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "kcat"]):
        subprocess.run(["apt-get", "--quiet", *command], env=environment, capture_output=True, check=False)
    return shutil.which("kcat")
