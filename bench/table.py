"""A table of a million keys: scans against SQLite and LMDB from Python and against Arrow by hand; pins and cursors
beside a writer; memory.

LMDB comes into a folder of its own, by pip, for this benchmark alone.
"""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bench.edges import framing

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Mode, Program, Step
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.storage import StorageContext, StorageSpec
from gauss.scan.program.parse import parse_scan
from gauss.scan.sources import SourceTask
from gauss.stream.engine.table_topic import TableTopic

KEYS = 1_000_000
CHUNK = 10_000
RATE = 100_000
SECONDS = 5.0
PROGRAM = "select(.bid >= 900) | {symbol, mid: (.bid + .ask) / 2}"
FIELDS = [{"name": "symbol", "type": "string"}, {"name": "bid", "type": "double"}, {"name": "ask", "type": "double"}]
STEP = Step(limit=65_536, max_bytes=16 << 20)


def record(key: int, change: int = 0) -> bytes:
    """Bids go from 0 to 1,000, so that a tenth is kept."""
    bid = (key * 7_919 + change) % 10_000 / 10
    return b'{"symbol": "S%07d", "bid": %.1f, "ask": %.1f, "venue": "XNAS", "seq": %d}' % (key, bid, bid + 0.5, change)


def chunk(first: int, count: int = CHUNK, change: int = 0) -> Chunk:
    lines = b"\n".join(record((first + at) % KEYS, change) for at in range(count)) + b"\n"
    return Chunk(lines, count, 1_700_000_000_000 + change, framing("newline", {}))


def json_format(_: str = "") -> Format:
    spec = registry.spec(FormatSpec, "json")
    built: Format = registry.build(spec, spec.validate({"fields": FIELDS}))
    return built


def open_topic() -> TableTopic:
    spec = registry.spec(StorageSpec, "memory")
    config = spec.validate({"mode": "table", "format": "json", "key_field": "symbol", "storage_bytes": "1GiB"})
    context = StorageContext("bench", Path(), Path(), lambda _: 1, lambda _: True, framing=framing, format=json_format)
    return TableTopic("bench", registry.build(spec, config, context), spec.capacity(config))


def settled(topic: TableTopic) -> None:
    for _ in range(3):
        topic.maintain()


def timed(work: Callable[[], Any], times: int = 3) -> float:
    """The CPU seconds of the best of some runs: other processes do not count."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def scan(source: SourceTask) -> int:
    """All rows of the program."""
    opened = source.open(parse_scan(PROGRAM))
    assert opened.code is Code.UNSET, opened.fault
    rows = 0
    while source.next(opened.cursor_id, STEP) is Code.UNSET:
        item = source.read(opened.cursor_id)[1]
        assert isinstance(item, pa.RecordBatch)
        rows += item.num_rows
    source.close(opened.cursor_id)
    return rows


def by_hand(batches: list[pa.RecordBatch]) -> int:
    """The same filter and projection, decoding included, as one would write them for these batches."""
    format_ = json_format()
    schema = pa.schema([("symbol", pa.string()), ("bid", pa.float64()), ("ask", pa.float64())])
    rows = 0
    for batch in batches:
        fields = format_.decode_batch(batch.column("data"), schema).rows
        kept = fields.filter(pc.greater_equal(fields.column("bid"), 900.0))
        mid = pc.divide(pc.add(kept.column("bid"), kept.column("ask")), 2.0)
        rows += pa.RecordBatch.from_arrays([kept.column("symbol"), mid], names=["symbol", "mid"]).num_rows
    return rows


class _Quote(msgspec.Struct):
    symbol: str
    bid: float
    ask: float


def row_by_row(values: Iterator[bytes]) -> list[tuple[str, float]]:
    decode = msgspec.json.Decoder(_Quote).decode
    return [(quote.symbol, (quote.bid + quote.ask) / 2) for quote in map(decode, values) if quote.bid >= 900]


def sqlite_scan(folder: Path) -> float:
    with sqlite3.connect(folder / "peer.sqlite") as db:
        db.execute("CREATE TABLE quotes (key TEXT PRIMARY KEY, data BLOB) WITHOUT ROWID")
        rows = ((f"S{key:07}", record(key)) for key in range(KEYS))
        db.executemany("INSERT INTO quotes VALUES (?, ?)", rows)
    with sqlite3.connect(folder / "peer.sqlite") as db:
        return timed(lambda: row_by_row(data for (data,) in db.execute("SELECT data FROM quotes ORDER BY key")))


def lmdb_scan(folder: Path) -> float:
    packages = Path(tempfile.gettempdir()) / f"gauss-bench-lmdb-{os.getuid()}-{sys.version_info.minor}"
    if not (packages / "lmdb").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), "lmdb"]
        subprocess.run(pip, check=True)
    sys.path.append(str(packages))
    import lmdb  # type: ignore[import-not-found]

    environment = lmdb.open(str(folder / "peer.lmdb"), map_size=2 << 30)
    with environment.begin(write=True) as transaction:
        for key in range(KEYS):
            transaction.put(b"S%07d" % key, record(key), append=True)
    with environment.begin() as transaction:
        return timed(lambda: row_by_row(value for _, value in transaction.cursor()))


class Writer(threading.Thread):
    """Upserts at a fixed rate until it is told to end; made chunks are written again and again."""

    def __init__(self, topic: TableTopic, rate: int | None = RATE) -> None:
        super().__init__(daemon=True)
        self.written, self.cpu = 0, 0.0
        self._topic, self._rate = topic, rate
        self._over = threading.Event()
        self._chunks = [chunk(first, 5_000, change=1) for first in range(0, KEYS, 25_000)]

    def run(self) -> None:
        began, cpu = time.perf_counter(), time.thread_time()
        while not self._over.is_set():
            made = self._chunks[self.written // 5_000 % len(self._chunks)]
            self._topic.append(made)
            self.written += made.count
            if self._rate is not None:
                self._over.wait(max(0.0, began + self.written / self._rate - time.perf_counter()))
        self.cpu = time.thread_time() - cpu

    def end(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def beside(topic: TableTopic, rate: int | None = RATE) -> Iterator[Writer]:
    """A writer and the compaction, as the engine runs it."""
    writer, over = Writer(topic, rate), threading.Event()

    def compact() -> None:
        while not over.wait(1.0):
            topic.maintain()

    compaction = threading.Thread(target=compact, daemon=True)
    writer.start()
    compaction.start()
    try:
        yield writer
    finally:
        writer.end()
        over.set()
        compaction.join()


def pin_times(topic: TableTopic) -> tuple[np.ndarray, float]:
    """Microseconds of each pin, and upserts per second beside them."""
    found = []
    with beside(topic) as writer:
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            start = time.perf_counter_ns()
            cursor = topic.open(Program())
            found.append((time.perf_counter_ns() - start) / 1000)
            cursor.close()
            time.sleep(0.001)
        rate = writer.written / (time.perf_counter() - began)
    return np.array(found), rate


def upsert_cpu(topic: TableTopic, cursors: int) -> float:
    """CPU microseconds per upsert of a writer as fast as it can, beside cursors at different versions."""
    with beside(topic, None) as writer:
        opened = []
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            if len(opened) < cursors:
                opened.append(topic.open(Program(mode=Mode.LIVE if len(opened) % 2 else Mode.SNAPSHOT)))
                opened[-1].next(Step(100))
            time.sleep(SECONDS / 2 / max(cursors, 1))
    for cursor in opened:
        cursor.close()
    return writer.cpu / writer.written * 1e6


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []

    def add(what: str, gauss: str, other: str, ratio: str, aim: str) -> None:
        rows.append({"work": what, "Gauss": gauss, "compared with": other, "ratio": ratio, "aim": aim})

    topic = open_topic()
    chunks = [chunk(first) for first in range(0, KEYS, CHUNK)]
    topic.append(chunks[0])
    began = time.process_time()
    for each in chunks[1:]:
        topic.append(each)
    upsert = (time.process_time() - began) / (KEYS - CHUNK) * 1e6
    add("upsert, key decoded by batch", f"{upsert:.2f} µs CPU", "", "", "1.4–3.3 µs")
    settled(topic)
    source = SourceTask("bench", topic)
    assert scan(source) == KEYS // 10
    mine = timed(lambda: scan(source))
    batches = [batch for batch in _pages(topic)]
    hand = timed(lambda: by_hand(batches))
    add(
        "filter + project 1M keys",
        f"{mine * 1000:.0f} ms",
        f"pyarrow by hand {hand * 1000:.0f} ms",
        f"{hand / mine:.2f}",
        "≥ 0.5",
    )
    del batches
    with tempfile.TemporaryDirectory() as folder:
        for name, peer in (("SQLite", sqlite_scan), ("LMDB", lmdb_scan)):
            seconds = peer(Path(folder))
            add(
                "the same, row by row",
                f"{mine * 1000:.0f} ms",
                f"{name} in Python {seconds * 1000:.0f} ms",
                f"{seconds / mine:.1f}",
                "≥ 10",
            )
    times, rate = pin_times(topic)
    add(
        f"pin a snapshot beside {rate / 1000:.0f}k upserts/s",
        f"p50 {np.percentile(times, 50):.0f} µs",
        f"p99 {np.percentile(times, 99):.0f} µs",
        "",
        "p99 ≤ 1 ms",
    )
    alone = upsert_cpu(topic, 0)
    settled(topic)
    gc.collect()
    before = pa.total_allocated_bytes()
    crowded = upsert_cpu(topic, 64)
    settled(topic)
    gc.collect()
    after = pa.total_allocated_bytes()
    add(
        "upserts beside 64 cursors", f"{crowded:.2f} µs CPU", f"alone {alone:.2f} µs", f"{crowded / alone:.2f}", "≤ 1.2"
    )
    add(
        "memory after the last cursor closed",
        f"{after >> 20} MiB",
        f"before {before >> 20} MiB",
        f"{after / before:.2f}",
        "≤ 1.1",
    )
    return rows


def _pages(topic: TableTopic) -> Iterator[pa.RecordBatch]:
    cursor = topic.open(Program())
    while cursor.next(STEP) is Code.UNSET:
        yield cursor.read()[1]
    cursor.close()


if __name__ == "__main__":
    print(json.dumps(run(), indent=1, ensure_ascii=False))
