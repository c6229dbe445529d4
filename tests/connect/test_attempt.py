"""A source and a destination in one attempt: both end when either ends or fails."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.attempt import LONGEST_PAUSE_S, LONGEST_WISH_S, Outcome, pause_s
from gauss.connect.host import StreamHost
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import BackoffClass, ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import OpenContext, OpenInfo
from gauss.contracts.connector.progress import ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext
from gauss.model.errors import ConfigError, StorageError, Unavailable
from helpers.attempts import AttemptOf, Collecting, Endless, Numbers, Plain, attempt
from helpers.connectors import OneStream, rows
from helpers.waiting import wait_until


def test_attempt_writes_all_rows_and_moves_the_cursor_to_the_last_batch() -> None:
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
def test_any_exception_of_a_connector_ends_both_sides_with_a_typed_error(
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
def test_connector_that_ends_abnormally_ends_the_other_side(wrong: Any, role: str) -> None:
    made = AttemptOf(
        wrong if role == "source" else Endless, wrong if role == "destination" else Collecting, OneStream()
    )
    done: list[Outcome] = []
    threading.Thread(target=lambda: done.append(made.attempt()), daemon=True).start()
    wait_until(lambda: done, 20, what="the end of both sides")
    assert done[0].error is not None and done[0].error.category is ErrorCategory.INTERNAL
    made.closed()


def test_destination_that_returns_before_the_end_is_an_error() -> None:
    class Hasty(Plain):
        def run_write(self, stream: StreamContext) -> WriteSummary:  # noqa: ARG002
            self.host.next_batch()
            return WriteSummary()

    made, outcome = attempt(Endless, Hasty)
    assert outcome.error is not None and outcome.error.code == "ENDED_EARLY"
    made.closed()


def test_return_value_that_is_no_summary_is_ignored() -> None:
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


def test_destination_that_continues_after_an_error_skips_no_rows() -> None:
    def refuse_three(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.column(0).to_pylist() == [3]:
            raise ConnectorError.data("BAD", "3 is bad")
        return batch

    both = OneStream()
    both.run.program = refuse_three
    made, outcome = attempt(destination=Stubborn, both=both)
    assert outcome.error is not None and outcome.error.code == "BAD"
    assert made.made["destination"].got == [1, 2] and both.seen.safe[-1].cursor_value == Int64Cursor(2)


def test_retry_pause_follows_the_backoff_class_and_retry_after() -> None:
    fast = ConnectorError.transient_db("C", "m", backoff_class=BackoffClass.FAST)
    normal, slow = ConnectorError.transient_db("C", "m"), ConnectorError.rate_limit("C", "m")
    assert [pause_s(each, 1) for each in (fast, normal, slow)] == [0.1, 1.0, 5.0]
    assert [pause_s(normal, failures) for failures in (1, 2, 3)] == [1.0, 2.0, 4.0]
    assert pause_s(slow, 100) == LONGEST_PAUSE_S
    assert pause_s(ConnectorError.rate_limit("C", "m", 250), 9) == 0.25
    assert pause_s(ConnectorError.rate_limit("C", "m", 10**30), 1) == LONGEST_WISH_S
