"""A source and a destination side by side: they end together, whatever becomes of either."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.arrow_ipc import write_batch
from gauss.connect.attempt import LONGEST_PAUSE_S, LONGEST_WISH_S, Attempt, Outcome, Side, pause_s
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.wasm.connector import WasmConnector
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import BackoffClass, ConnectorError, ErrorCategory
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.lifecycle import Feature, JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import (
    Checkpoint,
    CheckpointEnvelope,
    CheckpointKind,
    ReadSummary,
    WriteSummary,
)
from gauss.contracts.connector.stream import Append, StreamContext, SyncMode, Upsert, WriteMode
from gauss.model.errors import ConfigError, StorageError, Unavailable
from helpers.connectors import OneStream, module, rows, segment
from helpers.waiting import wait_until


class Plain:
    """A connector that opens and closes, and counts both."""

    def __init__(self, host: StreamHost) -> None:
        self.host = host
        self.opened = self.closed = 0

    def open(self, context: OpenContext) -> OpenInfo:
        assert isinstance(context.config, JsonConfig)
        self.opened += 1
        return OpenInfo()

    def close(self) -> None:
        self.closed += 1


class Numbers(Plain):
    """Emits batches of one number, with a checkpoint after each."""

    count = 5

    def run_read(self, stream: StreamContext) -> ReadSummary:
        for number in range(1, self.count + 1):
            self.host.emit_batch(rows(number))
            self.host.checkpoint(
                Checkpoint(number, CheckpointKind.SOURCE, stream.stream_name, "n", Int64Cursor(number))
            )
        return ReadSummary(records_read=self.count)


class Endless(Numbers):
    count = 1_000_000_000


class Collecting(Plain):
    """Commits after every batch."""

    def __init__(self, host: StreamHost) -> None:
        super().__init__(host)
        self.got: list[int] = []

    def run_write(self, stream: StreamContext) -> WriteSummary:
        while (batch := self.host.next_batch()) is not None:
            self.got += batch.column(0).to_pylist()  # type: ignore[union-attr]
            self.host.checkpoint(Checkpoint(len(self.got), CheckpointKind.DEST, stream.stream_name))
        return WriteSummary(records_written=len(self.got))


class Fixture:
    """One attempt with two kinds of connectors."""

    def __init__(self, source: Callable[[Any], Any], destination: Callable[[Any], Any], both: OneStream) -> None:
        self.both = both
        self.made: dict[str, Any] = {}
        self.attempt = Attempt(both.run, self._side("source", source), self._side("destination", destination))

    def _side(self, name: str, kind: Callable[[Any], Any]) -> Side:
        def make(host: StreamHost) -> Any:
            self.made[name] = kind(host)
            return self.made[name]

        return Side(make, name, "1", JsonConfig({}))

    def closed(self) -> None:
        """Whoever was opened was closed, once."""
        for connector in self.made.values():
            assert connector.opened == connector.closed


def attempt(
    source: Callable[[Any], Any] = Numbers,
    destination: Callable[[Any], Any] = Collecting,
    both: OneStream | None = None,
) -> tuple[Fixture, Outcome]:
    made = Fixture(source, destination, both or OneStream())
    return made, made.attempt()


def test_both_sides_come_to_their_end_and_the_cursor_to_the_last_batch() -> None:
    made, outcome = attempt()
    assert outcome == Outcome(ReadSummary(records_read=5), WriteSummary(records_written=5))
    assert made.made["destination"].got == [1, 2, 3, 4, 5]
    assert made.both.seen.safe[-1].cursor_value == Int64Cursor(5)
    made.closed()


@pytest.mark.parametrize(
    ("raised", "category", "retryable"),
    [
        (ConnectorError.rate_limit("SLOW", "later"), ErrorCategory.RATE_LIMIT, True),
        (ConfigError("no table"), ErrorCategory.CONFIG, False),
        (Unavailable("gone"), ErrorCategory.TRANSIENT_NETWORK, True),
        (StorageError("broken"), ErrorCategory.INTERNAL, False),
        (ZeroDivisionError("oh"), ErrorCategory.INTERNAL, False),
    ],
)
@pytest.mark.parametrize("side", ["open", "source", "destination"])
def test_whatever_a_connector_raises_ends_both_with_a_typed_error(
    raised: Exception, category: ErrorCategory, retryable: bool, side: str
) -> None:
    class Failing(Endless, Collecting):
        def open(self, context: OpenContext) -> OpenInfo:
            if side == "open":
                raise raised
            return super().open(context)

        def run_read(self, stream: StreamContext) -> ReadSummary:  # noqa: ARG002
            self.host.emit_batch(rows(1))
            raise raised

        def run_write(self, stream: StreamContext) -> WriteSummary:  # noqa: ARG002
            self.host.next_batch()
            raise raised

    made, outcome = attempt(
        Failing if side != "destination" else Endless, Failing if side == "destination" else Collecting
    )
    assert outcome.error is not None
    assert (outcome.error.category, outcome.error.retryable) == (category, retryable)
    made.closed()


class Unmade(Plain):
    def __init__(self, host: StreamHost) -> None:
        super().__init__(host)
        raise ValueError("no")


class Silent(Plain):
    def open(self, context: OpenContext) -> OpenInfo:
        super().open(context)
        return None  # type: ignore[return-value]


class Exiting(Plain):
    def run_read(self, stream: StreamContext) -> ReadSummary:  # noqa: ARG002
        raise SystemExit(1)

    def run_write(self, stream: StreamContext) -> WriteSummary:  # noqa: ARG002
        raise SystemExit(1)


@pytest.mark.parametrize("wrong", [Unmade, Silent, Exiting])
@pytest.mark.parametrize("role", ["source", "destination"])
def test_the_other_side_does_not_wait_for_a_connector_that_ends_in_an_unusual_way(wrong: Any, role: str) -> None:
    made = Fixture(wrong if role == "source" else Endless, wrong if role == "destination" else Collecting, OneStream())
    done: list[Outcome] = []
    threading.Thread(target=lambda: done.append(made.attempt()), daemon=True).start()
    wait_until(lambda: done, 20, what="the end of both sides")
    assert done[0].error is not None and done[0].error.category is ErrorCategory.INTERNAL
    made.closed()


def test_a_destination_that_returns_before_the_end_is_an_error() -> None:
    class Hasty(Plain):
        def run_write(self, stream: StreamContext) -> WriteSummary:  # noqa: ARG002
            self.host.next_batch()
            return WriteSummary()

    made, outcome = attempt(Endless, Hasty)
    assert outcome.error is not None and outcome.error.code == "ENDED_EARLY"
    made.closed()


def test_a_connector_that_returns_something_else_than_a_summary_has_none() -> None:
    class Wordless(Numbers, Collecting):
        def run_read(self, stream: StreamContext) -> ReadSummary:
            super().run_read(stream)
            return 5  # type: ignore[return-value]

        def run_write(self, stream: StreamContext) -> WriteSummary:
            super().run_write(stream)
            return {}  # type: ignore[return-value]

    made, outcome = attempt(Wordless, Wordless)
    assert outcome == Outcome() and made.made["destination"].got == [1, 2, 3, 4, 5]


class Stubborn(Collecting):
    """Goes on after an error."""

    def run_write(self, stream: StreamContext) -> WriteSummary:
        while True:
            try:
                return super().run_write(stream)
            except ConnectorError as error:
                if error.code == self.code:
                    self.errors += 1
                if self.errors > 3:
                    return WriteSummary()

    code, errors = "BAD", 0


def test_a_destination_that_goes_on_after_an_error_does_not_pass_over_rows() -> None:
    def refuse_three(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.column(0).to_pylist() == [3]:
            raise ConnectorError.data("BAD", "3 is bad")
        return batch

    both = OneStream()
    both.run.program = refuse_three
    made, outcome = attempt(destination=Stubborn, both=both)
    assert outcome.error is not None and outcome.error.code == "BAD"
    assert made.made["destination"].got == [1, 2] and both.seen.safe[-1].cursor_value == Int64Cursor(2)


def started(made: Fixture) -> tuple[threading.Thread, list[Outcome]]:
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(made.attempt()))
    thread.start()
    wait_until(lambda: len(made.both.seen.safe) > 3, what="batches")
    return thread, done


def test_a_drained_stream_writes_what_was_emitted_and_is_no_failure() -> None:
    made = Fixture(Endless, Collecting, OneStream())
    thread, done = started(made)
    made.attempt.drain()
    thread.join(30)
    assert done[0].error is None and done[0].write is not None
    written = done[0].write.records_written
    assert made.made["destination"].got == list(range(1, written + 1))
    assert written == made.both.run.emitted
    made.closed()


def test_a_stream_that_is_drained_as_its_source_ends_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def drained_meanwhile(host: StreamHost) -> bool:
        before = host._run.cancel.is_set()
        host._run.drain()
        return before

    monkeypatch.setattr(StreamHost, "cancelled", drained_meanwhile)
    made, outcome = attempt()
    assert outcome.error is None and made.made["destination"].got == [1, 2, 3, 4, 5]
    made.closed()


def test_a_broken_off_stream_ends_with_that_error() -> None:
    made = Fixture(Endless, Collecting, OneStream())
    thread, done = started(made)
    made.attempt.break_off(ConnectorError.internal("DEADLINE", "too late"))
    thread.join(30)
    assert done[0].error is not None and done[0].error.code == "DEADLINE"
    made.closed()


class Capturing(Numbers):
    def open(self, context: OpenContext) -> OpenInfo:
        super().open(context)
        return OpenInfo(features=[Feature.CDC])


class Deleting(Collecting):
    def open(self, context: OpenContext) -> OpenInfo:
        super().open(context)
        return OpenInfo(features=[Feature.CDC])


@pytest.mark.parametrize(
    ("source", "destination", "write", "code"),
    [
        (Numbers, Collecting, Append(), "NO_CDC"),
        (Capturing, Collecting, Append(), ""),
        (Capturing, Collecting, Upsert(["n"]), "NO_CDC"),
        (Capturing, Deleting, Upsert(["n"]), ""),
    ],
)
def test_change_data_capture_needs_the_feature(source: Any, destination: Any, write: WriteMode, code: str) -> None:
    both = OneStream()
    stream = StreamContext("users", both.run.stream.schema, SyncMode.CDC, write_mode=write)
    both.run = StreamRun(stream, both.state, both.seen, pipeline="p")
    made, outcome = attempt(source, destination, both)
    assert (outcome.error.code if outcome.error else "") == code
    made.closed()


def test_another_protocol_version_is_refused() -> None:
    class Newer(Numbers):
        def open(self, context: OpenContext) -> OpenInfo:
            super().open(context)
            return OpenInfo(protocol_version="2")

    made, outcome = attempt(Newer)
    assert outcome.error is not None and outcome.error.code == "WRONG_PROTOCOL"
    made.closed()


def test_an_error_of_close_does_not_hide_the_result(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Numbers):
        def close(self) -> None:
            super().close()
            raise OSError("close")

    made, outcome = attempt(Clumsy)
    assert outcome.error is None and "close failed" in caplog.text
    made.closed()


def emitting(folder: Path, body: str) -> Callable[[Any], Any]:
    """A source as a module, which has a batch and its checkpoint in memory."""
    batch = write_batch(rows(7))
    checkpoint = Checkpoint(1, CheckpointKind.SOURCE, "users", "n", Int64Cursor(7))
    payload = encode(CheckpointEnvelope(connector_id="w", stream_name="users", checkpoint=checkpoint))
    summary = b'{"ok":{"records_read":1,"bytes_read":0,"batches_emitted":1,"checkpoint_count":1}}'
    more = " ".join(segment(at, each) for at, each in ((20_000, batch), (28_000, summary), (30_000, payload)))
    calls = body.format(batch=len(batch), payload=len(payload))
    answer = f"(i64.const {28_000 << 32 | len(summary)})"
    path = folder / "emitting.wasm"
    path.write_bytes(module(roles=("source",), bodies={"rb_run_read": f"{calls} {answer}"}, more=more))

    class Wasm(WasmConnector):
        opened = closed = 0

        def __init__(self, host: StreamHost) -> None:
            super().__init__(path, host)

    return Wasm


EMIT = "(drop (call $rb_host_emit_batch (i32.const 20000) (i32.const {batch})))"
MARK = "(drop (call $rb_host_checkpoint (i32.const 0) (i32.const 30000) (i32.const {payload})))"


def test_a_module_feeds_a_destination_in_python(tmp_path: Path) -> None:
    made, outcome = attempt(emitting(tmp_path, EMIT + MARK))
    assert outcome.error is None and outcome.read == ReadSummary(1, 0, 1, 1)
    assert made.made["destination"].got == [7]
    assert [each.cursor_value for each in made.both.seen.safe] == [Int64Cursor(7)]


def test_a_module_that_never_ends_is_interrupted(tmp_path: Path) -> None:
    made = Fixture(emitting(tmp_path, EMIT + "(loop (br 0))"), Collecting, OneStream())
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(made.attempt()))
    thread.start()
    wait_until(lambda: made.both.run.delivered, what="its batch")
    time.sleep(0.1)  # it is in its loop by now, or will be
    made.attempt.break_off(ConnectorError.internal("DEADLINE", "too late"))
    thread.join(30)
    assert done[0].error is not None and done[0].error.code == "DEADLINE"


@pytest.mark.parametrize("where", ["start", "rb_open", "rb_run_read", "rb_close"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_module_is_interrupted_wherever_it_loops(tmp_path: Path, where: str, when: str) -> None:
    loop = "(loop (br 0)) unreachable"
    more = f"(func $endless {loop}) (start $endless)" if where == "start" else ""
    path = tmp_path / "endless.wasm"
    path.write_bytes(module(bodies={where: loop}, more=more))
    made = Fixture(lambda host: WasmConnector(path, host), Collecting, OneStream())
    late = ConnectorError.internal("DEADLINE", "too late")
    if when == "before":
        made.attempt.break_off(late)
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(made.attempt()), daemon=True)
    thread.start()
    if when == "meanwhile":
        wait_until(lambda: "source" in made.made, what="the source")
        time.sleep(0.1)  # it is in its loop by now, or will be
        made.attempt.break_off(late)
    wait_until(lambda: done, 20, what="the end of both sides")
    assert done[0].error is not None and done[0].error.code == "DEADLINE"


def test_pauses_follow_the_class_of_the_error_and_the_peers_wish() -> None:
    fast = ConnectorError.transient_db("C", "m", backoff_class=BackoffClass.FAST)
    normal, slow = ConnectorError.transient_db("C", "m"), ConnectorError.rate_limit("C", "m")
    assert [pause_s(each, 1) for each in (fast, normal, slow)] == [0.1, 1.0, 5.0]
    assert [pause_s(normal, failures) for failures in (1, 2, 3)] == [1.0, 2.0, 4.0]
    assert pause_s(slow, 100) == LONGEST_PAUSE_S
    assert pause_s(ConnectorError.rate_limit("C", "m", 250), 9) == 0.25
    assert pause_s(ConnectorError.rate_limit("C", "m", 10**30), 1) == LONGEST_WISH_S
