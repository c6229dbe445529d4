"""Tables over WebSockets: snapshots, subscriptions and changes."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from gauss.contracts.storage import Capacity, WriteFull
from gauss.stream.engine.topics.table_topic import TableTopic
from helpers.edges import Bench
from helpers.tables import open_table, record
from helpers.ws_sinks import append, join, sink


@pytest.fixture
def table() -> TableTopic:
    return TableTopic("t", open_table(), Capacity(None, None, WriteFull.DROP))


def test_a_snapshot_is_sent_once_and_closed(bench: Bench, table: TableTopic) -> None:
    append(table, record("b", 1), record("a", 1), record("b", 2))
    with join(sink(bench, table, "snapshot")) as client:
        assert list(client) == [record("a", 1).decode(), record("b", 2).decode()]
        assert client.close_code == 1000


def test_a_subscriber_gets_the_newest_snapshot_and_a_follower_the_changes(bench: Bench, table: TableTopic) -> None:
    append(table, record("a", 1), record("b", 1))
    with join(sink(bench, table, "subscribe")) as whole, join(sink(bench, table, "subscribe", "changes")) as changes:
        assert [whole.recv(30), whole.recv(30)] == [changes.recv(30), changes.recv(30)]
        append(table, record("b", 2))
        assert [whole.recv(30), whole.recv(30)] == [record("a", 1).decode(), record("b", 2).decode()]
        assert changes.recv(30) == record("b", 2).decode()


def mark(kind: str, **given: int) -> dict[str, Any]:
    return {"_snapshot": kind, **given}


def said(client: ClientConnection, count: int) -> list[Any]:
    return [json.loads(client.recv(30)) for _ in range(count)]


def rows(*records: bytes) -> list[Any]:
    return [json.loads(each) for each in records]


def test_marks_tell_where_a_snapshot_begins_and_ends(bench: Bench, table: TableTopic) -> None:
    append(table, record("a", 1), record("b", 1))
    with join(sink(bench, table, "subscribe", snapshot_marks=True)) as client:
        expected = [mark("begin", version=2), *rows(record("a", 1), record("b", 1)), mark("end", version=2, rows=2)]
        assert said(client, 4) == expected
        append(table, record("b", 2))
        expected = [mark("begin", version=3), *rows(record("a", 1), record("b", 2)), mark("end", version=3, rows=2)]
        assert said(client, 4) == expected


def test_empty_table_is_a_snapshot_of_no_rows(bench: Bench, table: TableTopic) -> None:
    with join(sink(bench, table, "snapshot", snapshot_marks=True)) as client:
        assert said(client, 2) == [mark("begin", version=0), mark("end", version=0, rows=0)]


def test_changes_come_behind_the_end_of_the_snapshot(bench: Bench, table: TableTopic) -> None:
    append(table, *(record(f"k{n:05}", 1) for n in range(3000)))
    running = sink(bench, table, "subscribe", "changes", snapshot_marks=True)
    done = threading.Event()

    def change() -> None:
        version = 2
        while not done.is_set():
            append(table, record("k00000", version))
            version += 1

    writer = threading.Thread(target=change)
    with join(running) as client:
        writer.start()
        try:
            begin = json.loads(client.recv(30))
            snapshot = []
            while "_snapshot" not in (found := json.loads(client.recv(30))):
                snapshot.append(found)
            later = said(client, 5)
        finally:
            done.set()
            writer.join()
    assert begin["_snapshot"] == "begin" and found == mark("end", version=begin["version"], rows=3000)
    assert len(snapshot) == 3000 and not any("_snapshot" in row for row in later)
