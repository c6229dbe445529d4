"""Snapshots of Kafka topics: the newest record of each key, without deleted ones."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.record_batches import SCHEMA
from gauss.clients.kafka.settings import KafkaSettings
from gauss.config.formats import build_format
from gauss.model.batch import KEYED_SCHEMA
from gauss.plugins.storages.kafka import snapshot
from gauss.plugins.storages.kafka.snapshot import Snapshot
from gauss.plugins.storages.kafka.task_log import KafkaTaskLog
from helpers.kafka import NOW, Given, produce
from helpers.kafka_topics import Topics
from helpers.waiting import wait_until

Record = tuple[int, int, bytes | None, bytes | None]
"""Offset, time, data and key."""


def batch(records: list[Record]) -> pa.RecordBatch:
    rows = [dict(zip(SCHEMA.names, (*record, []), strict=True)) for record in records]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def found(made: Snapshot) -> list[tuple[int, int, bytes]]:
    """(partition, offset, data) of the records."""
    rows = []
    for partition, part in made.batches():
        assert part.schema.equals(KEYED_SCHEMA)
        rows += [(partition, row["offset"], row["data"]) for row in part.to_pylist()]
    return rows


@pytest.mark.parametrize("step", [1, 200, 1 << 20])
def test_newest_of_each_key_is_kept_however_the_records_are_cut(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "STEP_BYTES", step)
    monkeypatch.setattr(snapshot, "BATCH_BYTES", 100)
    chance, made = random.Random(step), Snapshot("t", None, 1 << 30)
    wanted = []
    for partition in range(3):
        keys = [None, *(b"%d-%d" % (partition, key) for key in range(9)), *([] if partition else [b""])]
        records: list[Record] = [
            (offset * 3, chance.randrange(9), chance.choice([None, b"", b"%d" % offset]), chance.choice(keys))
            for offset in range(60)
        ]
        newest = {key: (partition, offset, data) for offset, _, data, key in records if key is not None}
        wanted += sorted(row for row in newest.values() if row[2] is not None)
        cuts = sorted(chance.sample(range(60), 5))
        made.add(partition, [batch(records[start:stop]) for start, stop in pairwise([0, *cuts, 60])])
    assert found(made) == wanted


def test_of_a_key_in_several_partitions_the_latest_counts() -> None:
    made = Snapshot("t", None, 1 << 30)
    made.add(0, [batch([(7, 5, b"old", b"a"), (8, 20, b"late", b"b"), (9, 9, None, b"c")])])
    made.add(1, [batch([(1, 6, b"new", b"a"), (2, 20, None, b"b"), (3, 8, b"gone", b"c")])])
    assert found(made) == [(0, 8, b"late"), (1, 1, b"new")]


def task(topics: Topics, config: dict[str, Any]) -> KafkaTaskLog:
    from gauss import registry
    from gauss.contracts.storage import StorageSpec

    spec = registry.spec(StorageSpec, "kafka")
    return KafkaTaskLog(spec.validate(config), topics.folder / "topic", lambda _: build_format("json", {}))


def data(log: KafkaTaskLog) -> list[bytes]:
    return [value for _, part in log.snapshot() for value in part.column("data").to_pylist()]


def test_snapshot_has_updates_but_no_deleted_keys_and_no_records_without_one(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    config = topics.kafka.topic(key="@key")
    admin.create(config["topic"], 3)
    log = task(topics, config)
    assert data(log) == []
    records: list[list[Given]] = [
        [(b"1", b"a", []), (b"2", b"b", []), (b"3", None, []), (b"4", b"a", [("h", b"x")])],
        [(b"5", b"c", []), (b"6", b"d", []), (None, b"c", []), (b"", b"e", [])],
    ]
    for partition, each in enumerate(records):
        produce(settings, config["topic"], each, partition=partition, commit=lambda _: True)
    produce(settings, config["topic"], [(b"no", b"a", [])], commit=lambda _: False)
    assert data(log) == [b"2", b"4", b"6", b""]
    headers = [row["headers"] for _, part in log.snapshot() for row in part.to_pylist()]
    assert headers[1] == [{"key": "h", "value": b"x"}]


def test_snapshot_by_a_field_is_deleted_by_the_key_of_a_tombstone(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    config = topics.kafka.topic(key_field="k", format="json")
    admin.create(config["topic"])
    texts = [b'{"k": "a", "n": 1}', b'{"k": "b", "n": 2}', b'{"k": "a", "n": 3}', b"broken", b"{}", b'{"k": 7}']
    produce(settings, config["topic"], [(text, None, []) for text in texts])
    log = task(topics, config)
    assert data(log) == [texts[1], texts[2], texts[5]]
    produce(settings, config["topic"], [(None, b"b", []), (None, b"7", [])])
    assert data(log) == [texts[2]]


def test_snapshot_passes_gaps_of_compaction(topics: Topics, settings: KafkaSettings, admin: Admin) -> None:
    config = topics.kafka.topic(key="@key")
    cleaned = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
    admin.create(config["topic"], config={**cleaned, "segment.ms": "200", "delete.retention.ms": "0"})
    records: list[Given] = [(b"v%d" % number, b"k%d" % (number % 7), []) for number in range(100)]
    produce(settings, config["topic"], [*records, (None, b"k0", [])])
    log = task(topics, config)

    def left() -> int:
        produce(settings, config["topic"], [(b"roll", b"other", [])], first_ts=NOW + 60_000)  # begins a new segment
        part = topics.open({**config, "create": False}).partitions()[0]
        return sum(len(each) for each in part.records(0, 101))

    wait_until(lambda: left() < 50, what="the cleaner")
    assert sorted(data(log)) == sorted([b"roll", *(b"v%d" % number for number in range(93, 100) if number % 7)])
