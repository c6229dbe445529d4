"""Transactions: records and position together, fences, timeouts."""

from __future__ import annotations

import json
import os
import threading
import time
from functools import partial

import psutil
import pyarrow as pa
import pytest

from gauss.clients.errors import RowError, Unclear
from gauss.clients.kafka.admin import Admin, Committed
from gauss.clients.kafka.errors import ProducerLost
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.settings import KafkaSettings
from gauss.clients.kafka.transaction import TransactionalProducer
from gauss.model.errors import ConfigError, Fenced, NotFound, Unavailable
from helpers.kafka import SecuredBroker, data_of, numbered, topic_name
from helpers.waiting import stays, suspend, wait_until

ONE = Partitioning(1)


def visible(settings: KafkaSettings, admin: Admin, topic: str) -> list[int]:
    """The numbers that a reader of committed records sees."""
    ends = admin.stable(topic, [each.number for each in admin.describe(topic).partitions])
    return [int(data) for data in data_of(CompiledReader(settings), topic, ends)]


def become_visible(settings: KafkaSettings, admin: Admin, topic: str, expected: range) -> None:
    """A commit returns before its markers are written."""
    wait_until(lambda: len(visible(settings, admin, topic)) >= len(expected), what="the markers")
    assert visible(settings, admin, topic) == list(expected)


def write(producer: TransactionalProducer, topic: str, numbers: range) -> None:
    """One transaction with the position behind the last number."""
    producer.begin()
    producer.write(topic, numbered(numbers), ONE)
    producer.position(f"of-{topic}", topic, 0, numbers.stop, {"epoch": numbers.start})
    producer.commit()


def test_records_and_position_become_visible_together(settings: KafkaSettings, admin: Admin, topic: str) -> None:
    with TransactionalProducer(settings, topic) as producer:
        for start in range(0, 300, 100):
            write(producer, topic, range(start, start + 100))
        assert admin.committed(f"of-{topic}", topic, [0]) == {0: Committed(300, '{"epoch":200}')}
        producer.begin()
        producer.write(topic, numbered(range(300, 310)), ONE)
        producer.position(f"of-{topic}", topic, 0, 310, {})
        producer.abort()
        write(producer, topic, range(300, 400))
    become_visible(settings, admin, topic, range(400))
    assert admin.committed(f"of-{topic}", topic, [0]) == {0: Committed(400, '{"epoch":300}')}


def test_metadata_of_any_length_is_read_back(settings: KafkaSettings, admin: Admin, topic: str) -> None:
    with TransactionalProducer(settings, topic) as producer:
        for length in (0, 1, 5, 13, 21, 29, 4_000):
            producer.begin()
            producer.position(f"of-{topic}", topic, 0, length, {"m": "é" * (length // 6) + "x" * (length % 6)})
            producer.commit()
            found = admin.committed(f"of-{topic}", topic, [0])[0]
            assert found.offset == length and len(json.loads(found.metadata)["m"]) == length // 6 + length % 6


def test_several_partitions_of_several_topics_are_one_transaction(settings: KafkaSettings, admin: Admin) -> None:
    topics = [admin.create(topic_name(), 3).name for _ in range(2)]

    def all_visible(topic: str) -> bool:
        return len(visible(settings, admin, topic)) == 50

    with TransactionalProducer(settings, topics[0]) as producer:
        producer.begin()
        for topic in topics:
            producer.write(topic, numbered(range(50)), Partitioning(3))
        producer.flush()
        assert [visible(settings, admin, topic) for topic in topics] == [[], []]
        producer.commit()
    for topic in topics:
        wait_until(partial(all_visible, topic), what="the markers")
        assert sorted(visible(settings, admin, topic)) == list(range(50))


def test_the_next_producer_fences_its_predecessor_and_aborts_its_transaction(
    settings: KafkaSettings, admin: Admin, topic: str
) -> None:
    first = TransactionalProducer(settings, topic)
    write(first, topic, range(10))
    first.begin()
    first.write(topic, numbered(range(10, 20)), ONE)
    first.flush()
    with TransactionalProducer(settings, topic) as second:
        position = admin.committed(f"of-{topic}", topic, [0])[0].offset
        assert position == 10
        become_visible(settings, admin, topic, range(10))
        with pytest.raises(Fenced, match="_FENCED") as raised:
            first.write(topic, numbered(range(20, 30)), ONE)
            first.commit()
        assert "read its position" in raised.value.hint
        first.close()
        write(second, topic, range(position, 20))
    become_visible(settings, admin, topic, range(20))


def test_an_idle_predecessor_learns_at_its_commit_that_it_is_fenced(
    settings: KafkaSettings, admin: Admin, topic: str
) -> None:
    with TransactionalProducer(settings, topic) as first, TransactionalProducer(settings, topic) as second:
        with pytest.raises(Fenced):
            write(first, topic, range(10))
        write(second, topic, range(5))
    become_visible(settings, admin, topic, range(5))


def test_a_transaction_that_times_out_is_recovered_by_a_new_producer(
    settings: KafkaSettings, admin: Admin, topic: str
) -> None:
    with TransactionalProducer(settings, topic, timeout_ms=1_000) as producer:
        write(producer, topic, range(10))
        producer.begin()
        producer.write(topic, numbered(range(10, 20)), ONE)
        producer.flush()
        open_at = admin.stable(topic, [0])
        wait_until(lambda: admin.stable(topic, [0]) != open_at, what="the broker's abort")
        with pytest.raises((Fenced, ProducerLost)):
            producer.commit()
    with TransactionalProducer(settings, topic) as producer:
        position = admin.committed(f"of-{topic}", topic, [0])[0].offset
        assert position == 10
        write(producer, topic, range(position, 20))
    become_visible(settings, admin, topic, range(20))


def test_a_record_that_is_too_large_aborts_and_a_new_producer_goes_on(settings: KafkaSettings, admin: Admin) -> None:
    topic = admin.create(topic_name(), config={"max.message.bytes": "10000"}).name
    with TransactionalProducer(settings, topic, compression="none", batch_bytes=9_000) as producer:
        producer.begin()
        producer.write(topic, pa.RecordBatch.from_arrays([pa.array([b"x" * 20_000])], ["data"]), ONE)
        with pytest.raises(RowError, match="MSG_SIZE_TOO_LARGE"):
            producer.commit()
    with TransactionalProducer(settings, topic, batch_bytes=9_000) as producer:
        write(producer, topic, range(5))
    become_visible(settings, admin, topic, range(5))


def test_a_position_of_a_topic_that_is_not_there_or_too_long_aborts_only(
    settings: KafkaSettings, admin: Admin, topic: str
) -> None:
    with TransactionalProducer(settings, topic) as producer:
        producer.begin()
        with pytest.raises(NotFound):
            producer.position(f"of-{topic}", topic_name(), 0, 1, {})
        producer.abort()
        producer.begin()
        with pytest.raises(ConfigError, match="expected at most 4096"):
            producer.position(f"of-{topic}", topic, 0, 1, {"too": "x" * 5_000})
        producer.abort()
        write(producer, topic, range(3))
    become_visible(settings, admin, topic, range(3))


@pytest.mark.parametrize("call", ["position", "commit"])
def test_a_broker_that_stops_to_answer_is_not_waited_for_for_ever(
    kafka: SecuredBroker, admin: Admin, topic: str, call: str
) -> None:
    producer = TransactionalProducer(kafka.settings.model_copy(update={"request_timeout": 1_000}), topic)
    write(producer, topic, range(10))
    producer.begin()
    producer.write(topic, numbered(range(10, 20)), ONE)
    producer.flush()
    broker = psutil.Process(kafka.broker.pid)
    suspend(broker)
    try:
        began = time.monotonic()
        with pytest.raises(Unavailable) as raised:
            producer.position(f"of-{topic}", topic, 0, 20, {}) if call == "position" else producer.commit()
        assert time.monotonic() - began < 10 and isinstance(raised.value, Unclear) == (call == "commit")
        producer.close()
    finally:
        broker.resume()
    with TransactionalProducer(kafka.settings, topic) as producer:
        position = admin.committed(f"of-{topic}", topic, [0])[0].offset
        seen = visible(kafka.settings, admin, topic)
        assert position == 10 and seen in ([*range(10)], [*range(20)]), "a commit without its position may have passed"
        write(producer, topic, range(len(seen), 20))
    become_visible(kafka.settings, admin, topic, range(20))


def test_closing_ends_a_commit_that_waits_in_another_thread(kafka: SecuredBroker, topic: str) -> None:
    producer = TransactionalProducer(kafka.settings, topic)
    producer.begin()
    producer.write(topic, numbered(range(10)), ONE)
    producer.flush()
    errors: list[Exception] = []

    def commit() -> None:
        try:
            producer.commit()
        except Unclear as error:
            errors.append(error)

    broker = psutil.Process(kafka.broker.pid)
    suspend(broker)
    try:
        waiting = threading.Thread(target=commit, daemon=True)
        waiting.start()
        stays(waiting.is_alive, 0.2)
        producer._seconds = 1.0  # for the close, which tries to abort
        producer.close()
        waiting.join(10)
    finally:
        broker.resume()
    assert not waiting.is_alive() and "closed" in str(errors[0])


def test_a_process_that_is_killed_in_a_transaction_leaves_nothing_visible(
    settings: KafkaSettings, admin: Admin, topic: str
) -> None:
    """The same as a close without abort: the handle is gone, the broker keeps the transaction open."""
    child = os.fork()
    if not child:
        try:
            producer = TransactionalProducer(settings, topic)
            write(producer, topic, range(10))
            producer.begin()
            producer.write(topic, numbered(range(10, 20)), ONE)
            producer.flush()
        finally:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with TransactionalProducer(settings, topic) as producer:
        position = admin.committed(f"of-{topic}", topic, [0])[0].offset
        write(producer, topic, range(position, 20))
    assert position == 10
    become_visible(settings, admin, topic, range(20))
