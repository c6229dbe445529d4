"""A topic with 1,000 partitions: what is asked, read and written takes time in proportion to them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.producer import Producer
from gauss.contracts.chunk import Chunk
from helpers.kafka import NOW, numbered
from helpers.kafka_topics import Topics, end_now, none_refused, opened
from helpers.logs import flatten

COUNT = 1_000


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Fails if the block takes longer: far more than it needs, far less than if its cost grew with the square."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < seconds, f"{what} took {took:.1f} s"


def test_a_thousand_partitions_are_opened_followed_read_and_written(topics: Topics, admin: Admin) -> None:
    log, task = opened(topics, partitions=COUNT)
    try:
        with Producer(topics.kafka.settings) as producer:
            producer.write(log.topic, numbered(range(2 * COUNT)), Partitioning(COUNT, by_key=False))
            producer.flush()
        with within(3, "a look"):
            assert end_now(log) == 2 * COUNT
        wanted = Counter(range(2 * COUNT))
        with within(60, "a read by the engine"):
            assert Counter(int(each[2]) for each in flatten(log.chunks(0, log.end, 1 << 20))) == wanted
        found: Counter[int] = Counter()
        with within(60, "a read by a task"):
            for partition in log.partitions():
                for batch in task.read(log.inc, partition.number, 0, partition.end, lambda *_: None):
                    found.update(int(each) for each in batch.column("data").to_pylist())
            task.check(log.inc)
        assert found == wanted
        lane = task.lane("p", 0, NOW)
        with within(30, "a transaction in all partitions"):
            lane.write([numbered(range(2 * COUNT))], {"epoch": 1}, none_refused)
        lane.close()
        with within(10, "an append"):
            log.append(Chunk(pa.array([b"1"]), 1, NOW))
            log.reveal()
        log.close()
        with within(10, "opening it again"):
            assert end_now(topics.open({**topics.kafka.topic(), "topic": log.topic})) > 4 * COUNT
    finally:
        admin.delete(log.topic)
