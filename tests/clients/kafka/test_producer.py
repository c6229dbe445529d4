"""Plain writes with acknowledgement."""

from __future__ import annotations

import threading
import time

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest

from gauss.clients.errors import RowError
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.plain_reader import PlainReader
from gauss.clients.kafka.producer import Compression, Producer
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Range
from gauss.clients.kafka.record_batches import Row, plain_batch
from gauss.clients.kafka.settings import KafkaSettings
from gauss.model.errors import NotFound, Unavailable
from gauss.process.ports import free_port
from helpers.kafka import NOW, data_of, numbered, random_records, rows_of, topic_name
from helpers.kafka import settings as made_settings
from helpers.waiting import stays

ONE = Partitioning(1)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_read_back_as_it_was_written(settings: KafkaSettings, topic: str, compression: Compression) -> None:
    records = random_records(7, 500)
    rows: list[Row] = [(number, NOW + number, *record) for number, record in enumerate(records)]
    batch = plain_batch(rows)
    with Producer(settings, compression=compression) as producer:
        producer.write(topic, batch.slice(0, 123), ONE)
        producer.write(topic, batch.slice(123), ONE)
        producer.flush()
    assert rows_of(PlainReader(settings).read(Range(topic, 0, 0, 500))) == rows


def test_records_without_a_time_get_that_of_writing(settings: KafkaSettings, topic: str) -> None:
    before = int(time.time() * 1000)
    with Producer(settings) as producer:
        producer.write(topic, numbered(range(3)), ONE)
        producer.flush()
    times = [row[1] for row in rows_of(CompiledReader(settings).read(Range(topic, 0, 0, 3)))]
    assert all(before <= each <= int(time.time() * 1000) for each in times)


def test_keys_go_to_the_partition_of_other_clients(settings: KafkaSettings, admin: Admin) -> None:
    topics = [admin.create(topic_name(), 5).name for _ in range(2)]
    with Producer(settings) as producer:
        producer.write(topics[0], numbered(range(300)), Partitioning(5))
        producer.flush()
    other = confluent_kafka.Producer({"bootstrap.servers": settings.brokers[0], "partitioner": "murmur2_random"})
    for number in range(300):
        other.produce(topics[1], b"%d" % number, b"%d" % number)
    other.flush()
    ours, theirs = (
        [
            data_of(CompiledReader(settings), topic, {number: end})
            for number, end in admin.latest(topic, range(5)).items()
        ]
        for topic in topics
    )
    assert ours == theirs and all(ours)


def test_a_partition_is_chosen_by_the_caller(settings: KafkaSettings, admin: Admin) -> None:
    topic = admin.create(topic_name(), 3).name
    with Producer(settings) as producer:
        producer.write(topic, numbered(range(6)), np.array([2, 2, 0, 2, 0, 0]))
        producer.flush()
    assert admin.latest(topic, range(3)) == {0: 3, 1: 0, 2: 3}
    assert data_of(CompiledReader(settings), topic, {2: 3}) == [b"0", b"1", b"3"]


def test_a_full_queue_is_waited_for_and_nothing_is_lost_or_doubled(settings: KafkaSettings, topic: str) -> None:
    with Producer(settings, conf={"queue.buffering.max.messages": "100"}) as producer:
        producer.write(topic, numbered(range(5_000)), ONE)
        producer.flush()
    assert data_of(CompiledReader(settings), topic, {0: 5_000}) == [b"%d" % number for number in range(5_000)]


def test_a_record_that_is_too_large_is_an_error_of_the_record(settings: KafkaSettings, admin: Admin) -> None:
    topic = admin.create(topic_name(), config={"max.message.bytes": "10000"}).name
    with Producer(settings, compression="none", batch_bytes=9_000) as producer:
        producer.write(topic, numbered([1]), ONE)
        producer.flush()
        producer.write(topic, pa.RecordBatch.from_arrays([pa.array([b"x" * 20_000])], ["data"]), ONE)
        with pytest.raises(RowError, match=r"record 1 of this producer.*MSG_SIZE_TOO_LARGE") as raised:
            producer.flush()
        assert raised.value.reason == "too_large" and "max.message.bytes" in raised.value.hint
        producer.write(topic, numbered([2]), ONE)
        producer.flush()
    assert data_of(CompiledReader(settings), topic, {0: 2}) == [b"1", b"2"]


def test_a_topic_or_partition_that_is_not_there_is_not_found(settings: KafkaSettings, topic: str) -> None:
    with Producer(settings) as producer:
        producer.write(topic, numbered([1]), ONE)
        producer.flush()
        with pytest.raises(NotFound):
            producer.write(topic, numbered([1]), np.array([4]))
            producer.flush()


def test_a_broker_that_is_down_is_named_and_a_closed_producer_says_so() -> None:
    producer = Producer(made_settings(f"127.0.0.1:{free_port()}"), delivery_ms=300)
    producer.write("t", numbered([1]), ONE)
    with pytest.raises(Unavailable, match="Connection refused"):
        producer.flush()
    producer.close()
    producer.close()
    with pytest.raises(Unavailable, match="is closed"):
        producer.flush()


@pytest.mark.parametrize("call", ["flush", "write"])
def test_closing_a_producer_ends_a_call_that_waits_in_another_thread(call: str) -> None:
    """The library must not be in a call for a handle that is destroyed."""
    producer = Producer(made_settings(f"127.0.0.1:{free_port()}"), conf={"queue.buffering.max.messages": "10"})
    producer.write("t", numbered(range(10)), ONE)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            producer.flush() if call == "flush" else producer.write("t", numbered(range(10, 20)), ONE)
        except Unavailable as error:
            errors.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    stays(waiting.is_alive, 0.2)
    producer.close()
    waiting.join(10)
    assert not waiting.is_alive() and "closed" in str(errors[0])
