"""The environment of one running test case: its data directory, clock and engine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss import registry
from gauss.clients.endpoint import Endpoint
from gauss.clients.engine.client import STAGE_SCHEMA, EngineClient
from gauss.clients.engine.cursor_messages import Read
from gauss.config.database_refs import database_of, with_addresses
from gauss.config.files import with_absolute_files
from gauss.config.spec import Pipeline
from gauss.contracts.processor import Role, Where
from gauss.contracts.storage import StorageSpec, TopicKind
from gauss.model.errors import GaussError
from gauss.model.files import write_private
from gauss.model.paths import DataDir
from gauss.model.units import counted
from gauss.process.ports import free_port
from gauss.stream.control.datadir import hold
from gauss.stream.flowtest.bench import LOOK_SECONDS, Bench, kill
from gauss.stream.flowtest.judge import Suite
from gauss.stream.flowtest.records import Found
from gauss.stream.flowtest.stripped import stripped
from gauss.stream.flowtest.tables import table_rows
from gauss.stream.graph import build_graph
from gauss.stream.live_formats import with_live_formats
from gauss.stream.tables import table_topic

SHARED_SECONDS = 1.0
"""Time without changes after which a topic in Kafka counts as settled: the engine notices its records later."""


class World:
    """The environment of one test case. `close` stops its engine and queries; the bench stays."""

    def __init__(
        self, bench: Bench, suite: Suite, data_dir: Path, clock_ms: int, databases: Mapping[str, str] | None = None
    ) -> None:
        """`databases`: the DSNs of the case's clones, by name."""
        self._bench, self._databases = bench, databases or {}
        self._base_dir = suite.checked.base_dir
        self._given = suite.pipeline
        addressed = with_addresses(stripped(suite.pipeline, bench.broker), self._databases)
        located = with_live_formats(addressed, DataDir(data_dir.absolute()), keep=True)
        self.pipeline = with_absolute_files(located, self._base_dir)
        self.graph = build_graph(self.pipeline)
        self._sources = {each.name for each in self.graph.processors.values() if each.role is Role.SOURCE}
        """Sources of prepared databases."""
        self._pause = SHARED_SECONDS if self.graph.shared(self.graph.topics) else 0.0
        self._held = hold(data_dir)
        self.paths = self._held.paths
        self.now_ms = 0
        self._idle: dict[str, int] = {}
        """How often each standing processor was found idle."""
        self.move_clock(clock_ms)
        write_private(
            self.paths.pipeline_json,
            {
                **self.pipeline.model_dump(mode="json"),
                "base_dir": str(self._base_dir),
                "data_dir": str(self.paths.root),
                "secrets": sorted(suite.checked.redactor.secrets),
            },
        )
        write_private(
            self.paths.flight_json,
            {
                "endpoint": f"grpc://127.0.0.1:{free_port()}",
                "token": secrets.token_urlsafe(24),
                "lock": str(self._held.group.lock),
            },
        )
        self.client = EngineClient.from_file(self.paths.flight_json, wait_s=30)
        self._pid = 0

    @property
    def with_sources(self) -> Pipeline:
        """The given pipeline with the formats of this case."""
        return self._given.model_copy(update={"formats": self.pipeline.formats})

    def start(self, seconds: float) -> None:
        """Starts the engine and the queries. Returns when the sources have read their databases."""
        self._bench.serve(self.graph, self.paths.root)
        self._pid = self._bench.start_engine(self.paths.root)
        if self.graph.needs_spark:
            self._bench.drive(self.pipeline, self._base_dir, self.paths.root)
        if self._sources:
            self.settle(seconds)

    def close(self) -> None:
        """Stops the case. The queries first: without an engine they would wait for it."""
        if self.graph.needs_spark:
            self._bench.rest()
        self.client.close()
        if self._pid:
            kill(self._pid)
        self._held.release()

    # --- steps ---

    def move_clock(self, to_ms: int) -> None:
        """Moves the clock forward; it never goes back."""
        self.now_ms = max(self.now_ms, to_ms)
        fresh = self.paths.clock.with_suffix(".new")
        fresh.write_text(str(self.now_ms))
        fresh.replace(self.paths.clock)

    def send(self, topic: str, records: list[bytes], ts_ms: int | list[int] | None) -> None:
        """Appends records as a source does, and moves the clock to the latest arrival time."""
        times = ts_ms if isinstance(ts_ms, list) else [self.now_ms if ts_ms is None else ts_ms] * len(records)
        self.move_clock(max(times, default=0))
        arrays = [pa.array(times, pa.int64()), pa.array(records, pa.binary())]
        self.client.append(topic, [pa.RecordBatch.from_arrays(arrays, schema=STAGE_SCHEMA)])

    def restart(self, what: str) -> None:
        """Kills a process and waits until it is up again."""
        if what == "driver":
            self._bench.restart_driver()
            return
        kill(self._pid)
        self._pid = self._bench.start_engine(self.paths.root)

    # --- looking ---

    def settle(self, seconds: float) -> dict[str, Any]:
        """Waits until no processor lags and no topic grows; returns the topics' ends."""
        deadline = time.monotonic() + seconds
        before: dict[str, Any] = {}
        since = time.monotonic()
        while True:
            self._bench.raise_if_failed()
            processors = self.client.command("processors.ls")["processors"]
            for each in processors:
                if each["state"] in ("failed", "stopped"):
                    raise GaussError(f"processor {each['name']} {each['state']}: {each['detail']}")
            behind = {each["name"]: each["behind"] for each in processors if each["behind"]}
            reading = [each["name"] for each in processors if each["name"] in self._sources and each["state"] != "done"]
            ends = {each["name"]: (each["inc"], each["end"]) for each in self.client.command("topics")["topics"]}
            if behind or reading or ends != before:
                since = time.monotonic()
            elif time.monotonic() - since >= self._pause:
                return ends
            if time.monotonic() > deadline:
                lagging = ", ".join(f"{name} by {counted(count, 'record')}" for name, count in behind.items())
                details = "; ".join(f"{each['name']} is {each['state']}: {each['detail']}" for each in processors)
                reason = f"behind: {lagging}" if lagging else "topics grow"
                reason = f"{', '.join(reading)} has not read its table" if reading else reason
                raise GaussError(f"the pipeline is still busy after {seconds:.0f} s: {reason}", hint=details)
            before = ends
            time.sleep(LOOK_SECONDS)

    def epochs(self) -> dict[str, tuple[int, int]]:
        """For each transform on Spark: the number of its epochs, and how often it found no input for another."""
        rows = [row for row in self.client.command("processors.ls")["processors"] if row["where"] == Where.SPARK]
        for row in rows:
            if row["runs"] in ("hosted", "table"):  # it waits for records: count each idle sample
                name, idle = row["name"], not row["behind"] and not row["under_way"]
                row["vain"] = self._idle[name] = self._idle.get(name, 0) + idle
        return {row["name"]: (row["epoch"], row["vain"]) for row in rows}

    def found(self, topic: str) -> list[bytes] | list[Found]:
        """The records of a topic in order, or the rows of its table."""
        node = self.graph.topics[topic]
        if node.kind is TopicKind.STORED_TABLE:
            table = table_topic(self.pipeline, topic, self._base_dir, self.paths)
            return table_rows(table, node.table, self._address(topic))
        if node.kind is not TopicKind.LOG:
            return [data for batch in self.client.scan(topic) for data in batch.column("data").to_pylist()]
        row = self.client.command("topic", {"name": topic})
        batches = self.client.read(Read(topic, row["inc"], row["floor"], row["end"]))
        return [data for batch in batches for data in batch.column(2).to_pylist()]

    def _address(self, topic: str) -> str | Endpoint:
        """The server of a table: a clone, or the embedded one."""
        given = self._given.topic(topic)
        named = database_of(registry.spec(StorageSpec, given.storage), given.storage_config)
        return self._databases[named] if named else self._bench.servers[self.graph.topics[topic].table].endpoint

    def dead_letters(self) -> list[dict[str, Any]]:
        """Every dead letter, oldest first."""
        letters: list[dict[str, Any]] = self.client.command("dlq.show", {"limit": 10_000})["letters"]
        return letters[::-1]
