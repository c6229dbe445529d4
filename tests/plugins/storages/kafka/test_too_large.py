"""Records that are larger than their Kafka topic allows: the others are written, once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from gauss.clients.kafka.producer import QUEUE_BYTES, Compression
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from gauss.contracts.chunk import Chunk
from gauss.contracts.letter import Letter
from gauss.contracts.storage import Capacity, WriteFull
from gauss.plugins.storages.kafka.too_large import Fitting
from gauss.stream.engine.topics.log_topic import LogTopic
from helpers.kafka import NOW
from helpers.kafka_topics import Topics, end_now, none_refused, opened
from helpers.logs import data
from helpers.waiting import wait_until

LIMIT = 50_000
LARGE, COMPRESSIBLE = random.Random(1).randbytes(2 * LIMIT), b"x" * (4 * LIMIT)


def records(*values: bytes | None) -> pa.RecordBatch:
    array = pa.array(values, pa.binary())
    return pa.RecordBatch.from_arrays([array, pa.array([b"k"] * len(array))], ["data", "key"])


def values(batches: list[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("data").to_pylist()]


def limited(topics: Topics, **given: Any) -> Any:
    return opened(topics, partitions=1, topic_config={"max.message.bytes": str(LIMIT)}, **given)


def lower_limit(settings: KafkaSettings, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", str(LIMIT), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({**client_conf(settings)})
    for done in client.incremental_alter_configs([resource]).values():
        done.result()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_that_compress_to_no_less_are_left_out_too(compression: Compression) -> None:
    fitting = Fitting([records(b"1", COMPRESSIBLE, None), records(LARGE[:60_000], b"2", LARGE)], compression)
    large = fitting.refuse(3, batch_bytes=LIMIT)
    expected = [COMPRESSIBLE] * (compression == "none") + [LARGE[:60_000], LARGE]
    assert values(large) == expected
    assert values(fitting.batches) == [b"1", *[COMPRESSIBLE] * (compression != "none"), None, b"2"]
    assert fitting.limit is not None
    again = Fitting([records(b"1", COMPRESSIBLE, None), records(LARGE[:60_000], b"2", LARGE)], compression)
    assert values(again.leave_out(fitting.limit)) == expected


def test_record_that_was_refused_in_a_batch_with_others_is_not_left_out() -> None:
    fitting = Fitting([records(b"1", b"2")], "none")
    assert fitting.refuse(1, batch_bytes=LIMIT) == [] and values(fitting.batches) == [b"1", b"2"]
    assert values(fitting.refuse(1, batch_bytes=1)) == [b"1", b"2"]


@pytest.mark.parametrize("transactions", [True, False])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_lane_leaves_out_what_is_too_large_and_tells_it_again(
    topics: Topics, transactions: bool, compression: str
) -> None:
    log, task = limited(topics, transactions=transactions, compression=compression)
    small = [b"%d" % number for number in range(3_000)]
    given = [records(*small[:1_000], LARGE), records(COMPRESSIBLE), records(*small[1_000:], LARGE[:60_000], b"last")]
    too_large = [LARGE, LARGE[:60_000]] if compression == "lz4" else [LARGE, COMPRESSIBLE, LARGE[:60_000]]
    fitting = [value for value in values(given) if value not in too_large]
    lane, refused = task.lane("p", 0, NOW), list[pa.RecordBatch]()
    lane.write([records(b"first")], {"epoch": 1}, none_refused)
    lane.write(given, {"epoch": 2}, refused.append)
    assert sorted(values(refused)) == sorted(too_large)
    lane.write([records(b"next")], {"epoch": 3}, none_refused)
    lane.write(given[:1], {"epoch": 4}, refused.append)
    lane.close()
    wait_until(lambda: end_now(log) and len(data(log)) >= len(fitting) + 1_002, what=lambda: len(data(log)))
    assert data(log) == [b"first", *fitting, b"next", *small[:1_000]]
    if transactions:
        refused.clear()
        lane = task.lane("p", 0, NOW)
        assert lane.committed() == {"epoch": 4}
        lane.repeat(given[:1], refused.append)
        lane.close()
        assert values(refused) == [LARGE]


@pytest.mark.parametrize("transactions", [True, False])
def test_limit_that_is_lowered_while_a_lane_is_open_costs_no_record(
    topics: Topics, settings: KafkaSettings, transactions: bool
) -> None:
    log, task = opened(topics, partitions=1, transactions=transactions, compression="none")
    lane, refused = task.lane("p", 0, NOW), list[pa.RecordBatch]()
    lane.write([records(b"first")], {"epoch": 1}, none_refused)
    lower_limit(settings, log.topic)
    small = [b"%05d" % number * 100 for number in range(1_000)]
    lane.write([records(*small, LARGE)], {"epoch": 2}, refused.append)
    lane.close()
    assert values(refused) == [LARGE]
    wait_until(lambda: end_now(log) and len(data(log)) >= 1_001, what=lambda: len(data(log)))
    assert sorted(data(log)) == sorted([b"first", *small])


@pytest.mark.parametrize("transactions", [True, False])
def test_record_that_is_larger_than_the_queue_of_a_producer_is_refused_at_once(
    topics: Topics, transactions: bool
) -> None:
    log, task = opened(topics, partitions=1, transactions=transactions)
    lane, refused = task.lane("p", 0, NOW), list[pa.RecordBatch]()
    huge = bytes(QUEUE_BYTES + 1)
    lane.write([records(b"1", huge, b"2")], {"epoch": 1}, refused.append)
    lane.close()
    assert [batch.num_rows for batch in refused] == [1] and values(refused) == [huge]
    wait_until(lambda: end_now(log) and data(log) == [b"1", b"2"], what=lambda: data(log))


def test_append_writes_all_but_the_records_that_are_too_large(topics: Topics) -> None:
    letters: list[Letter] = []
    log, _ = limited(topics, compression="none")
    topic = LogTopic("t", log, Capacity(None, None, WriteFull.BLOCK), dead=letters.append)
    small = [b"%d" % number for number in range(5_000)]
    given = pa.array([*small[:2_000], LARGE, *small[2_000:], LARGE[:60_000], b"last"], pa.binary())
    for _ in range(2):
        appended = topic.append(Chunk(given, len(given), np.full(len(given), NOW)))
        assert appended.accepted == 5_001
    assert [(each.reason, each.stage, each.topic, each.data) for each in letters] == [
        ("too_large", "store", "t", LARGE),
        ("too_large", "store", "t", LARGE[:60_000]),
    ] * 2
    assert topic.counters.records_in == 10_002
    assert data(log) == [*small, b"last"] * 2
