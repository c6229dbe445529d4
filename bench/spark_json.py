"""JSON filter + derive from topic to topic: Gauss against the same job written by hand with from_json and to_json.

By hand and sql read topics through the same source and publish through the same sink; they differ in where JSON is
decoded and encoded: in the JVM by hand, in the source and the sink for sql. expression is a standing job of two tasks.
Also: how long a record takes from one topic to the other at a low rate.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pyarrow as pa
from bench import peers

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.task_messages import Claim
from gauss.config.spec import Pipeline, SparkSection
from gauss.contracts.format import SourceField, SourceSchema
from gauss.contracts.processor import Partials
from gauss.contracts.transform import Traits
from gauss.model.paths import DataDir
from gauss.process.ready import read_ready, spawn
from gauss.spark import jvm, session
from gauss.spark.standing import StandingJob
from gauss.stream.driver.jobs.hosted_units import HostedUnit
from gauss.stream.driver.jobs.table_unit import TableUnit
from gauss.stream.driver.planning.chains import Chains
from gauss.stream.driver.planning.jvm_use import use_of
from gauss.stream.driver.planning.reads import STATEFUL_MS, ReadRecords
from gauss.stream.driver.planning.refs import encode_fields
from gauss.stream.driver.planning.writes import WriteRows
from gauss.stream.driver.preload import PRELOAD
from gauss.stream.driver.queries import compile as compiling
from gauss.stream.driver.supervised import Context
from gauss.stream.driver.tasks.standing_loop import make_loop

RECORDS = 2_000_000
WARM_UP = 100_000
ROUNDS = 5
PROBES = 60
PROGRAM = "select(.bid > 66.6) | {symbol, bid, ask, mid: (.bid + .ask) / 2, ts}"
QUERY = "SELECT symbol, bid, ask, (bid + ask) / 2 AS mid, ts FROM input WHERE bid > 66.6"
DDL = "symbol string, bid double, ask double, ts bigint"
FIELDS = [{"name": part.split()[0], "type": part.split()[1].replace("bigint", "int64")} for part in DDL.split(", ")]


class ByHand:
    """What one would write without Gauss's codec."""

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        return []

    def apply(self, records: Any) -> Any:
        from pyspark.sql import functions as F

        row = F.from_json(F.col("_data").cast("string"), DDL)
        columns = records.select("_ts_ms", row.alias("r")).select("_ts_ms", "r.*").where("bid > 66.6")
        made = F.struct("symbol", "bid", "ask", F.expr("(bid + ask) / 2").alias("mid"), "ts")
        return columns.select("_ts_ms", F.to_json(made).cast("binary").alias("_data"))


def config() -> dict[str, Any]:
    sizes = {"storage_size": "unlimited", "storage_bytes": "1GiB"}
    jobs = {
        "by_hand": ("sql", {"query": QUERY}),  # the formats alone count: its transform is `ByHand`
        "sql": ("sql", {"query": QUERY}),
        "expression": ("expression", {"program": PROGRAM}),
        "probe": ("expression", {"program": PROGRAM}),
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
                "config": {"input": {"format": "quote"}, **given},
            }
            for name, (plugin, given) in jobs.items()
        ],
    }


class Standing:
    """A standing job, with the `stop` of a streaming query."""

    def __init__(self, bench: Bench, unit: HostedUnit | TableUnit, tasks: int) -> None:
        self._bench = bench
        self._number = int(bench.client.command("standing.job")["job"])
        plan = unit.plan(self._number)
        self._job = StandingJob(
            bench.started.context, unit.name, partial(make_loop, msgspec.json.encode(plan)), tasks=tasks
        )

    @property
    def isActive(self) -> bool:
        return self._job.is_active

    def reached(self, topic: str) -> int:
        """How far its processor has read."""
        readers = self._bench.client.command("topic", {"name": topic})["readers"]
        return next(int(row["position"]) for row in readers if row["name"] == self._job.name)

    def stop(self) -> None:
        self._bench.client.command("standing.end", {"job": self._number})
        if not self._job.wait(10):
            self._job.cancel()
        if (error := self._job.error()) is not None:
            raise error


class Bench:
    """An engine process and a Spark session over a throw-away data directory."""

    def __init__(self, root: Path, given: dict[str, Any] | None = None) -> None:
        self.data_dir = DataDir(root)
        for folder in (self.data_dir.run, self.data_dir.logs, self.data_dir.cache):
            folder.mkdir(parents=True)
        self.pipeline = Pipeline.model_validate(given or config())
        dumped = {**self.pipeline.model_dump(mode="json"), "base_dir": str(root), "data_dir": str(root)}
        self.data_dir.pipeline_json.write_text(json.dumps(dumped))
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            endpoint = f"grpc://127.0.0.1:{sock.getsockname()[1]}"
        self.data_dir.flight_json.write_text(json.dumps({"endpoint": endpoint, "token": secrets.token_hex(8)}))
        self.engine, ready = spawn([sys.executable, "-m", "gauss.stream.engine", str(root)])
        with os.fdopen(ready):
            assert read_ready(ready, 60).get("ready")
        self.client = EngineClient.from_file(self.data_dir.flight_json)
        use = use_of(self.pipeline.processors)
        self.started = session.connect(
            session.boot(SparkSection(), self.data_dir, use=use, standing=32, preload=PRELOAD)
        )

    @property
    def spark(self) -> Any:
        return self.started.session

    def context(self) -> Context:
        return Context(self.started, self.client, self.pipeline, self.data_dir, str(self.data_dir.flight_json))

    def stand(self, name: str, tasks: int) -> Standing:
        """A standing job for one hosted processor."""
        return Standing(self, HostedUnit(self.context(), Chains((), {}), [name], 1), tasks)

    def start(self, name: str, by_hand: Any = None) -> Any:
        """A query for one of the processors, with its own transform or the given one."""
        processor = next(entry for entry in self.pipeline.processors if entry.name == name)
        spark = self.spark  # before the design: a query is parsed by Spark itself
        design = compiling.design(self.pipeline, processor)
        if design.spec.hosted and by_hand is None:
            return self.stand(name, os.cpu_count() or 1)
        claimed = self.client.claim(Claim(name, "bench", [f"{name}.in"], [f"{name}.out"]))
        if by_hand:
            spec_ = replace(design.spec, partials=Partials.NONE)
            design = replace(design, transform=by_hand, traits=Traits([]), spec=spec_)
        flight, fields = str(self.data_dir.flight_json), design.decided({})
        read = ReadRecords(
            flight,
            name,
            claimed.generation,
            design.input,
            encode_fields(fields),
            start=claimed.start,
            target_ms=STATEFUL_MS if design.stateful else 200,
        )
        folder, target = self.data_dir.checkpoints / name, f"{name}.out"
        write = WriteRows(
            flight,
            name,
            claimed.generation,
            target,
            design.output,
            checkpoint="bench",
            checkpoint_dir=str(folder),
            series="bench",
        )
        timed = compiling.by_time(read, design, fields, folder / "restored.arrows")
        return compiling.start(spark, timed, write, design)

    def send(self, topic: str, records: list[bytes]) -> None:
        schema = pa.schema([pa.field("data", pa.binary(), nullable=False)])
        for start in range(0, len(records), 50_000):
            data = pa.array(records[start : start + 50_000], pa.binary())
            self.client.append(topic, [pa.RecordBatch.from_arrays([data], schema=schema)])

    def end_of(self, topic: str) -> int:
        return int(self.client.command("topic", {"name": topic})["end"])

    def wait(self, topic: str, end: int, pause: float = 0.02) -> None:
        while self.end_of(topic) < end:
            time.sleep(pause)

    def close(self) -> None:
        self.started.stop()
        self.engine.terminate()
        self.engine.wait()


def quotes(count: int) -> list[bytes]:
    return [
        b'{"symbol":"SYM%03d","bid":%.4f,"ask":%.4f,"ts":%d}'
        % (i % 500, i % 1000 / 10, i % 1000 / 10 + 0.05, 1700000000000 + i)
        for i in range(count)
    ]


def throughput(bench: Bench, name: str, records: list[bytes], transform: Any = None) -> float:
    """Records per second from one topic to the other, after a warm-up."""
    kept = sum(1 for i in range(1000) if i / 10 > 66.6)
    query = bench.start(name, transform)
    bench.send(f"{name}.in", records[:WARM_UP])
    bench.wait(f"{name}.out", WARM_UP // 1000 * kept)
    query.stop()
    bench.send(f"{name}.in", records)
    query = bench.start(name, transform)
    first = bench.end_of(f"{name}.out")
    bench.wait(f"{name}.out", first + 1)
    begun, already = time.perf_counter(), bench.end_of(f"{name}.out")
    total = (WARM_UP + RECORDS) // 1000 * kept
    bench.wait(f"{name}.out", total)
    seconds = time.perf_counter() - begun
    query.stop()
    return (total - already) / kept * 1000 / seconds


def latency(bench: Bench) -> list[float]:
    """Milliseconds from an append of 50 records until they are visible in the other topic."""
    query = bench.start("probe")
    batch = [record.replace(b'"bid":', b'"bid":9') for record in quotes(50)]
    found = []
    end = 0
    for probe in range(PROBES):
        begun = time.perf_counter()
        bench.send("probe.in", batch)
        end += sum(1 for record in batch if float(json.loads(record)["bid"]) > 66.6)
        bench.wait("probe.out", end, 0.002)
        if probe >= 10:
            found.append((time.perf_counter() - begun) * 1000)
        time.sleep(0.05)
    query.stop()
    return found


LATENCY_FLAGS = {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}


@contextmanager
def plain_java() -> Iterator[None]:
    """Java as it comes, with its optimising compiler: what one would run a job written by hand with."""
    ours = jvm._java_options

    def plain(*given: Any) -> list[str]:
        return [option for option in ours(*given) if option not in LATENCY_FLAGS]

    with mock.patch.object(jvm, "_java_options", plain):
        yield


@contextmanager
def fresh(given: dict[str, Any] | None = None) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder) / "data", given or config())
        try:
            yield bench
        finally:
            bench.close()


def run() -> list[dict[str, object]]:
    """One row per measure."""
    records = quotes(RECORDS)
    found: dict[str, list[float]] = {"by_hand": [], "sql": [], "expression": []}
    for _ in range(ROUNDS):  # a round lasts a second: one alone varies by a fifth
        with plain_java(), fresh() as bench:
            found["by_hand"].append(throughput(bench, "by_hand", records, ByHand()))
        with fresh() as bench:
            found["sql"].append(throughput(bench, "sql", records))
            found["expression"].append(throughput(bench, "expression", records))
            waited = latency(bench)
    by_hand, sql, expression = (statistics.median(rates) for rates in found.values())
    p99 = statistics.quantiles(waited, n=100)[98]
    return [
        {"what": "by hand, from_json and to_json", "measured": f"{by_hand / 1000:.0f}k rec/s", "aim": ""},
        {"what": "sql, between codecs", "measured": f"{sql / 1000:.0f}k rec/s", "aim": ""},
        {"what": "expression, hosted", "measured": f"{expression / 1000:.0f}k rec/s", "aim": ""},
        {"what": "sql : by hand", "measured": f"{sql / by_hand:.2f}", "aim": "≥ 2"},
        {"what": "expression : by hand", "measured": f"{expression / by_hand:.2f}", "aim": "≥ 8"},
        *peers.compared("derive", records, expression),
        {"what": "topic → Spark → topic, p50", "measured": f"{statistics.median(waited):.0f} ms", "aim": "≤ 15 ms"},
        {"what": "topic → Spark → topic, p99", "measured": f"{p99:.0f} ms", "aim": "≤ 60 ms"},
    ]
