"""One case under way: its data directory, its clock, its engine, and whether the flow has become quiet."""

from __future__ import annotations

import secrets
import socket
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.config.files import with_absolute_files
from gauss.contracts.processor import Where
from gauss.contracts.storage import ReadMode
from gauss.model.errors import GaussError
from gauss.model.files import write_private
from gauss.model.units import counted
from gauss.stream.client import STAGE_SCHEMA, EngineClient
from gauss.stream.control.datadir import hold
from gauss.stream.flowtest.bench import LOOK_SECONDS, Bench, kill
from gauss.stream.flowtest.judge import Suite
from gauss.stream.flowtest.records import Found
from gauss.stream.flowtest.stripped import stripped
from gauss.stream.flowtest.tables import table_rows
from gauss.stream.graph import build_graph
from gauss.stream.protocol import Read
from gauss.stream.tables import table_topic


class World:
    """`close` ends it; the bench stays."""

    def __init__(self, bench: Bench, suite: Suite, data_dir: Path, clock_ms: int) -> None:
        self._bench = bench
        self._base_dir = suite.checked.base_dir
        self.pipeline = with_absolute_files(stripped(suite.pipeline), self._base_dir)
        self.graph = build_graph(self.pipeline)
        self._held = hold(data_dir)
        self.paths = self._held.paths
        self.now_ms = 0
        self._idle: dict[str, int] = {}
        """How often each standing processor was seen to have nothing to do."""
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
                "endpoint": f"grpc://127.0.0.1:{_free_port()}",
                "token": secrets.token_urlsafe(24),
                "lock": str(self._held.run_lock),
            },
        )
        self.client = EngineClient.from_file(self.paths.flight_json, wait_s=30)
        self._pid = 0

    def start(self) -> None:
        self._bench.serve(self.graph, self.paths.root)
        self._pid = self._bench.start_engine(self.paths.root)
        if self.graph.needs_spark:
            self._bench.drive(self.pipeline, self._base_dir, self.paths.root)

    def close(self) -> None:
        """The queries first: without an engine they would wait for it."""
        if self.graph.needs_spark:
            self._bench.rest()
        self.client.close()
        if self._pid:
            kill(self._pid)
        self._held.release()

    # --- steps ---

    def move_clock(self, to_ms: int) -> None:
        """The clock never goes back."""
        self.now_ms = max(self.now_ms, to_ms)
        fresh = self.paths.clock.with_suffix(".new")
        fresh.write_text(str(self.now_ms))
        fresh.replace(self.paths.clock)

    def send(self, topic: str, records: list[bytes], ts_ms: int | list[int] | None) -> None:
        """Appends as a source would; a record that is not there yet can't have arrived."""
        times = ts_ms if isinstance(ts_ms, list) else [self.now_ms if ts_ms is None else ts_ms] * len(records)
        self.move_clock(max(times, default=0))
        arrays = [pa.array(times, pa.int64()), pa.array(records, pa.binary())]
        self.client.append(topic, [pa.RecordBatch.from_arrays(arrays, schema=STAGE_SCHEMA)])

    def restart(self, what: str) -> None:
        """Kills a process and waits until it is there again."""
        if what == "driver":
            self._bench.restart_driver()
            return
        kill(self._pid)
        self._pid = self._bench.start_engine(self.paths.root)

    # --- looking ---

    def settle(self, seconds: float) -> dict[str, Any]:
        """Waits until nobody is behind and no topic grows; what the topics hold then."""
        deadline = time.monotonic() + seconds
        before: dict[str, Any] = {}
        while True:
            self._bench.raise_if_failed()
            processors = self.client.command("processors.ls")["processors"]
            for each in processors:
                if each["state"] in ("failed", "stopped"):
                    raise GaussError(f"processor {each['name']} {each['state']}: {each['detail']}")
            behind = {each["name"]: each["behind"] for each in processors if each["behind"]}
            ends = {each["name"]: (each["inc"], each["end"]) for each in self.client.command("topics")["topics"]}
            if not behind and ends == before:
                return ends
            if time.monotonic() > deadline:
                told = ", ".join(f"{name} by {counted(count, 'record')}" for name, count in behind.items())
                details = "; ".join(f"{each['name']} is {each['state']}: {each['detail']}" for each in processors)
                raise GaussError(
                    f"the flow is not quiet after {seconds:.0f} s: {told or 'topics still grow'} behind",
                    hint=details,
                )
            before = ends
            time.sleep(LOOK_SECONDS)

    def epochs(self) -> dict[str, tuple[int, int]]:
        """How many epochs each transform on Spark has done, and how often it asked for a next one in vain."""
        rows = [row for row in self.client.command("processors.ls")["processors"] if row["where"] == Where.SPARK]
        for row in rows:
            if row["runs"] in ("hosted", "table"):  # it waits for records: each look at it counts
                name, idle = row["name"], not row["behind"] and not row["under_way"]
                row["vain"] = self._idle[name] = self._idle.get(name, 0) + idle
        return {row["name"]: (row["epoch"], row["vain"]) for row in rows}

    def found(self, topic: str) -> list[bytes] | list[Found]:
        """The records of a topic in their order, or the rows of its table."""
        node = self.graph.topics[topic]
        if node.table:
            table = table_topic(self.pipeline, topic, self._base_dir, self.paths)
            return table_rows(table, node.table, self._bench.servers[node.table].endpoint)
        if ReadMode.OFFSET not in node.read_modes:
            return [data for batch in self.client.scan(topic) for data in batch.column("data").to_pylist()]
        row = self.client.command("topic", {"name": topic})
        batches = self.client.read(Read(topic, row["inc"], row["floor"], row["end"]))
        return [data for batch in batches for data in batch.column(2).to_pylist()]

    def dead_letters(self) -> list[dict[str, Any]]:
        """Every dead letter, oldest first."""
        letters: list[dict[str, Any]] = self.client.command("dlq.show", {"limit": 10_000})["letters"]
        return letters[::-1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
