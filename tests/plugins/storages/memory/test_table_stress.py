"""The memory table with several threads: readers never see a torn version, and released memory is freed."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import numpy as np
import pyarrow as pa
import pytest

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Mode, Program, Step
from gauss.plugins.storages.memory import table as tables
from gauss.plugins.storages.memory.keys import Keyed
from gauss.plugins.storages.memory.runs import CANDIDATES
from gauss.plugins.storages.memory.table import MemoryTable
from gauss.plugins.storages.memory.table_cursor import TableCursor
from helpers.tables import open_table, watermark

KEYS = 500
CHUNK = 50


@pytest.fixture(autouse=True)
def _small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SEAL_ROWS", 1_000)
    monkeypatch.setattr(tables, "PINNED_ROWS", 100)


def key_of(version: int) -> str:
    return f"k{version * 7_919 % KEYS:04}"


def write(table: MemoryTable, first: int, count: int = CHUNK) -> None:
    """Writes events from `first` on, each with its version; every eleventh is a deletion."""
    versions = range(first, first + count)
    keys = pa.array([key_of(version) for version in versions])
    data = pa.array([b"%d" % version for version in versions], pa.binary())
    deleted = np.array([version % 11 == 0 for version in versions])
    table.append(Keyed(data, first, keys, deleted))
    table.reveal()


def fold(version: int) -> dict[str, bytes]:
    held = {key_of(each): each for each in range(1, version + 1)}
    return {key: b"%d" % newest for key, newest in held.items() if newest % 11}


def drained(cursor: TableCursor) -> pa.Table:
    batches = []
    while cursor.next(Step(200)) is Code.OK:
        batches.append(cursor.read()[1])
    return pa.Table.from_batches(batches, CANDIDATES)


class Load:
    """A writer and a compaction that run during the test."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.faults: list[BaseException] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._guard, args=(run,)) for run in (self._write, self._compact)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert not self.faults

    def _guard(self, run: object) -> None:
        try:
            while not self._over.is_set():
                run()  # type: ignore[operator]
        except BaseException as fault:
            self.faults.append(fault)

    def _write(self) -> None:
        write(self.table, self.table.end + 1)

    def _compact(self) -> None:
        self.table.maintain()
        self._over.wait(random.random() / 200)


def test_64_cursors_at_different_versions_each_equal_the_fold_beside_a_writer() -> None:
    table = open_table()
    with Load(table):
        cursors: list[TableCursor] = []
        while len(cursors) < 64:
            cursor = table.open(Program())
            if cursors and cursor.pinned_version == cursors[-1].pinned_version:
                cursor.close()
                table_moved(table, cursor.pinned_version)
                continue
            cursors.append(cursor)
        random.Random(64).shuffle(cursors)
        for cursor in cursors:
            found = drained(cursor)
            assert found.column("key").to_pylist() == sorted(found.column("key").to_pylist())
            rows = zip(found.column("key").to_pylist(), found.column("data").to_pylist(), strict=True)
            assert dict(rows) == fold(cursor.pinned_version)
            cursor.close()
    assert watermark(table) == table.end


def table_moved(table: MemoryTable, version: int) -> None:
    while table.end == version:
        threading.Event().wait(0.0005)


def test_live_readers_get_root_then_every_event_once_and_in_order_beside_a_writer() -> None:
    table = open_table()
    write(table, 1)
    faults: list[BaseException] = []

    def follow() -> None:
        try:
            cursor = table.open(Program(mode=Mode.LIVE))
            expected = fold(cursor.pinned_version)
            root: dict[str, bytes] = {}
            while len(root) < len(expected):
                assert cursor.next(Step(64)) is Code.OK
                batch = cursor.read()[1]
                assert batch is not None
                root.update(zip(batch.column("key").to_pylist(), batch.column("data").to_pylist(), strict=True))
            assert root == expected
            version = cursor.pinned_version
            while version < cursor.pinned_version + 5_000:
                if cursor.next(Step(64)) is Code.OK:
                    batch = cursor.read()[1]
                    assert batch is not None
                    count = batch.num_rows
                    assert batch.column("version").to_pylist() == list(range(version + 1, version + count + 1))
                    version += count
            cursor.close()
        except BaseException as fault:
            faults.append(fault)

    with Load(table):
        threads = [threading.Thread(target=follow) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not faults
    assert table.floor == table.end


def test_memory_below_the_watermark_is_freed_when_the_last_cursor_closes() -> None:
    gc.collect()
    others = pa.total_allocated_bytes()  # left in this process by earlier tests
    table = open_table()
    for first in range(1, 20_001, CHUNK):
        write(table, first)
    for _ in range(3):
        table.maintain()
    before = pa.total_allocated_bytes() - others
    cursors = []
    for first in range(20_001, 40_001, CHUNK):
        write(table, first)
        if first % 1_000 == 1:
            cursors += [table.open(Program()), table.open(Program(mode=Mode.LIVE))]
            table.maintain()
    for cursor in cursors:
        cursor.next(Step())
    pinned = pa.total_allocated_bytes() - others
    for cursor in cursors:
        cursor.close()
    for _ in range(3):
        table.maintain()
    del cursor, cursors
    gc.collect()
    after = pa.total_allocated_bytes() - others
    assert pinned > 2 * before
    assert after <= before * 1.1


def test_snapshot_that_stays_open_does_not_keep_the_tail() -> None:
    table = open_table()
    write(table, 1)
    snapshot = table.open(Program())
    tail = [weakref.ref(link) for link in [_Probe.of(table)]]
    for first in range(CHUNK + 1, CHUNK * 40, CHUNK):
        write(table, first)
    gc.collect()
    assert tail[0]() is None
    assert len(drained(snapshot)) == len(fold(CHUNK))


class _Probe:
    """An object that lives as long as the newest link of the tail."""

    @classmethod
    def of(cls, table: MemoryTable) -> _Probe:
        probe = cls()
        table._root.last.batch = probe
        return probe


def test_chunk_without_keys_is_no_events() -> None:
    with pytest.raises(AssertionError):
        open_table().append(Chunk(pa.array([b"x"], pa.binary()), 1, 1))
