"""Scans of a log of a million records: steps over Flight, and filter + project against pyarrow by hand."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.edges import start_topic
from bench.table import FIELDS, by_hand, chunk, compared, decoded, json_format, row, timed

from gauss.contracts.cursor import Code, Program, Step
from gauss.scan.program.parse import parse_scan
from gauss.stream.client import EngineClient
from gauss.stream.engine.topic import Topic

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


def taken(cursor: Any, step: Step) -> tuple[int, list[float]]:
    """Rows of a cursor up to its end, and the seconds of each step."""
    rows, times = 0, []
    while len(times) < STEPS:
        began = time.perf_counter()
        if cursor.next(step) is not Code.UNSET:
            break
        rows += cursor.read()[1].num_rows
        times.append(time.perf_counter() - began)
    return rows, times


def median_ms(times: list[float]) -> float:
    return float(np.median(times)) * 1000


def steps(client: EngineClient, topic: Topic) -> Iterator[dict[str, object]]:
    """A thousand rows a step, over a socket and in this process."""
    for work, program in (("records as they lie", Program()), ("filtered and projected, a tenth kept", KEPT)):
        with client.scan_cursor("bench", program) as cursor:
            taken(cursor, Step(1))  # the first goes are slower: gRPC and the format warm up
        with client.scan_cursor("bench", program) as cursor:
            _, times = taken(cursor, ROWS)
        here = topic.open(program)
        _, local = taken(here, ROWS)
        here.close()
        over, inside = median_ms(times), median_ms(local)
        aim = "" if program.stages else "≤ 0.5 ms"
        p99 = float(np.percentile(times, 99)) * 1000
        shown = f"p50 {over:.2f} ms, p99 {p99:.2f} ms"
        yield row(f"1,000-row step over Flight, {work}", shown, f"in process {inside:.2f} ms", over / inside, aim)


def scanned(topic: Topic) -> int:
    return sum(batch.num_rows for batch in batches(topic, KEPT))


def batches(topic: Topic, program: Program) -> Iterator[pa.RecordBatch]:
    cursor = topic.open(program)
    while cursor.next(BATCHES) is Code.UNSET:
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
