"""The compiled readers and the plain one: equal, and equal to what was written."""

from __future__ import annotations

import os
import random
import threading

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.consumer_handles import _idle, close_idle
from gauss.clients.kafka.errors import OffsetOutOfRange
from gauss.clients.kafka.following_reader import FollowingReader
from gauss.clients.kafka.plain_reader import PlainReader
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Bounds, Range, RangeReader
from gauss.clients.kafka.record_batches import SCHEMA, Row
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from gauss.model.errors import NotFound, Unavailable
from gauss.process.ports import free_port
from helpers.kafka import NOW, Given, produce, random_records, rows_of, topic_name
from helpers.kafka import settings as made_settings
from helpers.waiting import wait_until

READERS: list[type[CompiledReader | FollowingReader | PlainReader]] = [CompiledReader, FollowingReader, PlainReader]
FEW = Bounds(rows=97, bytes=5_000)


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, settings: KafkaSettings) -> RangeReader:
    found: RangeReader = request.param(settings)
    return found


def all_read(settings: KafkaSettings, wanted: Range, bounds: Bounds = FEW) -> list[Row]:
    """The records of a range; fails if the readers differ, in the borders of batches too."""
    *compiled, plain = (list(kind(settings).read(wanted, bounds)) for kind in READERS)
    for found in compiled:
        assert [batch.num_rows for batch in found] == [batch.num_rows for batch in plain]
        for one, other in zip(found, plain, strict=True):
            one.validate(full=True)
            assert one.schema == SCHEMA and one.equals(other)
    return rows_of(plain)


def stable_end(admin: Admin, topic: str) -> int:
    """The end of a partition, once the markers of its transactions are written."""
    return int(wait_until(lambda: admin.latest(topic, [0]) == admin.stable(topic, [0]) and admin.stable(topic, [0])[0]))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_ranges_of_compressed_batches_and_transactions_are_read_as_written(
    settings: KafkaSettings, admin: Admin, topic: str, codec: str
) -> None:
    expected = produce(settings, topic, random_records(1, 700), codec=codec)
    expected += produce(settings, topic, random_records(2, 600), codec=codec, commit=lambda number: number % 3 != 1)
    end = stable_end(admin, topic)
    assert end > 1_300 and len(expected) == 1_100, "aborted records and markers leave gaps"
    assert all_read(settings, Range(topic, 0, 0, end)) == expected
    chance = random.Random(codec)
    for _ in range(4):
        start = chance.randrange(end)
        stop = chance.randrange(start, end + 1)
        assert all_read(settings, Range(topic, 0, start, stop)) == [row for row in expected if start <= row[0] < stop]


def test_a_range_of_aborted_records_only_is_empty(settings: KafkaSettings, admin: Admin, topic: str) -> None:
    assert produce(settings, topic, random_records(3, 200), commit=lambda _: False) == []
    end = stable_end(admin, topic)
    assert all_read(settings, Range(topic, 0, 0, end)) == []
    assert all_read(settings, Range(topic, 0, 20, 30)) == [], "nothing behind it either"
    produce(settings, topic, random_records(3, 1))
    assert all_read(settings, Range(topic, 0, 20, 30)) == [], "a record behind it"


def test_gaps_of_compaction_are_passed(settings: KafkaSettings, admin: Admin) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    topic = admin.create(topic_name(), config={**config, "segment.ms": "200", "delete.retention.ms": "0"}).name
    records: list[Given] = [(b"v%d" % number, b"k%d" % (number % 7), []) for number in range(500)]
    written = produce(settings, topic, records)
    end = len(records)

    def compacted() -> bool:
        produce(settings, topic, [(b"roll", b"other", [])], first_ts=NOW + 60_000)  # begins a new segment
        return len(rows_of(CompiledReader(settings).read(Range(topic, 0, 0, end)))) < end

    wait_until(compacted, what="the cleaner")
    found = all_read(settings, Range(topic, 0, 0, end))
    assert found == [row for row in written if row in found], "what is left is as written"
    assert {row[0] for row in found} >= set(range(493, 500))
    assert all_read(settings, Range(topic, 0, 100, 110)) == [row for row in found if 100 <= row[0] < 110]


def test_records_of_the_maximum_size_are_batches_of_their_own(settings: KafkaSettings, admin: Admin) -> None:
    most = 3_000_000
    topic = admin.create(topic_name(), config={"max.message.bytes": str(most)}).name
    records: list[Given] = [(os.urandom(most - 100), None, []), (b"", b"k" * 200_000, []), (b"small", None, [])]
    records += [(None, None, [("h", b"v" * 100_000)] * 3), (b"x", None, [(f"n{n}", b"") for n in range(3_000)])]
    expected = produce(settings, topic, records)
    assert all_read(settings, Range(topic, 0, 0, 5), Bounds(rows=10, bytes=300_000)) == expected


def test_bounds_limit_rows_and_bytes_of_a_batch(settings: KafkaSettings, topic: str) -> None:
    produce(settings, topic, [(b"x" * 100, None, [])] * 1_000)
    batches = list(CompiledReader(settings).read(Range(topic, 0, 0, 1_000), Bounds(rows=300, bytes=1 << 20)))
    assert [batch.num_rows for batch in batches] == [300, 300, 300, 100]
    batches = list(CompiledReader(settings).read(Range(topic, 0, 0, 1_000), Bounds(rows=1_000, bytes=40_000)))
    assert [batch.num_rows for batch in batches] == [400, 400, 200]


def test_a_batch_is_not_changed_by_the_next(settings: KafkaSettings, topic: str) -> None:
    expected = produce(settings, topic, random_records(5, 500))
    batches = list(CompiledReader(settings).read(Range(topic, 0, 0, 500), Bounds(rows=10, bytes=1_000)))
    assert len(batches) >= 50 and rows_of(batches) == expected


def test_a_name_of_a_header_that_is_not_utf8_is_read(settings: KafkaSettings, topic: str) -> None:
    import numpy as np
    import pyarrow as pa

    from gauss.clients.kafka.producer import Producer

    name = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    items = pa.StructArray.from_arrays([name, pa.array([b"v"], pa.binary())], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), items)
    with Producer(settings) as producer:
        producer.write(topic, pa.RecordBatch.from_arrays([pa.array([b"x"]), headers], ["data", "headers"]), np.zeros(1))
        producer.flush()
    ((_, _, data, _, found),) = rows_of(CompiledReader(settings).read(Range(topic, 0, 0, 1)))
    assert (data, found) == (b"x", [("��", b"v")])


def test_an_offset_below_the_earliest_carries_it(reader: RangeReader, settings: KafkaSettings, topic: str) -> None:
    produce(settings, topic, [(b"x", None, [])] * 4)
    client = AdminClient({**client_conf(settings)})
    deleted = client.delete_records([TopicPartition(topic, 0, 2)])
    assert [each.result().low_watermark for each in deleted.values()] == [2]
    with pytest.raises(OffsetOutOfRange, match="offset 0 is not in the partition, which holds 2 to 4") as raised:
        list(reader.read(Range(topic, 0, 0, 4)))
    assert (raised.value.offset, raised.value.earliest, raised.value.end) == (0, 2, 4)
    assert [row[0] for row in rows_of(reader.read(Range(topic, 0, 2, 4)))] == [2, 3]


def test_an_offset_beyond_the_end_is_out_of_range(reader: RangeReader, settings: KafkaSettings, topic: str) -> None:
    produce(settings, topic, [(b"x", None, [])])
    with pytest.raises(OffsetOutOfRange):
        list(reader.read(Range(topic, 0, 50, 60)))


def test_a_range_that_is_not_written_yet_times_out(topic: str, settings: KafkaSettings) -> None:
    produce(settings, topic, [(b"x", None, [])])
    for kind in READERS:
        soon = settings.model_copy(update={"request_timeout": 300})
        with pytest.raises(Unavailable, match="at offset 1, before the end of the range, 2"):
            list(kind(soon).read(Range(topic, 0, 0, 2)))


def test_a_topic_or_partition_that_is_not_there_is_not_found(reader: RangeReader, topic: str) -> None:
    with pytest.raises(NotFound):
        list(reader.read(Range(topic_name(), 0, 0, 1)))
    with pytest.raises(NotFound):
        list(reader.read(Range(topic, 7, 0, 1)))


def test_a_broker_that_is_down_is_named() -> None:
    nowhere = made_settings(f"127.0.0.1:{free_port()}", request_timeout="300ms")
    for kind in READERS:
        with pytest.raises(Unavailable, match="Connection refused"):
            list(kind(nowhere).read(Range("t", 0, 0, 1)))


def test_a_read_that_is_stopped_ends_and_its_handle_is_used_again(settings: KafkaSettings, topic: str) -> None:
    close_idle()
    expected = produce(settings, topic, [(b"%d" % number, None, []) for number in range(10)])
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert list(CompiledReader(settings).read(Range(topic, 0, 0, 1_000), stop=stop)) == []
    (handles,) = _idle.values()
    (first,) = handles
    reading = CompiledReader(settings).read(Range(topic, 0, 0, 10), Bounds(rows=2))
    assert rows_of([next(reading)]) == expected[:2]
    reading.close()
    for start in range(10):
        assert rows_of(CompiledReader(settings).read(Range(topic, 0, start, 10))) == expected[start:]
    assert _idle and handles == [first]


def test_a_forked_process_makes_handles_of_its_own(settings: KafkaSettings, topic: str) -> None:
    expected = produce(settings, topic, random_records(4, 50))
    assert rows_of(CompiledReader(settings).read(Range(topic, 0, 0, 50))) == expected
    child = os.fork()
    if not child:
        code = 1
        try:
            code = int(rows_of(CompiledReader(settings).read(Range(topic, 0, 0, 50))) != expected)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert rows_of(CompiledReader(settings).read(Range(topic, 0, 0, 50))) == expected


def test_a_running_reader_goes_on_in_a_topic_made_anew_so_the_id_is_compared(
    settings: KafkaSettings, admin: Admin, topic: str
) -> None:
    produce(settings, topic, [(b"old", None, [])] * 5)
    before = admin.describe(topic).topic_id
    admin.delete(topic)
    admin.create(topic)
    produce(settings, topic, [(b"new", None, [])] * 10)
    found = rows_of(CompiledReader(settings).read(Range(topic, 0, 5, 10)))
    assert [row[2] for row in found] == [b"new"] * 5 and admin.describe(topic).topic_id != before
