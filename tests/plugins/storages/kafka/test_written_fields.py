"""Keys and partitions of the records that the engine appends."""

from __future__ import annotations

import json

import pytest

from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Range
from gauss.clients.kafka.settings import KafkaSettings
from gauss.contracts.letter import Letter
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import ConfigError
from gauss.plugins.storages.kafka.shared_log import KafkaLog
from gauss.stream.engine.topics.log_topic import LogTopic
from helpers.kafka import NOW, produce, rows_of
from helpers.kafka_topics import Topics
from helpers.logs import arrow, put

Found = list[tuple[bytes | None, bytes | None]]


def found(settings: KafkaSettings, log: KafkaLog) -> dict[int, Found]:
    """(key, data) of the records by partition."""
    reader = CompiledReader(settings)
    parts = [Range(log.topic, part.number, 0, part.end) for part in log.partitions()]
    return {part.partition: [(row[3], row[2]) for row in rows_of(reader.read(part))] for part in parts}


def test_appended_records_are_partitioned_by_key_in_order(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=3, format="json", key_field="symbol")
    for first in range(0, 60, 20):
        texts = [json.dumps({"symbol": f"s{n % 7}", "n": n}).encode() for n in range(first, first + 20)]
        put(log, arrow(*texts, ts_ms=NOW))
    by_partition = found(settings, log)
    records = [json.loads(data or b"") | {"key": key} for rows in by_partition.values() for key, data in rows]
    assert all(each["key"] == each["symbol"].encode() for each in records)
    keys = [{key for key, _ in rows} for rows in by_partition.values()]
    assert sum(map(len, keys)) == len(set[bytes | None]().union(*keys)) == 7
    for symbol in (f"s{n}" for n in range(7)):
        numbers = [each["n"] for each in records if each["symbol"] == symbol]
        assert numbers == list(range(int(symbol[1:]), 60, 7))
    # The same partition as other producers choose.
    before = {key: number for number, rows in by_partition.items() for key, _ in rows}
    produce(settings, log.topic, [(b"{}", b"s3", [])], partition=-1, conf={"partitioner": "murmur2_random"})
    log.look()
    assert next(number for number, rows in found(settings, log).items() if (b"s3", b"{}") in rows) == before[b"s3"]


def test_record_that_has_no_key_or_is_damaged_is_written_without_one(topics: Topics, settings: KafkaSettings) -> None:
    log = topics.open(partitions=2, format="json", key_field="symbol")
    put(log, arrow(b"broken", b'{"symbol": "a"}', b'{"other": 1}', b"", ts_ms=NOW))
    rows = [row for part in found(settings, log).values() for row in part]
    assert sorted(rows, key=str) == sorted(
        [(None, b"broken"), (b"a", b'{"symbol": "a"}'), (None, b'{"other": 1}'), (None, b"")], key=str
    )


def test_field_chooses_the_partition_and_others_become_dead_letters(topics: Topics, settings: KafkaSettings) -> None:
    log, letters = topics.open(partitions=3, format="json", partition_field="shard", key_field="k"), list[Letter]()
    topic = LogTopic("t", log, Capacity(None, None, WriteFull.BLOCK), dead=letters.append)
    texts = [b'{"shard": %d, "k": "a"}' % n for n in (2, 0, 3, -1, 2)] + [b"broken", b"{}"]
    assert topic.append(arrow(*texts, ts_ms=range(NOW, NOW + 7))).accepted == 3
    assert found(settings, log) == {0: [(b"a", texts[1])], 1: [], 2: [(b"a", texts[0]), (b"a", texts[4])]}
    assert [(each.data, each.ts_ms, each.reason) for each in letters] == [
        (texts[index], NOW + index, "bad_partition") for index in (2, 3, 5, 6)
    ]
    assert letters[0].detail == "shard: expected a partition, 0 to 2, found 3"


def test_field_that_the_format_lacks_is_named_when_the_topic_is_opened(topics: Topics) -> None:
    with pytest.raises(ConfigError, match='topic "t": the format has no field "symbol" for key_field'):
        topics.open(format="quote", key_field="symbol")
