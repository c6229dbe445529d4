"""A Kafka topic as tasks read and write it: ranges, deleted records, topics made anew, lanes."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from gauss.contracts.shared_log import TaskLog
from gauss.model.batch import KEYED_SCHEMA
from gauss.model.errors import Fenced, Rejected, StorageError
from gauss.plugins.storages.kafka.lane_writer import KafkaLane
from gauss.plugins.storages.kafka.task_log import KafkaTaskLog
from helpers.kafka import NOW, numbered, produce, random_records, rows_of
from helpers.kafka_topics import SPEC, Topics, none_refused, numbers, opened
from helpers.waiting import wait_until


def _nothing(first: int, stop: int) -> None:
    raise AssertionError(f"missed {first} to {stop}")


def test_range_has_the_records_as_written_and_null_data_as_zero_bytes(topics: Topics, settings: KafkaSettings) -> None:
    log, task = opened(topics, partitions=2)
    wanted = produce(settings, log.topic, random_records(1, 500), partition=1)
    batches = list(task.read(log.inc, 1, 100, 400, _nothing))
    assert all(batch.schema.equals(KEYED_SCHEMA) for batch in batches)
    assert rows_of(batches) == [(*row[:2], row[2] or b"", *row[3:]) for row in wanted[100:400]]


def test_task_log_in_another_process_without_the_folder_reads_the_same(topics: Topics, settings: KafkaSettings) -> None:
    log, task = opened(topics, partitions=1)
    wanted = produce(settings, log.topic, random_records(2, 50))
    assert len(rows_of(task.read(log.inc, 0, 0, 50, _nothing))) == 50  # makes clients, of no use in a fork
    sent = pickle.dumps(task)
    for path in (topics.folder / "topic").iterdir():
        path.unlink()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_read_elsewhere, (sent, log.inc)) == [row[0] for row in wanted]


def _read_elsewhere(sent: bytes, inc: int) -> list[int]:
    task: TaskLog = pickle.loads(sent)
    return [row[0] for row in rows_of(task.read(inc, 0, 0, 50, _nothing))]


def test_deleted_part_of_a_range_is_missed_and_the_rest_is_read(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    log, task = opened(topics, partitions=1, topic_config={"retention.ms": "21600000"})
    produce(settings, log.topic, [(b"old", None, [])] * 10, first_ts=NOW - 86_400_000)
    wait_until(lambda: admin.earliest(log.topic, [0]) == {0: 10}, what="Kafka's retention")
    produce(settings, log.topic, [(b"new", None, [])] * 5)
    missed = list[tuple[int, int]]()
    found = rows_of(task.read(log.inc, 0, 4, 15, lambda first, stop: missed.append((first, stop))))
    assert ([row[0] for row in found], missed) == (list(range(10, 15)), [(4, 10)])
    missed.clear()
    assert list(task.read(log.inc, 0, 4, 8, lambda first, stop: missed.append((first, stop)))) == []
    assert missed == [(4, 8)]


def test_topic_made_anew_is_rejected_before_and_during_a_range(
    topics: Topics, settings: KafkaSettings, admin: Admin
) -> None:
    log, task = opened(topics, partitions=1)
    records: list[Any] = [(b"x" * 1000, None, [])] * 20_000
    produce(settings, log.topic, records)
    reading = task.read(log.inc, 0, 0, 20_000, _nothing)
    assert next(iter(reading)).num_rows
    admin.delete(log.topic)
    admin.create(log.topic, 1)
    produce(settings, log.topic, records)
    with pytest.raises(Rejected, match="made anew"):
        for _ in reading:
            pass
        task.check(log.inc)
    with pytest.raises(Rejected, match="made anew"):
        list(task.read(log.inc, 0, 0, 5, _nothing))
    before = log.inc
    log.look_back()
    assert log.inc != before
    assert len(rows_of(task.read(log.inc, 0, 0, 5, _nothing))) == 5
    with pytest.raises(Rejected, match="not known"):
        task.read(999, 0, 0, 5, _nothing)


def test_lane_commits_records_with_the_name_of_the_epoch(topics: Topics) -> None:
    log, task = opened(topics, partitions=1)
    lane = task.lane("p", 0, NOW)
    assert lane.committed() is None
    lane.write([numbered(range(5)), numbered(range(5, 8))], {"epoch": 1, "ends": [3]}, none_refused)
    assert lane.committed() == {"epoch": 1, "ends": [3]}
    lane.write([], {"epoch": 2}, none_refused)
    lane.write([numbered(range(8, 9))], {"epoch": 3}, none_refused)
    lane.close()
    assert numbers(log, 9) == [list(range(9))]
    again = task.lane("p", 0, NOW)
    assert again.committed() == {"epoch": 3}
    assert task.lane("p", 1, NOW).committed() is None
    again.write([numbered(range(9, 10))], {"epoch": 4}, none_refused)
    again.close()
    assert numbers(log, 10) == [list(range(10))]


def test_second_lane_of_the_same_name_fences_the_first_and_drops_its_open_epoch(topics: Topics) -> None:
    log, task = opened(topics, partitions=1)
    first = cast(KafkaLane, task.lane("p", 0, NOW))
    first.write([numbered(range(3))], {"epoch": 1}, none_refused)
    first._producer.begin()
    first._producer.write(log.topic, numbered(range(100, 105)), first._partitioning)
    first._producer.flush()
    second = task.lane("p", 0, NOW)
    assert second.committed() == {"epoch": 1}
    with pytest.raises(Fenced):
        first._producer.commit()
    second.write([numbered(range(3, 6))], {"epoch": 2}, none_refused)
    assert numbers(log, 6) == [list(range(6))]
    first.close()
    second.close()


def test_lane_whose_position_another_tool_has_set_is_reported(topics: Topics, admin: Admin) -> None:
    log, task = opened(topics, partitions=1)
    admin.commit(f"gauss.p.{log.topic}.0", log.topic, {0: 5})
    with pytest.raises(StorageError, match="another tool"):
        task.lane("p", 0, NOW)


@pytest.mark.parametrize("by", ["key", "round_robin"])
def test_records_are_partitioned_by_key_or_in_turn(topics: Topics, by: str) -> None:
    log, task = opened(topics, partitions=3, partition_by=by)
    lane = task.lane("p", 0, NOW)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"%d" % number for number in range(30)], pa.binary()), pa.array([b"k"] * 30, pa.binary())],
        ["data", "key"],
    )
    lane.write([batch], {}, none_refused)
    lane.close()
    sizes = sorted(len(part) for part in numbers(log, 30))
    assert sizes == ([0, 0, 30] if by == "key" else [10, 10, 10])


def test_lane_writes_to_partitions_that_were_added(topics: Topics, admin: Admin, monkeypatch: Any) -> None:
    from gauss.plugins.storages.kafka import task_log

    monkeypatch.setattr(task_log, "KNOWN_SECONDS", 0.0)
    log, task = opened(topics, partitions=1)
    lane = task.lane("p", 0, NOW)
    lane.write([numbered(range(10))], {}, none_refused)
    admin.add_partitions(log.topic, 3)
    lane.write([numbered(range(10, 100))], {}, none_refused)
    lane.close()
    log.look_back()
    assert all(numbers(log, 100))


def test_folder_without_a_topic_has_no_incarnation(topics: Topics, tmp_path: Path) -> None:
    task = KafkaTaskLog(SPEC.validate(topics.kafka.topic(topic="")), tmp_path / "trades")
    assert task.topic == "trades"
    with pytest.raises(Rejected):
        task.read(7, 0, 0, 1, _nothing)
