"""Checkpoints of sources: when they are due, and how many rows may be read again after a crash."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from gauss.connect.channel import most_in_flight
from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.emitter import Emitter
from gauss.contracts.connector.host import Mark
from gauss.contracts.connector.progress import CheckpointKind, Counter
from gauss.contracts.connector.settings import CheckpointThresholds
from gauss.contracts.connector.stream import Columns, StreamContext, SyncMode
from helpers.connectors import Seen, Values

NEVER = {"rows": 1 << 40, "bytes": 1 << 50, "secs": 1e6}


def emitter_of(**thresholds: float) -> Emitter:
    run = StreamRun(StreamContext("s", Columns([]), SyncMode.INCREMENTAL), Values(), Seen(), pipeline="p")
    limits = CheckpointThresholds.model_validate({**NEVER, **thresholds})
    return Emitter(StreamHost(run, CheckpointKind.SOURCE, "source"), run.stream, limits)


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


@pytest.mark.parametrize(("thresholds", "batches"), [({"rows": 40}, 2), ({"bytes": 640}, 4), ({"secs": 1e-9}, 1)])
def test_checkpoint_is_due_at_half_of_the_threshold(thresholds: dict[str, float], batches: int) -> None:
    emitter = emitter_of(**thresholds)
    for done in range(6):
        assert emitter.due() is (done > 0 and done % batches == 0)
        if emitter.due():
            emitter.checkpoint(Int64Cursor(done))
            assert not emitter.due()
        emitter.emit([rows(10)], 80)


def test_summary_counts_rows_and_bytes_and_is_reported_as_metrics() -> None:
    emitter = emitter_of()
    emitter.emit([rows(3), rows(4)], 70)
    emitter.checkpoint(Int64Cursor(7), "n")
    summary = emitter.summary()
    assert (summary.records_read, summary.bytes_read, summary.batches_emitted) == (7, 70, 2)
    seen = emitter.host._run.observer  # type: ignore[attr-defined]
    found = {each.name: each.value.value for each in seen.metrics if isinstance(each.value, Counter)}
    assert found == {"records": 7, "bytes": 70, "batches": 2, "checkpoints": 1, "fetch_ms": 0, "decode_ms": 0}


def test_rows_read_but_not_committed_never_exceed_the_threshold() -> None:
    bound = CheckpointThresholds(rows=400)
    stream = StreamContext("s", Columns([]), SyncMode.INCREMENTAL)
    run = StreamRun(stream, Values(), Seen(), pipeline="p", most_in_flight=most_in_flight(bound))
    emitter = Emitter(StreamHost(run, CheckpointKind.SOURCE, "source"), stream, bound)
    destination = StreamHost(run, CheckpointKind.DEST, "destination")
    committed, waiting = 0, 0
    most = 0

    def commit() -> None:
        nonlocal committed, waiting
        while (item := destination.next_delivery()) is not None:
            if isinstance(item, Mark):
                time.sleep(0.01)  # the source goes on meanwhile, as far as it is let
                committed, waiting = committed + waiting, 0
            else:
                waiting += item.rows.num_rows  # type: ignore[union-attr]

    thread = threading.Thread(target=commit)
    thread.start()
    for _ in range(60):
        # What is about to be emitted was read already.
        most = max(most, emitter.records + bound.batch_rows - committed)
        emitter.emit([rows(bound.batch_rows)], 8 * bound.batch_rows)
        if emitter.due():
            emitter.checkpoint(Int64Cursor(emitter.records))
    run.channel.end()
    thread.join(10)
    assert committed == emitter.records == 60 * bound.batch_rows
    assert bound.rows // 2 < most <= bound.rows
