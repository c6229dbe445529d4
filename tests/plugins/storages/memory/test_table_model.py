"""The memory table against a dict and a list of events: upserts, deletions, rollbacks, scans, live cursors,
compaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.cursor import Mode, Program, Step
from gauss.plugins.storages.memory import runs, table
from gauss.plugins.storages.memory.table import KEY_BYTES
from gauss.plugins.storages.memory.table_cursor import TableCursor
from helpers.cases import cases
from helpers.logs import arrow
from helpers.tables import Row, open_table, record, rows, stage, watermark

KEYS = ["", "a", "ab", "b", "é", "z\U0001f600", "k1", "k10", "k2", "\uffff"]
EVENT = st.tuples(st.sampled_from(KEYS), st.booleans())
EPOCH = st.lists(st.lists(EVENT, max_size=6), min_size=1, max_size=3)
PUBLISH = st.tuples(st.just("publish"), EPOCH)
ACTION = st.one_of(
    PUBLISH,
    PUBLISH,
    PUBLISH,
    st.tuples(st.just("rollback"), EPOCH),
    st.tuples(st.just("snapshot"), st.just(None)),
    st.tuples(st.just("live"), st.just(None)),
    st.tuples(st.just("step"), st.tuples(st.integers(0, 9), st.integers(1, 4))),
    st.tuples(st.just("close"), st.integers(0, 9)),
    st.tuples(st.just("maintain"), st.just(None)),
)


@pytest.fixture(autouse=True, scope="module")
def _small_runs() -> Any:
    """Small sizes, so that a few events fill memtables, create runs and split pages."""
    patch = pytest.MonkeyPatch()
    patch.setattr(table, "SEAL_ROWS", 3)
    patch.setattr(table, "PINNED_ROWS", 1)
    patch.setattr(runs, "PAGE_ROWS", 3)
    patch.setattr(runs, "FOLD_ROWS", 2)
    yield
    patch.undo()


@dataclass
class Model:
    """The expected contents of a table."""

    events: list[Row] = field(default_factory=list)

    def fold(self, version: int) -> list[Row]:
        held: dict[str, Row] = {}
        for event in self.events[:version]:
            held.pop(event["key"], None)
            if not event["deleted"]:
                held[event["key"]] = event
        return [held[key] for key in sorted(held, key=str.encode)]

    def expected(self, scan: Scan) -> list[Row]:
        root = self.fold(scan.cursor.pinned_version)
        return [*root, *self.events[scan.cursor.pinned_version :]] if scan.live else root


@dataclass
class Scan:
    cursor: TableCursor
    live: bool
    found: list[Row] = field(default_factory=list)


@settings(deadline=None, max_examples=cases(150))
@given(st.lists(ACTION, min_size=15, max_size=50))
def test_every_scan_gives_the_fold_of_its_version_and_live_ones_every_event_after_it(
    actions: list[tuple[str, Any]],
) -> None:
    real, model, scans, clock = open_table(), Model(), list[Scan](), 0
    for action, argument in actions:
        if action in ("publish", "rollback"):
            staged: list[Row] = []
            for chunk in argument:
                clock += 1
                numbered = [
                    (key, gone, len(model.events) + len(staged) + at) for at, (key, gone) in enumerate(chunk, 1)
                ]
                data = [record(key, number, gone=gone) for key, gone, number in numbered]
                if data:
                    stage(real, arrow(*data, ts_ms=clock))
                staged += [
                    {"key": key, "version": number, "ts_ms": clock, "deleted": gone, "data": one}
                    for (key, gone, number), one in zip(numbered, data, strict=True)
                ]
            if action == "publish":
                real.reveal()
                model.events += staged
            else:
                real.rollback()
        elif action in ("snapshot", "live"):
            live = action == "live"
            scans.append(Scan(real.open(Program(mode=Mode.LIVE if live else Mode.SNAPSHOT)), live))
        elif action == "maintain":
            real.maintain()
            _is_the_fold(real, model)
        elif scans:
            at = argument if action == "close" else argument[0]
            scan = scans[at % len(scans)]
            if action == "close":
                scan.cursor.close()
                scans.remove(scan)
            elif scan.cursor.next(Step(argument[1])) == 0:
                batch = scan.cursor.read()[1]
                assert batch is not None
                scan.found += batch.to_pylist()
        held = model.fold(len(model.events))
        assert (real.end, real.rows) == (len(model.events), len(held))
        assert real.bytes == sum(KEY_BYTES + 2 * len(row["key"].encode()) + len(row["data"]) for row in held)
        for scan in scans:
            assert scan.found == model.expected(scan)[: len(scan.found)]
        assert watermark(real) == min((scan.cursor.hold for scan in scans), default=real.end)
    _is_the_fold(real, model)
    for scan in scans:
        scan.found += rows(scan.cursor, limit=3)
        assert scan.found == model.expected(scan)
        scan.cursor.close()


def _is_the_fold(real: table.MemoryTable, model: Model) -> None:
    cursor = real.open(Program())
    assert rows(cursor) == model.fold(len(model.events))
    cursor.close()


@settings(deadline=None, max_examples=cases(100))
@given(
    st.lists(st.lists(EVENT, min_size=1, max_size=5), max_size=20),
    st.integers(1, 5),
    st.sampled_from(["drop", "overwrite"]),
)
def test_full_table_never_holds_more_than_its_bound_and_is_the_fold_of_its_events(
    chunks: list[list[tuple[str, bool]]], size: int, full: str
) -> None:
    real = open_table(storage_size=size, write_full=full)
    live = real.open(Program(mode=Mode.LIVE))
    accepted = dropped = evicted = 0
    for number, chunk in enumerate(chunks):
        taken, _ = stage(real, arrow(*(record(key, number, gone=gone) for key, gone in chunk)))
        real.reveal()
        accepted, dropped, evicted = accepted + taken.accepted, dropped + taken.dropped, evicted + taken.evicted
        assert real.rows <= size
    model = Model(rows(live))
    assert len(model.events) == real.end == accepted + evicted
    assert accepted + dropped == sum(map(len, chunks))
    assert rows(real.open(Program())) == model.fold(real.end)
    assert (evicted == 0) if full == "drop" else (dropped == 0)
