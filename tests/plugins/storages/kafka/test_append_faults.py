"""What the engine appends to a Kafka topic whose broker stops to answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gauss.contracts.chunk import Chunk
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import GaussError, Unavailable
from gauss.plugins.storages.kafka.shared_log import KafkaLog
from gauss.stream.engine.delivery.transaction import Transaction
from gauss.stream.engine.journal.entries import Pulled
from gauss.stream.engine.topics.log_topic import LogTopic
from helpers.delivery import Delivery
from helpers.kafka import NOW, SecuredBroker
from helpers.kafka_topics import Topics, end_now
from helpers.logs import arrow, data, put
from helpers.waiting import stays, suspend, wait_until


@contextmanager
def suspended(kafka: SecuredBroker) -> Iterator[None]:
    process = psutil.Process(kafka.broker.pid)
    suspend(process)
    try:
        yield
    finally:
        process.resume()


class Writer(threading.Thread):
    """An edge or a sync that writes, or another user of topics."""

    def __init__(self, write: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._write = write
        self.error: GaussError | None = None
        self.start()

    def run(self) -> None:
        try:
            self._write()
        except GaussError as error:
            self.error = error


def appending(topic: LogTopic, chunk: Chunk) -> Writer:
    return Writer(lambda: topic.append(chunk))


def opened(topics: Topics, kafka: SecuredBroker) -> tuple[KafkaLog, LogTopic]:
    log = topics.open(kafka.topic(partitions=1, request_timeout="2s"))
    put(log, arrow(b"first", ts_ms=NOW))  # its producer is connected
    return log, LogTopic("t", log, Capacity(None, None, WriteFull.BLOCK))


def test_topic_is_maintained_while_an_append_waits_for_brokers(topics: Topics, kafka: SecuredBroker) -> None:
    """The thread that maintains it also syncs the files of other topics, and looks for space on the disk."""
    log, topic = opened(topics, kafka)
    with suspended(kafka):
        append = appending(topic, arrow(b"second", ts_ms=NOW))
        stays(append.is_alive, 0.3)
        maintained = Writer(topic.maintain)
        maintained.join(5)
        assert not maintained.is_alive()
    append.join(30)
    assert append.error is None and data(log) == [b"first", b"second"]


def test_state_of_a_topic_is_told_while_its_broker_does_not_answer(topics: Topics, kafka: SecuredBroker) -> None:
    """Pages and commands ask for it once a second."""
    log = topics.open(kafka.topic(partitions=1))
    topic = LogTopic("t", log, Capacity(None, None, WriteFull.BLOCK))
    log.follow(topic.announce, needed=lambda: True)
    topic.append(arrow(b"first", ts_ms=NOW))
    wait_until(lambda: topic.last_ts() == NOW, 30)
    topic.append(arrow(b"second", ts_ms=NOW + 1))
    with suspended(kafka):
        asked = Writer(lambda: [topic.stats(), topic.last_ts(), topic.fill()])
        asked.join(10)
        assert not asked.is_alive()
    wait_until(lambda: topic.last_ts() == NOW + 1, 30)


def test_other_topics_of_a_commit_are_written_while_brokers_are_awaited(
    topics: Topics, kafka: SecuredBroker, tmp_path: Path
) -> None:
    log, topic = opened(topics, kafka)
    delivery = Delivery(tmp_path / "delivery")
    transaction = Transaction({"out": delivery.topics["out"], "t": topic}, delivery.ledger)
    for name, record in (("out", b"second"), ("t", b"second")):
        transaction.add(name, [arrow(record, ts_ms=NOW)])
    with suspended(kafka):
        commit = Writer(lambda: transaction.commit(lambda number, ended: Pulled(number, "source", "here", ended)))
        stays(commit.is_alive, 0.3)
        Writer(lambda: delivery.feed(b"first", topic="out")).join(5)
        assert delivery.data("out") == [b"first"] and delivery.ledger.outside("source") is None
    commit.join(30)
    assert commit.error is None and delivery.ledger.outside("source") == "here"
    assert (delivery.data("out"), data(log)) == ([b"first", b"second"], [b"first", b"second"])


def test_closing_a_topic_ends_an_append_that_waits_for_brokers(topics: Topics, kafka: SecuredBroker) -> None:
    _, topic = opened(topics, kafka)
    with suspended(kafka):
        append = appending(topic, arrow(b"second", ts_ms=NOW))
        stays(append.is_alive, 0.3)
        began = time.monotonic()
        topic.close()
        append.join(5)
        assert time.monotonic() - began < 10
        assert isinstance(append.error, Unavailable) and "closed" in append.error.message
        with pytest.raises(Unavailable, match="closed"):
            topic.append(arrow(b"third", ts_ms=NOW))
    assert topic.counters.records_in == 0


def test_record_is_acknowledged_though_brokers_are_gone_before_it_is_visible(
    topics: Topics, kafka: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its sender would send it again."""
    log, topic = opened(topics, kafka)
    process, send = psutil.Process(kafka.broker.pid), log._appender.send

    def sent(partitions: int) -> list[int]:
        found = send(partitions)
        suspend(process)
        return found

    monkeypatch.setattr(log._appender, "send", sent)
    try:
        assert topic.append(arrow(b"second", ts_ms=NOW)).accepted == 1
    finally:
        process.resume()
    wait_until(lambda: end_now(log) == 2, 30, "the record")
    assert data(log) == [b"first", b"second"]
