"""A table of a million keys: scans against SQLite and LMDB from Python and against Arrow by hand; pins and cursors
beside a writer; memory.

LMDB comes into a folder of its own, by pip, for this benchmark alone.
"""

from __future__ import annotations

import gc
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
from gauss.contracts.cursor import Code, Mode, Program, ReaderCursor, Step
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.storage import StorageContext, StorageSpec
from gauss.scan.program.parse import parse_scan
from gauss.scan.sources import SourceTask
from gauss.stream.engine.topics.table_topic import TableTopic

KEYS = 1_000_000
CHUNK = 10_000
RATE = 100_000
SECONDS = 5.0
PROGRAM = parse_scan("select(.bid >= 900) | {symbol, mid: (.bid + .ask) / 2}")
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


def timed(work: Callable[[], Any], times: int | None = None) -> float:
    """The CPU seconds of the best of some runs, of many where they are short: other processes do not count."""
    found: list[float] = []
    while len(found) < 3 or sum(found) < 0.5 if times is None else len(found) < times:
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def scan(source: SourceTask) -> int:
    """All rows of the program."""
    opened = source.open(PROGRAM)
    assert opened.code is Code.OK, opened.fault
    rows = 0
    while source.next(opened.cursor_id, STEP) is Code.OK:
        item = source.read(opened.cursor_id)[1]
        assert isinstance(item, pa.RecordBatch)
        rows += item.num_rows
    source.close(opened.cursor_id)
    return rows


def decoded(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    schema = pa.schema([("symbol", pa.string()), ("bid", pa.float64()), ("ask", pa.float64())])
    format_ = json_format()
    return [format_.decode_batch(batch.column("data"), schema).rows for batch in batches]


def by_hand(batches: list[pa.RecordBatch]) -> int:
    """The same filter and projection as one would write them for decoded columns."""
    rows = 0
    for fields in batches:
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
        opened: list[ReaderCursor] = []
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
    topic = open_topic()
    rows = [upserts(topic)]
    settled(topic)
    rows += scans(topic)
    times, rate = pin_times(topic)
    p50, p99 = np.percentile(times, [50, 99])
    rows.append(
        row(f"pin a snapshot beside {rate / 1000:.0f}k upserts/s", f"p50 {p50:.0f} µs, p99 {p99:.0f} µs", aim="≤ 1 ms")
    )
    return rows + crowd(topic)


def row(work: str, gauss: str, other: str = "", ratio: float | None = None, aim: str = "") -> dict[str, object]:
    shown = "" if ratio is None else f"{ratio:.2f}"
    return {"work": work, "Gauss": gauss, "compared with": other, "ratio": shown, "aim": aim}


def upserts(topic: TableTopic) -> dict[str, object]:
    chunks = [chunk(first) for first in range(0, KEYS, CHUNK)]
    topic.append(chunks[0])
    began = time.process_time()
    for each in chunks[1:]:
        topic.append(each)
    each_us = (time.process_time() - began) / (KEYS - CHUNK) * 1e6
    return row(f"upsert in batches of {CHUNK}, key decoded", f"{each_us:.2f} µs CPU", aim="1.4–3.3 µs")


def scans(topic: TableTopic) -> list[dict[str, object]]:
    source = topic.source
    first = timed(lambda: scan(source), 1)
    again = timed(lambda: scan(source))
    assert scan(source) == KEYS // 10
    by_hand_first, by_hand_again = pyarrow_scans(list(_pages(topic)))
    found = [
        compared("filter + project, JSON decoded", first, "pyarrow by hand", by_hand_first, "≥ 0.5"),
        compared("filter + project, fields at hand", again, "pyarrow by hand", by_hand_again, "≥ 0.5"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, peer in (("SQLite in Python", sqlite_scan), ("LMDB in Python", lmdb_scan)):
            seconds = peer(Path(folder))
            found.append(compared("the same, first scan of these fields", first, name, seconds))
            found.append(compared("the same, later scans", again, name, seconds, "≥ 10"))
    return found


def pyarrow_scans(batches: list[pa.RecordBatch]) -> tuple[float, float]:
    """By hand, with and without decoding."""
    columns = decoded(batches)
    return timed(lambda: by_hand(decoded(batches)), 1), timed(lambda: by_hand(columns))


def compared(work: str, mine: float, name: str, other: float, aim: str = "") -> dict[str, object]:
    return row(work, ms(mine), f"{name} {ms(other)}", other / mine, aim)


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms CPU"


def crowd(topic: TableTopic) -> list[dict[str, object]]:
    """What 64 cursors cost the writer, and what they leave behind."""
    alone = upsert_cpu(topic, 0)
    settled(topic)
    gc.collect()
    before = pa.total_allocated_bytes()
    crowded = upsert_cpu(topic, 64)
    settled(topic)
    gc.collect()
    after = pa.total_allocated_bytes()
    mib = (f"{after >> 20} MiB", f"before {before >> 20} MiB")
    return [
        row("upsert beside 64 cursors", f"{crowded:.2f} µs CPU", f"alone {alone:.2f} µs", crowded / alone, "≤ 1.2"),
        row("memory after the last cursor closed", *mib, after / before, "≤ 1.1"),
    ]


def _pages(topic: TableTopic) -> Iterator[pa.RecordBatch]:
    cursor = topic.open(Program())
    while cursor.next(STEP) is Code.OK:
        yield cursor.read()[1]
    cursor.close()
