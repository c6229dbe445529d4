"""A Kafka topic as the engine sees it: records of others, holes, partitions that are added, topics made anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pyarrow as pa
import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.following_reader import FollowingReader
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.reading import Range
from gauss.clients.kafka.settings import KafkaSettings
from gauss.clients.kafka.transaction import TransactionalProducer
from gauss.contracts.cursor import Code, Last, Program, Seq, Step, TimeRange
from gauss.contracts.shared_log import SharedLog
from gauss.model.errors import Collected, NotFound, Unavailable
from gauss.plugins.storages.kafka import order_file
from gauss.plugins.storages.kafka.shared_log import KafkaLog
from gauss.process.ports import free_port
from gauss.scan.log_cursor import LogProvider
from helpers.kafka import NOW, SecuredBroker, numbered, produce
from helpers.kafka_topics import Topics, end_now
from helpers.logs import arrow, data, flatten, put, records
from helpers.waiting import suspend, wait_until


def _write(settings: KafkaSettings, log: KafkaLog, *texts: bytes, partition: int = 0, **options: Any) -> None:
    """Writes records as another producer."""
    produce(settings, log.topic, [(text, None, []) for text in texts], partition=partition, **options)


class Moves:
    """Counts the calls of a log that is followed."""

    def __init__(self, log: SharedLog, *, needed: bool = True) -> None:
        self.count = 0
        self.called = threading.Event()
        log.follow(self._moved, needed=lambda: needed)

    def _moved(self) -> None:
        self.count += 1
        self.called.set()


@pytest.mark.parametrize("needed", [True, False])
def test_records_of_other_producers_are_noticed(topics: Topics, settings: KafkaSettings, needed: bool) -> None:
    log = topics.open(partitions=1)
    moves = Moves(log, needed=needed)
    _write(settings, log, b"a", b"b")
    wait_until(lambda: log.end == 2 and moves.count, what="the records")
    assert data(log) == [b"a", b"b"]


def test_order_of_partitions_is_that_in_which_they_grew_and_stays(topics: Topics, settings: KafkaSettings) -> None:
    config = topics.kafka.topic(partitions=3)
    log = topics.open(config)
    for number, text in enumerate([b"c", b"a", b"b", b"d"]):
        _write(settings, log, text, partition=(2, 0, 1, 0)[number])
        log.look()
    assert data(log) == [b"c", b"a", b"b", b"d"]
    _write(settings, log, b"y", partition=2)
    _write(settings, log, b"x", partition=1)
    log.look()  # seen together: by partition
    before = records(log)
    assert [record[2] for record in before[4:]] == [b"x", b"y"]
    log.close()
    again = topics.open(config)
    assert (again.inc, records(again)) == (log.inc, before)


def test_added_partition_changes_no_offset(topics: Topics, settings: KafkaSettings, admin: Admin) -> None:
    log = topics.open(partitions=1)
    moves = Moves(log)
    _write(settings, log, b"a", b"b")
    log.look()
    before = records(log)
    admin.add_partitions(log.topic, 3)
    wait_until(lambda: len(log.partitions()) == 3 and moves.count, what="the new partitions")
    _write(settings, log, b"c", partition=2)
    _write(settings, log, b"d", partition=0)
    wait_until(lambda: log.end == 4)
    assert records(log)[:2] == before
    assert sorted(data(log)) == [b"a", b"b", b"c", b"d"]
    assert [(part.number, part.floor, part.end) for part in log.partitions()] == [(0, 0, 3), (1, 0, 0), (2, 0, 1)]


def test_appends_go_to_added_partitions_too(topics: Topics, admin: Admin) -> None:
    log = topics.open(partitions=1)
    put(log, arrow(b"x" * 300_000, ts_ms=NOW))
    admin.add_partitions(log.topic, 2)
    log.look_back()
    put(log, arrow(b"y" * 300_000, ts_ms=NOW))
    put(log, arrow(b"z", ts_ms=NOW))
    assert [record[2][:1] for record in records(log)] == [b"x", b"y", b"z"]
    assert [part.end for part in log.partitions()] == [2, 1]


def test_topic_made_anew_while_open_has_another_incarnation(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    log = topics.open(partitions=2)
    moves = Moves(log)
    _write(settings, log, b"old", partition=1)
    wait_until(lambda: log.end == 1)
    before, count = log.inc, moves.count
    admin.delete(log.topic)
    wait_until(lambda: isinstance(log.error, NotFound), what="the deletion")
    admin.create(log.topic, 2)
    _write(settings, log, b"new", b"newer")
    wait_until(lambda: log.inc != before and log.end == 2 and moves.count > count, what="the new topic")
    assert data(log) == [b"new", b"newer"]
    assert log.error is None


def test_topic_made_anew_while_closed_has_another_incarnation(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    config = topics.kafka.topic(partitions=2)
    log = topics.open(config)
    _write(settings, log, b"old")
    log.look()
    log.close()
    admin.delete(log.topic)
    again = topics.open(config)  # created
    assert again.inc != log.inc
    assert (again.floor, again.end, data(again)) == (0, 0, [])


def test_records_of_a_topic_made_anew_are_not_served_as_those_of_the_old_one(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    log = topics.open(partitions=1)
    _write(settings, log, *[b"old"] * 5)
    log.look()
    admin.delete(log.topic)
    admin.create(log.topic)
    _write(settings, log, *[b"new"] * 9)
    with pytest.raises(Collected, match="made anew"):
        log.chunks(0, 5, 1 << 20)
    log.look()
    log.look_back()
    log.look()
    assert data(log) == [b"new"] * 9


def test_read_of_a_topic_made_anew_does_not_wait_for_records_that_never_come(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    log = topics.open(partitions=1)
    Moves(log)
    _write(settings, log, *[b"old"] * 5)
    wait_until(lambda: log.end == 5)
    admin.delete(log.topic)
    admin.create(log.topic)
    began = time.monotonic()
    with pytest.raises(Collected, match="made anew"):
        log.chunks(0, 5, 1 << 20)
    assert time.monotonic() - began < log._config.request_timeout / 2000


def test_lost_order_file_gives_a_new_incarnation(topics: Topics) -> None:
    config = topics.kafka.topic(partitions=2)
    log = topics.open(config)
    put(log, arrow(b"a", ts_ms=NOW))
    log.close()
    (topics.folder / "topic" / order_file.NAME).unlink()
    again = topics.open(config)
    assert again.inc != log.inc
    assert data(again) == [b"a"]


def test_aborted_records_and_markers_are_holes(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=1)
    wanted = produce(
        settings, log.topic, [(b"%d" % number, None, []) for number in range(500)], commit=lambda part: part % 2 == 1
    )
    wait_until(lambda: end_now(log) == 505, what="the markers")
    found = records(log)
    assert [(offset, text) for offset, _, text in found] == [(row[0], row[2]) for row in wanted]
    assert log.chunks(0, 101, 1 << 20) == []
    placed = log.chunks(0, log.end, 1 << 20)
    assert [(entry.offset, entry.chunk.count) for entry in placed] == [(101, 100), (303, 100)]


def test_records_deleted_by_kafka_move_the_floor_and_are_holes(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    old = {"retention.ms": "21600000", "segment.bytes": "1048576"}
    log = topics.open(partitions=2, topic_config=old)
    _write(settings, log, *[b"x"] * 5, partition=1)
    log.look()
    _write(settings, log, b"a", b"b", partition=0, first_ts=NOW - 86_400_000)
    log.look()
    _write(settings, log, b"y", partition=1)
    log.look()
    assert (log.floor, log.end) == (0, 8)
    wait_until(lambda: admin.earliest(log.topic, [0]) == {0: 2}, what="Kafka's retention")
    assert log.chunks(5, 7, 1 << 20) == []  # before the next look as well
    log.look_back()
    assert log.floor == 0  # the other partition has older ones
    assert [record[0] for record in flatten(log.chunks(0, 8, 1 << 20))] == [0, 1, 2, 3, 4, 7]
    assert log.partitions()[0].floor == 2


def test_reading_below_the_floor_is_collected(topics: Topics, settings: KafkaSettings, admin: Admin) -> None:
    log = topics.open(partitions=1, topic_config={"retention.ms": "21600000"})
    _write(settings, log, b"a", b"b", first_ts=NOW - 86_400_000)
    wait_until(lambda: admin.earliest(log.topic, [0]) == {0: 2}, what="Kafka's retention")
    log.look_back()
    log.look()
    log.look_back()
    assert (log.floor, log.end) == (2, 2)
    with pytest.raises(Collected):
        log.chunks(1, 2, 100)


def test_readers_of_the_same_place_read_the_brokers_once(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    log = topics.open(partitions=3)
    for number in range(20):
        put(log, arrow(*[b"%d" % number] * 10, ts_ms=NOW))
    reads, read = list[Range](), FollowingReader.read

    def counted(reader: FollowingReader, wanted: Range, **options: Any) -> Iterator[Any]:
        reads.append(wanted)
        return read(reader, wanted, **options)

    monkeypatch.setattr(FollowingReader, "read", counted)
    everything = records(log)
    assert len(everything) == 200
    first = len(reads)
    assert first <= 3
    put(log, arrow(b"more", ts_ms=NOW))
    for _ in range(5):
        assert flatten(log.chunks(200, 201, 100))[0][2] == b"more"
    assert records(log)[:200] == everything
    assert len(reads) == first + 1


def test_too_large_record_is_refused_and_the_next_append_works(topics: Topics) -> None:
    log = topics.open(partitions=1, compression="none", topic_config={"max.message.bytes": "2000000"})
    log.append(arrow(b"x" * 3_000_000))
    log.reveal()
    assert [batch.column("data").to_pylist() for batch in log.take_refused()] == [[b"x" * 3_000_000]]
    put(log, arrow(b"ok", ts_ms=NOW))
    assert data(log) == [b"ok"] and not log.take_refused()


def test_open_transaction_hides_later_records_until_it_ends(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=1)
    with TransactionalProducer(settings, f"hides-{log.topic}") as producer:
        producer.begin()
        producer.write(log.topic, numbered(range(2)), Partitioning(1))
        producer.flush()
        _write(settings, log, b"later")
        log.look()
        assert log.end == 0
        producer.commit()
    wait_until(lambda: end_now(log) == 4)
    assert data(log) == [b"0", b"1", b"later"]


def test_missing_topic_that_may_not_be_created_is_not_found(topics: Topics, kafka: SecuredBroker) -> None:
    with pytest.raises(NotFound, match='topic "t"') as caught:
        topics.open(kafka.topic(create=False))
    assert "create = true" in caught.value.hint


def test_brokers_that_do_not_answer_are_named(topics: Topics) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=address):
        topics.open({"brokers": [address], "request_timeout": "1s"})


def test_position_is_shown_as_the_offsets_of_a_group(topics: Topics, admin: Admin) -> None:
    log = topics.open(partitions=2)
    group = f"gauss.{log.topic}"
    for end in range(1, 4):
        log.note_position(group, {0: end, 1: 2 * end})
    wait_until(lambda: {n: at.offset for n, at in admin.committed(group, log.topic, [0, 1]).items()} == {0: 3, 1: 6})


def test_position_is_shown_after_an_error_of_the_library_and_when_the_topic_is_made_anew(
    topics: Topics, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = topics.open(partitions=1)
    group, commit, errors = f"gauss.{log.topic}", log._admin.commit, [RuntimeError("Handle has been terminated")]

    def failing(*given: Any) -> None:
        if errors:
            raise errors.pop()
        commit(*given)

    def shown() -> int | None:
        found = admin.committed(group, log.topic, [0]).get(0)
        return None if found is None else found.offset

    monkeypatch.setattr(log._admin, "commit", failing)
    log.note_position(group, {0: 3})
    wait_until(lambda: shown() == 3, what="the second attempt")
    admin.delete(log.topic)
    admin.create(log.topic, 1)
    log.look_back()
    wait_until(lambda: shown() is None, what="the end of the old offsets")
    log.note_position(group, {0: 3})
    wait_until(lambda: shown() == 3, what="the position in the new topic")


def test_offset_at_is_before_every_later_record_of_all_partitions(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=2)
    for number in range(6):
        _write(settings, log, b"%d" % number, partition=number % 2, first_ts=NOW + 10 * number)
        log.look()
    for number in range(6):
        assert log.offset_at(NOW + 10 * number) == log.offset_at(NOW + 10 * number - 9) == number
    assert log.offset_at(NOW + 51) == 6
    assert log.last_ts() == NOW + 50
    assert [part.offset_at(NOW + 35) for part in log.partitions()] == [2, 2]


def test_partition_gives_keys_headers_and_null_data_as_zero_bytes(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=1)
    produce(settings, log.topic, [(b"a", b"k", [("h", b"v")]), (None, b"k", [])])
    log.look()
    (batch,) = log.partitions()[0].records(0, 2)
    assert batch.column("data").to_pylist() == [b"a", b""]
    assert batch.column("key").to_pylist() == [b"k", b"k"]
    assert batch.column("headers").to_pylist() == [[{"key": "h", "value": b"v"}], []]
    assert data(log) == [b"a", b""]


def test_brokers_that_are_gone_for_a_while_are_reported_and_followed_again(
    topics: Topics, settings: KafkaSettings, kafka: SecuredBroker
) -> None:
    log = topics.open(kafka.topic(partitions=1, request_timeout="1s"))
    Moves(log)
    process = psutil.Process(kafka.broker.pid)
    suspend(process)
    try:
        error = wait_until(lambda: log.error, what="the watcher's error")
        assert isinstance(error, Unavailable)
    finally:
        process.resume()
    _write(settings, log, b"a")
    wait_until(lambda: log.end == 1 and log.error is None, what="the record")


def _scanned(log: KafkaLog, view: Any) -> list[bytes]:
    cursor = LogProvider(log).open(Program(view))
    found: list[bytes] = []
    while cursor.next(Step()) is Code.OK:
        _, batch = cursor.read()
        assert isinstance(batch, pa.RecordBatch)
        found += batch.column("data").to_pylist()
    return found


def test_newest_record_is_found_behind_the_marker_of_its_transaction(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=2)
    with TransactionalProducer(settings, f"last-{log.topic}") as producer:
        producer.begin()
        producer.write(log.topic, numbered(range(40)), Partitioning(2))
        producer.commit()
    wait_until(lambda: end_now(log) >= 42, what="the marker of each partition")
    (newest,) = _scanned(log, Last())
    assert newest == _scanned(log, Seq())[-1]


def test_query_by_time_finds_records_whose_times_go_back(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=1)
    for text, second in ((b"a", 1), (b"b", 5), (b"c", 2), (b"d", 9), (b"e", 4)):
        _write(settings, log, text, first_ts=NOW + second * 1_000)
    wait_until(lambda: end_now(log) == 5, what="the records")
    assert _scanned(log, TimeRange(NOW + 2_000, NOW + 6_000)) == [b"b", b"c", b"e"]
    assert _scanned(log, TimeRange(NOW + 9_000, None)) == [b"d"]


def test_look_that_waited_for_brokers_does_not_delay_the_next(
    topics: Topics, settings: KafkaSettings, kafka: SecuredBroker
) -> None:
    log = topics.open(partitions=1)
    Moves(log)
    process = psutil.Process(kafka.broker.pid)
    suspend(process)
    try:
        time.sleep(1.5)  # so long takes the look that is under way
    finally:
        process.resume()
    log.look()  # answered after that one
    _write(settings, log, b"a")
    wait_until(lambda: log.end == 1, 20, "the record")
