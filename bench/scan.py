"""Scans of a log of a million records: steps over Flight, and filter + project against pyarrow by hand."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.bare_flight import exchange
from bench.edges import start_topic
from bench.table import FIELDS, by_hand, chunk, compared, decoded, json_format, row, timed

from gauss.clients.engine.client import EngineClient
from gauss.contracts.cursor import Code, Program, Step
from gauss.scan.program.parse import parse_scan
from gauss.stream.engine.topics.topic import Topic

RECORDS = 1_000_000
CHUNK = 10_000
STEPS = 500
ROWS = Step(limit=1_000)
BATCHES = Step(limit=65_536, max_bytes=16 << 20)
KEPT = parse_scan('seq(format: "quote") | select(.bid >= 900) | {symbol, mid: (.bid + .ask) / 2}')
CONFIG = f"""
[[formats]]
name = "quote"
plugin = "json"
config = {{ fields = [{", ".join(f'{{ name = "{each["name"]}", type = "{each["type"]}" }}' for each in FIELDS)}] }}

[[topics]]
name = "bench"
storage = "memory"
storage_config = {{ storage_size = {2 * RECORDS}, storage_bytes = "1GiB" }}
"""


@contextmanager
def engine() -> Iterator[EngineClient]:
    """A run of its own, with a million records in it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench.toml").write_text(CONFIG)
        command = [sys.executable, "-m", "gauss.cli.main", "run", "bench.toml", "--quiet", "--data-dir", ".gauss"]
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            flight = Path(folder) / ".gauss" / "run" / "flight.json"
            while not flight.exists():
                time.sleep(0.05)
            client = EngineClient.from_file(flight)
            for first in range(0, RECORDS, CHUNK):
                client.append("bench", [pa.record_batch({"data": chunk(first, CHUNK).data()})])
            yield client
            client.close()
        finally:
            run.terminate()
            run.wait()


def taken(next_: Callable[[Step], Code], read: Callable[[], Any]) -> list[float]:
    """The seconds of each of the first steps."""
    times: list[float] = []
    while len(times) < STEPS:
        began = time.perf_counter()
        if next_(ROWS) is not Code.OK:
            break
        read()
        times.append(time.perf_counter() - began)
    return times


def shown(times: list[float]) -> str:
    p50, p99 = np.percentile(times, [50, 99]) * 1000
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


def steps(client: EngineClient, topic: Topic) -> Iterator[dict[str, object]]:
    """A thousand rows a step over a socket, beside an exchange of such batches that does nothing else."""
    batch = next(batches(topic, Program())).slice(0, ROWS.limit)
    for again, aim in ((True, "≤ 0.5 ms"), (False, "")):
        times, bare = over_flight(client, Program(), again=again), exchange(batch, STEPS, again=again)
        work = "1,000-row step over Flight, " + ("the next asked for ahead" if again else "one after the other")
        yield row(work, shown(times), f"bare exchange: {shown(bare)}", float(np.median(times) / np.median(bare)), aim)
    times = over_flight(client, KEPT, again=True)
    here = topic.open(KEPT)
    local = taken(here.next, here.read)
    here.close()
    ratio = float(np.median(times) / np.median(local))
    yield row("the same, filtered and projected, a tenth kept", shown(times), f"in process: {shown(local)}", ratio, "")


def over_flight(client: EngineClient, program: Program, *, again: bool) -> list[float]:
    for _ in range(2):  # the first go is slower: gRPC and the format warm up
        with client.scan_cursor("bench", program) as cursor:
            times = taken(partial(cursor.next, again=again), cursor.read)
    return times


def scanned(topic: Topic) -> int:
    return sum(batch.num_rows for batch in batches(topic, KEPT))


def batches(topic: Topic, program: Program) -> Iterator[pa.RecordBatch]:
    cursor = topic.open(program)
    while cursor.next(BATCHES) is Code.OK:
        yield cursor.read()[1]
    cursor.close()


def run() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        topic = start_topic("memory", {"storage_size": 2 * RECORDS, "storage_bytes": "1GiB"}, Path(folder))
        topic.source.formats = json_format
        for first in range(0, RECORDS, CHUNK):
            topic.append(chunk(first, CHUNK))
        assert scanned(topic) == RECORDS // 10
        mine = timed(lambda: scanned(topic))
        by_pyarrow = timed(lambda: by_hand(decoded(list(batches(topic, Program())))))
        found = [compared("filter + project of a log, JSON decoded", mine, "pyarrow by hand", by_pyarrow, "≥ 0.5")]
        with engine() as client:
            return found + list(steps(client, topic))
