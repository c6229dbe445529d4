"""The samples of the guest kit in whole attempts: against connectors in Python and against each other."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.attempt import Attempt, Outcome, Side
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.wasm.connector import WasmConnector
from gauss.contracts.connector.arrow_types import arrow_schema
from gauss.contracts.connector.cursor import CursorInfo, CursorType, CursorValue, Int64Cursor, NullCursor, Utf8Cursor
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo, ValidationResult, ValidationStatus
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext, StreamLimits, SyncMode
from helpers.connectors import OneStream
from helpers.waiting import wait_until

MODULES = Path(os.environ.get("GAUSS_SDK_MODULES", Path(__file__).parents[3] / "sdk/modules"))
SOURCES = ["numbers", "counter"]
ENDLESS = 10**12


class Plain:
    def __init__(self, host: StreamHost) -> None:
        self.host = host

    def open(self, context: OpenContext) -> OpenInfo:  # noqa: ARG002
        return OpenInfo()

    def close(self) -> None:
        pass


class Collecting(Plain):
    """Commits after every batch."""

    def __init__(self, host: StreamHost) -> None:
        super().__init__(host)
        self.got: list[pa.RecordBatch] = []

    def run_write(self, stream: StreamContext) -> WriteSummary:
        while (batch := self.host.next_batch()) is not None:
            assert isinstance(batch, pa.RecordBatch)
            self.got.append(batch)
            self.host.checkpoint(Checkpoint(len(self.got), CheckpointKind.DEST, stream.stream_name))
        return WriteSummary(batches_written=len(self.got))

    @property
    def numbers(self) -> list[int]:
        return [number for batch in self.got for number in batch.column("n").to_pylist()]


def emitting(*batches: pa.RecordBatch) -> Callable[[StreamHost], Any]:
    """A source in Python."""

    class Emitting(Plain):
        def run_read(self, stream: StreamContext) -> ReadSummary:
            for batch in batches:
                self.host.emit_batch(batch)
            self.host.checkpoint(Checkpoint(len(batches), CheckpointKind.SOURCE, stream.stream_name))
            return ReadSummary(batches_emitted=len(batches))

    return Emitting


def stream_of(
    mode: SyncMode = SyncMode.FULL_REFRESH, last: CursorValue | None = None, limits: StreamLimits | None = None
) -> OneStream:
    both = OneStream(limits)
    cursor = None if mode is SyncMode.FULL_REFRESH else CursorInfo("n", CursorType.INT64, last)
    given = both.run.stream
    stream = StreamContext("users", given.schema, mode, cursor, given.limits)
    both.run = StreamRun(stream, both.state, both.seen, pipeline="p")
    return both


class Sync:
    """An attempt of two connectors: a sample by its name, or a class."""

    def __init__(self, source: Any, destination: Any, both: OneStream, **config: Any) -> None:
        self.both, self.made = both, dict[str, Any]()
        self.attempt = Attempt(both.run, self._side(source, config), self._side(destination, config))

    def _side(self, kind: Any, config: dict[str, Any]) -> Side:
        name = kind if isinstance(kind, str) else kind.__name__

        def make(host: StreamHost) -> Any:
            made = WasmConnector(MODULES / f"{kind}.wasm", host) if isinstance(kind, str) else kind(host)
            self.made[name] = made
            return made

        return Side(make, name, "1", JsonConfig(config))

    def start(self) -> tuple[threading.Thread, list[Outcome]]:
        done: list[Outcome] = []
        thread = threading.Thread(target=lambda: done.append(self.attempt()))
        thread.start()
        return thread, done


def totals(both: OneStream) -> Any:
    (found,) = (value for (_, key), value in both.state.values.items() if key == "totals")
    return json.loads(found)


def expected(rows: int) -> pa.RecordBatch:
    """What `numbers` has."""
    each = range(1, rows + 1)
    return pa.record_batch(
        [
            pa.array(each, pa.int64()),
            pa.array([n / 2 if n % 3 else None for n in each], pa.float64()),
            pa.array([(f"№ {n} 🦀" if n % 5 else "") if n % 7 else None for n in each], pa.string()),
            pa.array([n % 2 == 0 if n % 11 else None for n in each], pa.bool_()),
        ],
        pa.schema(
            [
                pa.field("n", pa.int64(), nullable=False),
                ("half", pa.float64()),
                ("text", pa.string()),
                ("even", pa.bool_()),
            ]
        ),
    )


def test_pyarrow_reads_every_batch_of_numbers_with_nulls_empty_strings_and_unicode() -> None:
    sync = Sync("numbers", Collecting, stream_of(), rows=1000, batch_rows=64)
    outcome = sync.attempt()
    assert outcome.error is None and outcome.read is not None
    got = sync.made["Collecting"].got
    assert [batch.num_rows for batch in got] == [64] * 15 + [40]
    assert pa.Table.from_batches(got).combine_chunks().to_batches()[0].equals(expected(1000))
    assert outcome.read.records_read == 1000 and outcome.read.batches_emitted == 16
    assert sync.both.seen.totals[CheckpointKind.SOURCE] == (1000, outcome.read.bytes_read)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("rows", "batch_rows"), [(1, 1), (7, 7), (7, 3), (5000, 4096), (9, 10)])
def test_every_number_arrives_once_and_in_order(source: str, rows: int, batch_rows: int) -> None:
    sync = Sync(source, Collecting, stream_of(), rows=rows, batch_rows=batch_rows)
    outcome = sync.attempt()
    assert outcome.error is None and outcome.read is not None
    assert (outcome.read.records_read, outcome.read.batches_emitted) == (rows, -(-rows // batch_rows))
    assert sync.made["Collecting"].numbers == list(range(1, rows + 1))


@pytest.mark.parametrize("source", SOURCES)
def test_checkpoint_is_made_at_the_row_threshold_and_at_the_end(source: str) -> None:
    both = stream_of(SyncMode.INCREMENTAL)
    sync = Sync(source, Collecting, both, rows=100, batch_rows=10, checkpoint={"rows": 25, "secs": 1})
    outcome = sync.attempt()
    assert outcome.read is not None and outcome.read.checkpoint_count == 4
    assert both.run.correlation.committed is not None
    ids = {each.id: each.cursor_value for each in both.seen.safe}
    assert ids.items() <= {3: Int64Cursor(30), 6: Int64Cursor(60), 9: Int64Cursor(90), 10: Int64Cursor(100)}.items()
    assert both.seen.safe[-1].id == 10 and both.seen.safe[-1].cursor_field == "n"


def test_checkpoint_is_made_at_the_byte_threshold() -> None:
    sync = Sync("numbers", Collecting, stream_of(), rows=100, batch_rows=10, checkpoint={"bytes": 1})
    outcome = sync.attempt()
    assert outcome.read is not None and outcome.read.checkpoint_count == 11


@pytest.mark.parametrize("source", SOURCES)
def test_run_resumes_after_the_cursor_of_the_last_one(source: str) -> None:
    both = stream_of(SyncMode.INCREMENTAL, Int64Cursor(40))
    sync = Sync(source, Collecting, both, rows=50, batch_rows=7)
    outcome = sync.attempt()
    assert sync.made["Collecting"].numbers == list(range(41, 51))
    assert outcome.read is not None and outcome.read.records_read == 10
    assert both.seen.safe[-1].cursor_value == Int64Cursor(50)


@pytest.mark.parametrize("source", SOURCES)
def test_run_without_new_rows_keeps_the_cursor(source: str) -> None:
    both = stream_of(SyncMode.INCREMENTAL, Int64Cursor(50))
    outcome = Sync(source, Collecting, both, rows=50).attempt()
    assert outcome == Outcome(ReadSummary(checkpoint_count=1), WriteSummary())
    assert [(each.id, each.cursor_value) for each in both.seen.safe] == [(0, Int64Cursor(50))]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("last", [None, NullCursor()])
def test_first_run_starts_at_the_beginning(source: str, last: CursorValue | None) -> None:
    sync = Sync(source, Collecting, stream_of(SyncMode.INCREMENTAL, last), rows=3)
    sync.attempt()
    assert sync.made["Collecting"].numbers == [1, 2, 3]


@pytest.mark.parametrize("source", SOURCES)
def test_aborted_run_and_the_next_one_lose_and_repeat_no_rows(source: str) -> None:
    both = stream_of(SyncMode.INCREMENTAL)
    sync = Sync(source, Collecting, both, rows=ENDLESS, batch_rows=5, checkpoint={"rows": 12})
    thread, done = sync.start()
    wait_until(lambda: len(both.seen.safe) > 3, what="checkpoints")
    sync.attempt.break_off(ConnectorError.internal("DEADLINE", "too late"))
    thread.join(30)
    assert done[0].error is not None and done[0].error.code == "DEADLINE"
    safe = both.seen.safe[-1]
    assert isinstance(safe.cursor_value, Int64Cursor)
    kept = sync.made["Collecting"].numbers[: safe.id * 5]
    end = safe.cursor_value.value + 20
    second = Sync(source, Collecting, stream_of(SyncMode.INCREMENTAL, safe.cursor_value), rows=end)
    assert second.attempt().error is None
    assert kept + second.made["Collecting"].numbers == list(range(1, end + 1))


@pytest.mark.parametrize("source", SOURCES)
def test_drained_run_writes_all_emitted_rows_and_succeeds(source: str) -> None:
    sync = Sync(source, Collecting, stream_of(SyncMode.INCREMENTAL), rows=ENDLESS, batch_rows=5, checkpoint={"rows": 5})
    thread, done = sync.start()
    wait_until(lambda: len(sync.both.seen.safe) > 3, what="checkpoints")
    sync.attempt.drain()
    thread.join(30)
    assert done[0].error is None
    assert sync.made["Collecting"].numbers == list(range(1, sync.both.run.emitted * 5 + 1))


@pytest.mark.parametrize("source", SOURCES)
def test_batches_stay_below_the_limit(source: str) -> None:
    sync = Sync(source, Collecting, stream_of(limits=StreamLimits(max_batch_bytes=1000)), rows=500, batch_rows=4000)
    assert sync.attempt().error is None
    assert all(batch.nbytes <= 1000 for batch in sync.made["Collecting"].got)
    assert sync.made["Collecting"].numbers == list(range(1, 501))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("config", [{}, {"rows": -1}, {"rows": "5"}, {"rows": 5, "batch_rows": 0}])
def test_invalid_config_is_a_config_error(source: str, config: dict[str, Any]) -> None:
    error = Sync(source, Collecting, stream_of(), **config).attempt().error
    assert error is not None
    assert (error.code, error.category, error.retryable) == ("BAD_CONFIG", ErrorCategory.CONFIG, False)
    assert "rows" in error.message


@pytest.mark.parametrize("source", SOURCES)
def test_cursor_of_another_type_is_refused(source: str) -> None:
    error = Sync(source, Collecting, stream_of(SyncMode.INCREMENTAL, Utf8Cursor("n")), rows=5).attempt().error
    assert error is not None and error.code == "BAD_CURSOR"


@pytest.mark.parametrize("source", SOURCES)
def test_catalog_has_the_schema_of_the_batches(source: str) -> None:
    sync = Sync(source, Collecting, stream_of(), rows=5)
    sync.attempt()
    made = WasmConnector(MODULES / f"{source}.wasm", OneStream().source)
    made.open(OpenContext(JsonConfig({"rows": 5}), source, "1"))
    (stream,) = made.discover().streams
    assert arrow_schema(stream.schema) == sync.made["Collecting"].got[0].schema
    assert stream.name == source and stream.primary_key == ["n"] and stream.cursor_candidates == ["n"]
    assert made.validate(JsonConfig({"rows": 5})) == ValidationResult(ValidationStatus.SUCCESS)
    made.close()
    made.close()


@pytest.mark.parametrize("source", SOURCES)
def test_sample_source_writes_to_a_sample_destination(source: str) -> None:
    both = stream_of(SyncMode.INCREMENTAL)
    sync = Sync(source, "totals", both, rows=10_000, batch_rows=1000, checkpoint={"rows": 3000})
    outcome = sync.attempt()
    assert outcome.error is None and outcome.write is not None
    assert (outcome.write.records_written, outcome.write.batches_written) == (10_000, 10)
    assert outcome.write.checkpoint_count == 4
    found = totals(both)
    assert found["rows"] == 10_000 and found["sums"]["n"] == sum(range(10_001))
    if source == "numbers":
        assert found["sums"]["half"] == sum(n / 2 for n in range(10_001) if n % 3)
    assert both.seen.safe[-1].cursor_value == Int64Cursor(10_000)
    assert both.seen.totals[CheckpointKind.DEST][0] == 10_000


def test_totals_resumes_from_its_state_and_a_full_refresh_starts_over() -> None:
    first = stream_of(SyncMode.INCREMENTAL)
    assert Sync("numbers", "totals", first, rows=10).attempt().error is None
    second = stream_of(SyncMode.INCREMENTAL, first.seen.safe[-1].cursor_value)
    second.run.state = first.state
    assert Sync("numbers", "totals", second, rows=30).attempt().error is None
    assert totals(first)["rows"] == 30 and totals(first)["sums"]["n"] == sum(range(31))
    third = stream_of()
    third.run.state = first.state
    assert Sync("numbers", "totals", third, rows=5).attempt().error is None
    assert totals(first)["rows"] == 5 and totals(first)["sums"]["n"] == 15


def test_totals_sums_batches_of_a_source_in_python_that_need_a_larger_buffer() -> None:
    large = pa.record_batch(
        {"n": pa.array([2**63 - 1] * 50_000), "f": pa.array([0.5, None] * 25_000), "t": ["ü"] * 50_000}
    )
    both = stream_of()
    outcome = Sync(emitting(large.slice(0, 2), large, large), "totals", both).attempt()
    assert outcome.error is None and outcome.write is not None and outcome.write.batches_written == 3
    assert totals(both) == {"rows": 100_002, "sums": {"n": 100_002 * (2**63 - 1), "f": 50_001 * 0.5}}


def test_totals_refuses_an_unreadable_state() -> None:
    both = stream_of(SyncMode.INCREMENTAL)
    Sync("numbers", "totals", both, rows=1).attempt()
    for key in both.state.values:
        both.state.values[key] = b"{"
    again = stream_of(SyncMode.INCREMENTAL)
    again.run.state = both.state
    error = Sync("numbers", "totals", again, rows=1).attempt().error
    assert error is not None and error.code == "BAD_STATE" and "at byte" in error.message


def test_error_of_the_other_side_ends_a_module_with_that_error() -> None:
    class Refusing(Plain):
        def run_write(self, stream: StreamContext) -> WriteSummary:  # noqa: ARG002
            self.host.next_batch()
            raise ConnectorError.transient_db("DOWN", "the server restarts")

    for source in SOURCES:
        error = Sync(source, Refusing, stream_of(), rows=ENDLESS).attempt().error
        assert error is not None and (error.code, error.retryable) == ("DOWN", True)
