"""Ranges that follow each other: nothing is fetched twice, nothing of another topic or range is read."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

import pytest

from gauss.clients.kafka import following_reader
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.consumer_handles import PartitionFeed
from gauss.clients.kafka.following_reader import FEEDS, FollowingReader
from gauss.clients.kafka.plain_reader import PlainReader
from gauss.clients.kafka.reading import Bounds, Range
from gauss.clients.kafka.record_batches import Row
from gauss.clients.kafka.settings import KafkaSettings
from helpers.kafka import produce, random_records, rows_of, topic_name
from helpers.waiting import wait_until


@pytest.fixture
def assigned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets at which partitions were assigned."""
    found: list[int] = []
    change = PartitionFeed._change

    def counted(feed: PartitionFeed, function: str, offset: int) -> None:
        if function == "rd_kafka_incremental_assign":
            found.append(offset)
        change(feed, function, offset)

    monkeypatch.setattr(PartitionFeed, "_change", counted)
    return found


def in_parts(settings: KafkaSettings, topic: str, cuts: list[int], bounds: Bounds) -> list[Row]:
    reader = FollowingReader(settings)
    found: list[Row] = []
    for start, end in pairwise(cuts):
        rows = rows_of(reader.read(Range(topic, 0, start, end), bounds))
        assert all(start <= row[0] < end for row in rows)
        found += rows
    return found


def test_consecutive_ranges_have_every_record_once_wherever_they_are_cut(
    settings: KafkaSettings, admin: Admin, topic: str, assigned: list[int]
) -> None:
    produce(settings, topic, random_records(1, 300))
    for seed in range(12):  # transactions, of which every third is aborted, leave gaps of one offset and more
        is_committed = seed % 3 != 1
        produce(settings, topic, random_records(seed, 7), commit=[is_committed].__getitem__)
    produce(settings, topic, random_records(3, 50), commit=lambda _: False)
    end = wait_until(lambda: admin.latest(topic, [0]) == admin.stable(topic, [0]) and admin.stable(topic, [0])[0])
    expected = rows_of(PlainReader(settings).read(Range(topic, 0, 0, end)))
    chance = random.Random(7)
    for _ in range(6):
        cuts = [0, *sorted(chance.sample(range(1, end), 60)), end]
        assert in_parts(settings, topic, cuts, Bounds(rows=chance.choice([5, 1_000]), bytes=4_000)) == expected
    assert in_parts(settings, topic, list(range(250, end + 1)), Bounds()) == [row for row in expected if row[0] >= 250]
    assert assigned == [0] * 6 + [250], "only where a range did not follow the one before it"


def test_records_that_come_later_are_read_without_a_new_assignment(
    settings: KafkaSettings, topic: str, assigned: list[int]
) -> None:
    reader = FollowingReader(settings)
    for begin in range(0, 40, 4):
        expected = produce(settings, topic, [(b"%d" % number, None, []) for number in range(begin, begin + 4)])
        assert rows_of(reader.read(Range(topic, 0, begin, begin + 4))) == expected
    assert assigned == [0]


def test_range_of_a_topic_made_anew_has_nothing_that_was_fetched_of_the_old_one(
    settings: KafkaSettings, admin: Admin, topic: str
) -> None:
    produce(settings, topic, [(b"old", None, [])] * 10)
    reader, before = FollowingReader(settings), admin.describe(topic).topic_id
    assert len(rows_of(reader.read(Range(topic, 0, 0, 5, before)))) == 5
    admin.delete(topic)
    after = admin.create(topic).topic_id
    produce(settings, topic, [(b"new", None, [])] * 10)
    assert [row[2] for row in rows_of(reader.read(Range(topic, 0, 5, 10, after)))] == [b"new"] * 5


def test_partition_that_another_thread_reads_is_read_beside_it(settings: KafkaSettings, topic: str) -> None:
    expected = produce(settings, topic, random_records(2, 200))
    reader, found = FollowingReader(settings), list[list[Row]]()
    first = reader.read(Range(topic, 0, 0, 200), Bounds(rows=10))
    begun = rows_of([next(first)])
    other = threading.Thread(target=lambda: found.append(rows_of(reader.read(Range(topic, 0, 0, 200)))))
    other.start()
    other.join()
    assert found == [expected] and begun + rows_of(first) == expected


def test_range_that_is_not_read_to_its_end_is_read_again(settings: KafkaSettings, topic: str) -> None:
    expected = produce(settings, topic, random_records(2, 200))
    reader = FollowingReader(settings)
    reading = reader.read(Range(topic, 0, 0, 100), Bounds(rows=10))
    next(reading)
    reading.close()
    assert rows_of(reader.read(Range(topic, 0, 0, 100))) == expected[:100]
    assert rows_of(reader.read(Range(topic, 0, 100, 200))) == expected[100:]


def test_more_partitions_than_stay_assigned_are_all_read(
    settings: KafkaSettings, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following_reader, "FEEDS", 2)
    assert FEEDS > 2
    topic = admin.create(topic_name(), 5).name
    expected = {each: produce(settings, topic, random_records(each, 20), partition=each) for each in range(5)}
    reader = FollowingReader(settings)
    for start in (0, 10):
        for each, rows in expected.items():
            assert rows_of(reader.read(Range(topic, each, start, start + 10))) == rows[start : start + 10]
            assert len(following_reader._feeds._idle) <= 2


def test_idle_partition_is_no_longer_fetched(
    settings: KafkaSettings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until(lambda: not following_reader._feeds._idle)
    monkeypatch.setattr(following_reader, "IDLE_SECONDS", 0.05)
    expected = produce(settings, topic, random_records(2, 20))
    assert rows_of(FollowingReader(settings).read(Range(topic, 0, 0, 10))) == expected[:10]
    wait_until(lambda: not following_reader._feeds._idle)
    wait_until(lambda: following_reader._feeds._sweeper is None)
    assert rows_of(FollowingReader(settings).read(Range(topic, 0, 10, 20))) == expected[10:]
