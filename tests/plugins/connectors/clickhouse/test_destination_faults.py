"""Servers that stop and restart, lost answers, and error categories."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from gauss.clients.clickhouse import publish, stages
from gauss.clients.clickhouse.errors import sort_error
from gauss.clients.clickhouse.server import address_of
from gauss.clients.clickhouse.sync_log import EntryKind, SyncLog
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.endpoint import Endpoint
from gauss.clients.errors import Unclear
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import CommitState, ConnectorError, ErrorCategory
from gauss.contracts.connector.stream import Append, Replace, WriteMode
from gauss.plugins.connectors.clickhouse import destination_publish, destination_writer
from gauss.plugins.connectors.clickhouse.destination_errors import destination_error
from gauss.plugins.connectors.clickhouse.destination_spec import ClickHouseDestinationConfig
from helpers.destinations import FULL, batch, emit
from plugins.connectors.clickhouse.writing import DestinationFixture


@pytest.mark.parametrize("took_place", [False, True], ids=["before", "after"])
def test_watermark_tells_whether_a_commit_without_an_answer_took_place(
    destination: DestinationFixture, monkeypatch: pytest.MonkeyPatch, took_place: bool
) -> None:
    append = SyncLog.append

    def lost(self: SyncLog, client: Any, entry: Any, state: Any) -> bool:
        if entry.kind is not EntryKind.COMMIT or not entry.publishing.stages:
            return append(self, client, entry, state)
        if took_place:
            append(self, client, entry, state)
        raise Unclear("the answer was lost")

    monkeypatch.setattr(SyncLog, "append", lost)
    with pytest.raises(ConnectorError) as caught:
        destination.write([batch(a=[1])])
    assert (caught.value.category, caught.value.safe_to_retry) == (ErrorCategory.TRANSIENT_DB, False)
    assert caught.value.commit_state is CommitState.AFTER_COMMIT_UNKNOWN
    monkeypatch.undo()
    stream = destination.stream()
    run, _ = destination.start(stream, 2)
    asked = destination.open(run)
    destination.prepare(asked, stream, batch(a=[1]).schema, 2)
    assert asked.watermark(stream, "") == Watermark(
        1, *((1, Int64Cursor(1)) if took_place else (0, Int64Cursor(0))), False
    )
    assert destination.rows() == ([(1,)] if took_place else []) and destination.stages() == []


def test_a_column_that_is_dropped_during_a_refresh_is_an_error_of_the_schema(destination: DestinationFixture) -> None:
    stream = destination.stream(FULL, Replace())
    destination.write([batch(a=[1], b=["x"])], stream)
    destination.write([batch(a=[2], b=["y"])], stream, generation=2, finish=False)
    destination.run_sql(f"ALTER TABLE {destination.database}.t DROP COLUMN b")
    run, _ = destination.start(stream, 2)
    with pytest.raises(ConnectorError) as caught:
        destination.open(run).finish(stream, 2)
    assert caught.value.category is ErrorCategory.SCHEMA and "start the sync again" in caught.value.hint
    destination.write([batch(a=[3], b=["z"])], stream, generation=3)
    assert destination.rows() == [(3, "z")]


@pytest.mark.parametrize("write", [Append(), Replace()], ids=["append", "replace"])
@pytest.mark.parametrize("took_place", [False, True], ids=["before", "after"])
def test_finish_without_an_answer_is_repeated(
    destination: DestinationFixture, monkeypatch: pytest.MonkeyPatch, write: WriteMode, took_place: bool
) -> None:
    monkeypatch.setattr("gauss.plugins.connectors.clickhouse.destination.PAUSE_SECONDS", 0)
    stream = destination.stream(FULL, write)
    destination.write([batch(a=[1])], stream)
    if isinstance(write, Append):
        lost = _Once(took_place, publish._insert)
        monkeypatch.setattr(publish, "_insert", lost)
    else:
        lost = _Once(took_place, stages.run)  # of the exchange
        monkeypatch.setattr(destination_publish, "run", lost)
    destination.write([batch(a=[2])], stream, generation=2)
    assert lost.count == 1
    assert destination.rows() == ([(1,), (2,)] if isinstance(write, Append) else [(2,)])
    assert destination.stages() == []


class _Once:
    """A function that loses the answer of its first call."""

    def __init__(self, took_place: bool, function: Callable[..., None]) -> None:
        self._took_place, self._function = took_place, function
        self.count = 0

    def __call__(self, *args: Any) -> None:
        first, self.count = not self.count, 1
        if self._took_place or not first:
            self._function(*args)
        if first:
            raise Unclear("the answer was lost")


class Server:
    """A server that can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: EmbeddedServer = ensure("clickhouse", directory)
        self.endpoint: Endpoint = self._running.endpoint

    def kill(self) -> None:
        process = self._running.process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def start(self) -> None:
        self._running = ensure("clickhouse", self._directory, port=self.endpoint.port)

    def stop(self) -> None:
        self._running.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server")
    yield made
    made.stop()


@pytest.mark.fault
def test_server_killed_after_the_commit_has_every_row_once_after_its_restart(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = DestinationFixture(server.endpoint.url, "landing")
    destination.write([batch(a=[1])])

    def killed(*args: Any) -> None:
        server.kill()
        publish.publish(*args)

    monkeypatch.setattr(destination_writer, "publish", killed)
    with pytest.raises(ConnectorError) as caught:
        destination.write([batch(a=[2]), batch(a=[3])], generation=2)
    assert caught.value.retryable and caught.value.commit_state is CommitState.AFTER_COMMIT_CONFIRMED
    monkeypatch.undo()
    stream = destination.stream()
    run, source = destination.start(stream, 3)
    with pytest.raises(ConnectorError) as caught:
        destination.open(run)
    assert caught.value.category is ErrorCategory.TRANSIENT_NETWORK
    server.start()
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema, 3)
    assert made.watermark(stream, "") == Watermark(2, 1, Int64Cursor(1), False)
    assert destination.rows() == [(1,), (2,)]
    emit(source, [batch(a=[3])], first=1)
    made.run_write(stream)
    assert destination.rows() == [(1,), (2,), (3,)] and destination.stages() == []
    destination.close()


def test_wrong_password_is_an_auth_error_without_the_password(clickhouse: Endpoint) -> None:
    wrong = DestinationFixture(f"http://default:s3cret-pw@127.0.0.1:{clickhouse.port}/default", "d")
    run, _ = wrong.start(wrong.stream())
    with pytest.raises(ConnectorError) as caught:
        wrong.open(run)
    assert (caught.value.category, caught.value.retryable) == (ErrorCategory.AUTH, False)
    assert "s3cret" not in str(caught.value) + caught.value.hint


def test_table_dropped_during_a_run_is_a_schema_error(destination: DestinationFixture) -> None:
    destination.write([batch(a=[1])])
    destination.run_sql(f"DROP TABLE {destination.database}.t SYNC")
    with pytest.raises(ConnectorError) as caught:
        destination.write([batch(a=[2])], prepare=False)
    assert (caught.value.category, caught.value.code) == (ErrorCategory.SCHEMA, "NO_TABLE")


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (516, ErrorCategory.AUTH),
        (497, ErrorCategory.PERMISSION),
        (164, ErrorCategory.PERMISSION),
        (60, ErrorCategory.SCHEMA),
        (81, ErrorCategory.CONFIG),
        (241, ErrorCategory.TRANSIENT_DB),
        (252, ErrorCategory.TRANSIENT_DB),
        (209, ErrorCategory.TRANSIENT_DB),
        (243, ErrorCategory.TRANSIENT_DB),
        (349, ErrorCategory.DATA),
    ],
)
def test_server_error_has_a_category(code: int, category: ErrorCategory) -> None:
    given = DatabaseError(f"Code: {code}. DB::Exception: something. (NAME)")
    found = sort_error(given)
    found.__cause__ = given
    assert destination_error(found).category is category


@pytest.mark.parametrize(
    "dsn", ["clickhouse://h/d", "http:///d", "http://u:p@ss@h/d", "http://h/d?x=1", "localhost:8123"]
)
def test_invalid_dsn_is_refused_without_showing_it(dsn: str) -> None:
    run, _ = DestinationFixture(dsn, "d").start(DestinationFixture(dsn, "d").stream())
    with pytest.raises(ConnectorError, match="the dsn can't be read") as caught:
        DestinationFixture(dsn, "d").open(run)
    assert dsn not in str(caught.value)


def test_percent_encoded_parts_of_a_dsn_are_decoded() -> None:
    config = ClickHouseDestinationConfig(dsn="https://us%40er:p%3Aw@host/my%20db")
    found = address_of(config)
    assert (found.host, found.port, found.user, found.password, found.secure) == ("host", 8443, "us@er", "p:w", True)
    assert config.target_database == "my db"
