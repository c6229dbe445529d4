"""Attempts that are drained or aborted while they run."""

from __future__ import annotations

import pytest

from gauss.connect.host import StreamHost
from gauss.contracts.connector.errors import ConnectorError
from helpers.attempts import AttemptOf, Collecting, Endless, attempt, started
from helpers.connectors import OneStream


def test_drained_stream_writes_all_emitted_rows_and_succeeds() -> None:
    made = AttemptOf(Endless, Collecting, OneStream())
    thread, done = started(made)
    made.attempt.drain()
    thread.join(30)
    assert done[0].error is None and done[0].write is not None
    written = done[0].write.records_written
    assert made.made["destination"].got == list(range(1, written + 1))
    assert written == made.both.run.emitted
    made.closed()


def test_stream_drained_as_its_source_ends_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    def drained_meanwhile(host: StreamHost) -> bool:
        before = host._run.cancel.is_set()
        host._run.drain()
        return before

    monkeypatch.setattr(StreamHost, "cancelled", drained_meanwhile)
    made, outcome = attempt()
    assert outcome.error is None and made.made["destination"].got == [1, 2, 3, 4, 5]
    made.closed()


def test_aborted_stream_ends_with_the_given_error() -> None:
    made = AttemptOf(Endless, Collecting, OneStream())
    thread, done = started(made)
    made.attempt.break_off(ConnectorError.internal("DEADLINE", "too late"))
    thread.join(30)
    assert done[0].error is not None and done[0].error.code == "DEADLINE"
    made.closed()
