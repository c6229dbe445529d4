"""A table on a socket: finite snapshots, conflated subscriptions, and changes that restart when a client is too far
behind."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gauss import registry
from gauss.contracts.cursor import Step
from gauss.contracts.edge import EdgeContext, EdgeStatus
from gauss.contracts.processor import LintContext, ProcessorSpec
from gauss.contracts.storage import Capacity, WriteFull
from gauss.plugins.processors.tcp_sink import table_client
from gauss.scan.tasks import TaskCursor
from gauss.stream.engine.topics.table_topic import TableTopic
from helpers.edges import Running, transport
from helpers.logs import arrow, framing
from helpers.tables import open_table, record
from helpers.waiting import wait_until


@pytest.fixture
def topic() -> TableTopic:
    table = open_table(tail_bytes="64KiB")
    return TableTopic("t", table, Capacity(None, None, WriteFull.DROP))


def sink(topic: TableTopic, folder: Path, read: str, subscribe: str = "snapshots", **given: Any) -> Running:
    spec = registry.spec(ProcessorSpec, "tcp-sink")
    config = spec.validate({"port": 0, "output": {"framing": "newline"}, **given})
    context = EdgeContext(
        name="sink",
        config=config,
        topic=topic,
        framing=framing("newline"),
        transport=transport("tcp-server", {"port": 0}, folder),
        dead=lambda letter: pytest.fail(letter.detail),
        may_read=lambda: True,
        status=EdgeStatus(),
        stopping=threading.Event(),
        read=read,
        subscribe=subscribe,
    )
    running = Running(registry.build(spec, context), context)
    running.edge.start()
    return running


def lines(sock: socket.socket, count: int) -> list[bytes]:
    with sock.makefile("rb") as stream:
        return [stream.readline().rstrip(b"\n") for _ in range(count)]


def test_snapshot_ends_with_the_connection(topic: TableTopic, tmp_path: Path) -> None:
    topic.append(arrow(record("b", 1), record("a", 1), record("b", 2)))
    running = sink(topic, tmp_path, "snapshot")
    for _ in range(2):
        with running.connect() as sock, sock.makefile("rb") as stream:
            assert stream.read() == record("a", 1) + b"\n" + record("b", 2) + b"\n"
    running.edge.close()
    assert topic.source.open_cursors() == 0


def test_snapshot_that_is_refused_in_its_middle_gets_no_end(
    topic: TableTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.append(arrow(record("a", 1), record("b", 1)))
    monkeypatch.setattr(table_client, "STEP", Step(limit=1))
    sent = table_client.TableClient._send_rows

    def refuse(client: table_client.TableClient, cursor: TaskCursor) -> None:
        sent(client, cursor)
        cursor._executor.reject()

    monkeypatch.setattr(table_client.TableClient, "_send_rows", refuse)
    running = sink(topic, tmp_path, "snapshot", snapshot_end="--")
    with running.connect() as sock, sock.makefile("rb") as stream:
        assert b"--" not in stream.read()
    wait_until(lambda: "refused" in running.context.status.detail, what=lambda: running.context.status)
    running.edge.close()


def test_empty_snapshot_is_an_end_without_a_byte(topic: TableTopic, tmp_path: Path) -> None:
    running = sink(topic, tmp_path, "snapshot")
    with running.connect() as sock:
        assert sock.recv(1) == b""
    running.edge.close()


def test_subscriber_gets_the_whole_table_at_every_change(topic: TableTopic, tmp_path: Path) -> None:
    topic.append(arrow(record("b"), record("a")))
    running = sink(topic, tmp_path, "subscribe")
    with running.connect() as sock:
        assert lines(sock, 2) == [record("a"), record("b")]
        topic.append(arrow(record("a", 7), record("c")))
        assert lines(sock, 3) == [record("a", 7), record("b"), record("c")]
        topic.append(arrow(record("b", gone=True)))
        assert lines(sock, 2) == [record("a", 7), record("c")]
    running.edge.close()


def test_changes_give_the_table_and_then_every_record_deletions_included(topic: TableTopic, tmp_path: Path) -> None:
    topic.append(arrow(record("b"), record("a")))
    running = sink(topic, tmp_path, "subscribe", "changes")
    with running.connect() as sock:
        assert lines(sock, 2) == [record("a"), record("b")]
        sent = [record("a", 1), record("a", 2), record("b", gone=True), record("c")]
        topic.append(arrow(*sent[:2]))
        topic.append(arrow(*sent[2:]))
        assert lines(sock, 4) == sent
    running.edge.close()


def test_reader_of_changes_too_far_behind_gets_the_whole_table_again(topic: TableTopic, tmp_path: Path) -> None:
    running = sink(topic, tmp_path, "subscribe", "changes")
    last = record("the end", 1)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect(("127.0.0.1", running.port))
        sock.settimeout(20)
        blob = "x" * 20_000
        for number in range(800):  # more than the socket buffers hold
            topic.append(arrow(record(f"k{number % 3}{blob}", number)))
        topic.append(arrow(last))
        found = b""
        while not found.endswith(last + b"\n"):
            found = found[-100:] + sock.recv(1 << 20)
        missed = max(int(str(shown.get("missed", 0))) for shown in running.status.clients.values())
        assert missed > 0
    running.edge.close()


def test_every_snapshot_ends_with_the_record_that_was_asked_for(topic: TableTopic, tmp_path: Path) -> None:
    topic.append(arrow(record("a", 1), record("b", 1)))
    running = sink(topic, tmp_path, "subscribe", snapshot_end="")
    with running.connect() as sock, sock.makefile("rb") as stream:
        assert [stream.readline() for _ in range(3)] == [record("a", 1) + b"\n", record("b", 1) + b"\n", b"\n"]
        topic.append(arrow(record("b", 2)))
        assert [stream.readline() for _ in range(3)] == [record("a", 1) + b"\n", record("b", 2) + b"\n", b"\n"]
    running.edge.close()


def test_end_of_an_empty_snapshot_is_told(topic: TableTopic, tmp_path: Path) -> None:
    running = sink(topic, tmp_path, "snapshot", snapshot_end="--")
    with running.connect() as sock, sock.makefile("rb") as stream:
        assert stream.read() == b"--\n"
    running.edge.close()


def test_changes_follow_the_end_of_the_snapshot(topic: TableTopic, tmp_path: Path) -> None:
    topic.append(arrow(record("a", 1)))
    running = sink(topic, tmp_path, "subscribe", "changes", snapshot_end="--")
    with running.connect() as sock, sock.makefile("rb") as stream:
        assert [stream.readline() for _ in range(2)] == [record("a", 1) + b"\n", b"--\n"]
        topic.append(arrow(record("a", 2)))
        assert stream.readline() == record("a", 2) + b"\n"
    running.edge.close()


@pytest.mark.parametrize(
    ("output", "mark"),
    [
        ({"framing": "newline"}, "a\nb"),
        ({"framing": "newline", "delimiter": "|"}, "a|"),
        ({"framing": "fixed_size", "frame_size": 4}, "----"),
        ({"framing": "arrow_ipc_streaming"}, "--"),
    ],
)
def test_end_mark_that_the_framing_can_not_carry_is_a_fault(output: dict[str, Any], mark: str) -> None:
    with pytest.raises(ValueError, match='"snapshot_end"'):
        registry.spec(ProcessorSpec, "tcp-sink").validate({"port": 0, "output": output, "snapshot_end": mark})


@pytest.mark.parametrize(
    ("plugin", "given", "key"),
    [
        ("tcp-sink", {"output": {"framing": "newline"}, "snapshot_end": ""}, "snapshot_end"),
        ("ws-sink", {"snapshot_marks": True}, "snapshot_marks"),
    ],
)
@pytest.mark.parametrize(
    ("read", "fits"), [("offset", False), ("latest", False), ("snapshot", True), ("subscribe", True)]
)
def test_marks_have_no_meaning_without_snapshots(
    plugin: str, given: dict[str, Any], key: str, read: str, fits: bool
) -> None:
    spec = registry.spec(ProcessorSpec, plugin)
    assert spec.lint is not None
    told = spec.lint(spec.validate({"port": 0, **given}), LintContext(None, read=read))
    assert [key in fault for fault in told] == ([] if fits else [True])


def test_stopping_sink_drains_its_subscribers(topic: TableTopic, tmp_path: Path) -> None:
    topic.append(arrow(record("a")))
    for subscribe in ("snapshots", "changes"):
        running = sink(topic, tmp_path, "subscribe", subscribe)
        with running.connect() as sock, sock.makefile("rb") as stream:
            assert stream.readline().rstrip(b"\n") == record("a")
            began = time.monotonic()
            running.edge.drain(60)
            assert time.monotonic() - began < 50  # it does not wait for the timeout
            assert stream.read() == b""
        running.edge.close()


@pytest.mark.parametrize("read", ["snapshot", "subscribe"])
def test_start_has_no_meaning_for_a_table(read: str) -> None:
    spec = registry.spec(ProcessorSpec, "tcp-sink")
    config = spec.validate({"port": 1, "start": "end", "output": {"framing": "newline"}})
    assert spec.lint is not None
    told = spec.lint(config, LintContext(input_fields=None, read=read, start=None))
    assert ["does not apply" in sentence for sentence in told] == [True]
