"""Killed writers, servers that stop and lost answers: no rows are lost or duplicated."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import CommitState, ConnectorError, ErrorCategory
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind
from gauss.contracts.connector.stream import Append, Replace, SyncMode, Upsert, WriteMode
from gauss.model.errors import GaussError
from helpers.destinations import FULL, INCREMENTAL, batch, emit
from helpers.postgres_destination import DestinationFixture
from helpers.proxy import Proxy

BATCH, BATCHES, KILLS = 50, 50, 4
PAUSE_S = 0.006
"""Between two batches: ten times this is the longest time until a kill, so that a run is never complete before it."""
MODES: dict[str, tuple[SyncMode, WriteMode]] = {
    "append": (INCREMENTAL, Append()),
    "upsert": (INCREMENTAL, Upsert(["a"])),
    "replace": (FULL, Replace()),
}


@pytest.fixture
def destination(postgres: Endpoint, schema: str) -> Iterator[DestinationFixture]:
    made = DestinationFixture(postgres, schema)
    yield made
    made.close()


def resume(url: str, schema: str, mode: str, generation: int) -> None:
    """A run that continues where the watermark is: numbered rows from its cursor on, a checkpoint after each batch."""
    destination = DestinationFixture(url, schema)
    stream = destination.stream(*MODES[mode])
    run, source = destination.start(stream, generation)
    made = destination.open(run)
    found = made.watermark(stream, "")
    begin = 0
    if found is not None and stream.sync_mode is INCREMENTAL:
        assert isinstance(found.cursor, Int64Cursor)
        begin = found.cursor.value
    destination.prepare(made, stream, batch(a=[0], b=["x"]).schema, generation)
    print("ready", flush=True)

    def read() -> None:
        number = 0
        for start in range(begin, BATCH * BATCHES, BATCH):
            number += 1
            numbers = range(start, start + BATCH)
            source.emit_batch(batch(a=list(numbers), b=[f"row {each}" for each in numbers]))
            cursor = Int64Cursor(start + BATCH)
            source.checkpoint(Checkpoint(number, CheckpointKind.SOURCE, stream.stream_name, "a", cursor))
            time.sleep(PAUSE_S)
        if not number:
            source.checkpoint(Checkpoint(0, CheckpointKind.SOURCE, stream.stream_name, "a", Int64Cursor(begin)))
        source.end()

    threading.Thread(target=read, daemon=True).start()
    made.run_write(stream)
    made.finish(stream, generation)
    made.close()
    print("done", flush=True)


@pytest.mark.fault
@pytest.mark.parametrize("mode", MODES)
def test_killed_writer_loses_and_duplicates_no_rows(
    postgres: Endpoint, schema: str, destination: DestinationFixture, mode: str
) -> None:
    chance = random.Random(mode)
    paths = os.pathsep.join(str(Path(each).resolve()) for each in sys.path if each)
    for generation in range(1, KILLS + 2):
        arguments = (postgres.url, schema, mode, generation)
        child = subprocess.Popen(
            [sys.executable, "-c", f"import runpy; runpy.run_path({__file__!r})['resume'](*{arguments!r})"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        is_last = generation > KILLS
        if not is_last:
            time.sleep(chance.uniform(0, PAUSE_S * 10))  # at most ten batches
            child.kill()
        rest = child.stdout.read()
        child.stdout.close()
        assert (child.wait(60), rest) == ((0, "done\n") if is_last else (-signal.SIGKILL, ""))
    assert destination.rows() == [(number, f"row {number}") for number in range(BATCH * BATCHES)]


class Cutting(Proxy):
    """A proxy that cuts the connection when the client sends COMMIT: before the server gets it, or after its answer."""

    def __init__(self, target: int, *, after: bool) -> None:
        self.armed = False
        self._after, self._cut = after, threading.Event()
        super().__init__(target, host="127.0.0.1")

    def _copy(self, source: socket.socket, target: socket.socket, to_server: bool) -> None:
        while data := source.recv(65_536):
            if to_server and self.armed and b"COMMIT\0" in data:
                self.armed = False
                self._cut.set()
                if not self._after:
                    return
            elif not to_server and self._cut.is_set():
                return  # the answer to COMMIT, which took place
            target.sendall(data)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_watermark_tells_whether_a_commit_without_an_answer_took_place(
    postgres: Endpoint, schema: str, destination: DestinationFixture, after: bool
) -> None:
    proxy = Cutting(postgres.port, after=after)
    through = DestinationFixture(postgres.url.replace(f":{postgres.port}/", f":{proxy.port}/"), schema)
    stream = destination.stream()
    run, source = through.start(stream)
    made = through.open(run)
    through.prepare(made, stream, batch(a=[1]).schema, 1)
    source.emit_batch(batch(a=[1]))
    source.checkpoint(Checkpoint(1, CheckpointKind.SOURCE, stream.stream_name, "a", Int64Cursor(1)))
    source.end()
    proxy.armed = True
    with pytest.raises(ConnectorError) as caught:
        made.run_write(stream)
    through.close()
    proxy.close()
    assert caught.value.commit_state is CommitState.AFTER_COMMIT_UNKNOWN
    assert (caught.value.category, caught.value.safe_to_retry) == (ErrorCategory.TRANSIENT_DB, False)
    assert run.correlation.committed is None
    again, _ = destination.start(stream)
    asked = destination.open(again)
    deadline = time.monotonic() + 10  # the server may still be at it
    while (found := asked.watermark(stream, "")) is None and after and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == (Watermark(1, 1, Int64Cursor(1), False) if after else None)
    assert destination.rows() == ([(1,)] if after else [])


def test_finish_without_an_answer_can_be_repeated(
    postgres: Endpoint, schema: str, destination: DestinationFixture
) -> None:
    proxy = Cutting(postgres.port, after=True)
    through = DestinationFixture(postgres.url.replace(f":{postgres.port}/", f":{proxy.port}/"), schema)
    stream = destination.stream(FULL, Append())
    through.write([batch(a=[1])], stream, finish=False)
    run, _ = through.start(stream)
    made = through.open(run)
    proxy.armed = True
    with pytest.raises(ConnectorError) as caught:
        made.finish(stream, 1)
    through.close()
    proxy.close()
    assert caught.value.commit_state is CommitState.AFTER_COMMIT_UNKNOWN
    destination.open(run).finish(stream, 1)
    assert destination.rows() == [(1,)]


@pytest.mark.parametrize("setting", ["statement_timeout", "transaction_timeout"])
def test_time_limits_of_the_user_do_not_end_a_write(
    destination: DestinationFixture, connection: Connection, schema: str, setting: str
) -> None:
    connection.execute(f"CREATE TABLE {schema}.t (a bigint CHECK (pg_sleep(0.1)::text IS NOT NULL))".encode())
    dsn = f"{destination.config['dsn']}?options=-c%20{setting}%3D250"
    destination.write([batch(a=[1, 2, 3, 4])], dsn=dsn)
    assert len(destination.rows()) == 4


def test_connection_lost_before_commit_is_a_transient_error_and_writes_no_rows(
    destination: DestinationFixture, connection: Connection
) -> None:
    stream = destination.stream()
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema, 1)
    emit(source, [batch(a=[1]), batch(a=[2])])
    real, calls = run.channel.get, 0

    def get() -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:  # the second batch: the first is committed
            connection.execute("SELECT pg_terminate_backend(%s)", [made._connection.info.backend_pid])
        return real()

    run.channel.get = get  # type: ignore[method-assign]
    with pytest.raises(ConnectorError) as caught:
        made.run_write(stream)
    assert caught.value.retryable and caught.value.commit_state is None
    assert destination.rows() == [(1,)]
    assert run.observer.safe[-1].id == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "category"),
    [
        ({"dsn": "postgresql://postgres:sEcret@127.0.0.1:{port}/postgres"}, ErrorCategory.AUTH),
        ({"dsn": "postgresql://postgres:{password}@127.0.0.1:{port}/none"}, ErrorCategory.CONFIG),
        ({"dsn": "postgresql://postgres:sEcret@127.0.0.1:1/postgres"}, ErrorCategory.TRANSIENT_NETWORK),
        ({"dsn": "postgresql://sEcret@host@other/sEcret"}, ErrorCategory.CONFIG),
        ({"dsn": None, "host": "x", "port": "sEcret"}, ErrorCategory.CONFIG),
        ({"lode": "sEcret"}, ErrorCategory.CONFIG),
        ({"schema": "x" * 64}, ErrorCategory.CONFIG),
    ],
)
def test_error_of_open_has_a_category_and_no_secret(
    destination: DestinationFixture, postgres: Endpoint, change: dict[str, Any], category: ErrorCategory
) -> None:
    given = {
        key: value.format(port=postgres.port, password=postgres.password) if isinstance(value, str) else value
        for key, value in change.items()
    }
    run, _ = destination.start(destination.stream())
    with pytest.raises(ConnectorError) as caught:
        destination.open(run, **given)
    assert caught.value.category is category
    for text in (caught.value.message, caught.value.hint, repr(caught.value.details)):
        assert "sEcret" not in text and postgres.password not in text


@pytest.mark.parametrize(
    ("statement", "category"),
    [
        ("DROP TABLE {schema}.t", ErrorCategory.SCHEMA),
        ("ALTER TABLE {schema}.t DROP COLUMN b", ErrorCategory.SCHEMA),
        ("ALTER TABLE {schema}.t RENAME TO other", ErrorCategory.SCHEMA),
    ],
)
def test_table_that_changes_between_commits_is_a_typed_error(
    destination: DestinationFixture, connection: Connection, schema: str, statement: str, category: ErrorCategory
) -> None:
    stream = destination.stream()
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1], b=["x"]).schema, 1)
    connection.execute(statement.format(schema=schema).encode())
    emit(source, [batch(a=[1], b=["x"])])
    with pytest.raises(ConnectorError) as caught:
        made.run_write(stream)
    assert caught.value.category is category


def test_column_that_changes_its_type_between_commits_is_never_misread(
    destination: DestinationFixture, connection: Connection, schema: str
) -> None:
    stream = destination.stream()
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema, 1)
    connection.execute(f"ALTER TABLE {schema}.t ALTER COLUMN a TYPE double precision".encode())
    emit(source, [batch(a=[1, 2])])
    made.run_write(stream)
    assert destination.rows() == [(1.0,), (2.0,)]


def test_interrupted_statement_ends(destination: DestinationFixture, connection: Connection, schema: str) -> None:
    stream = destination.stream()
    run, source = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, batch(a=[1]).schema, 1)
    emit(source, [batch(a=[1])])
    failed: list[GaussError] = []

    def write() -> None:
        try:
            made.run_write(stream)
        except GaussError as error:
            failed.append(error)

    with connection.transaction():
        connection.execute(f"LOCK TABLE {schema}.t".encode())
        thread = threading.Thread(target=write)
        thread.start()
        while not connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
            time.sleep(0.01)
        made.interrupt()
        thread.join(20)
    assert len(failed) == 1 and not thread.is_alive()


def test_two_destinations_prepare_one_schema_concurrently(destination: DestinationFixture, postgres: Endpoint) -> None:
    errors: list[Exception] = []

    def one(number: int) -> None:
        own = DestinationFixture(postgres, destination.schema)
        try:
            own.write([batch(a=[number])], own.stream(name=f"t{number}"))
        except (GaussError, psycopg.Error, pa.ArrowInvalid) as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert [destination.rows(f"t{number}") for number in range(4)] == [[(number,)] for number in range(4)]
