"""Lanes that meet another run, a timeout of their transaction, or brokers without transactions."""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.errors import ProducerLost
from gauss.contracts.chunk import Chunk
from gauss.contracts.shared_log import LaneTaken
from gauss.model.errors import ConfigError, Fenced, NotFound
from gauss.plugins.storages.kafka.lane_writer import KafkaLane
from gauss.plugins.storages.kafka.task_log import KafkaTaskLog
from helpers.kafka import BOB, NOW, SecuredBroker, granted, numbered
from helpers.kafka_topics import SPEC, Topics, end_now, none_refused, numbers, opened
from helpers.logs import data
from helpers.waiting import wait_until

EARLIER, LATER = NOW, NOW + 1_000


def of_another_run(topics: Topics, folder: Path, topic: str) -> KafkaTaskLog:
    """The same topic as tasks of a run with another data directory know it."""
    config = topics.kafka.topic(topic=topic)
    Topics(topics.kafka, folder).open(config).close()
    return KafkaTaskLog(SPEC.validate(config), folder / "topic")


def test_run_that_started_earlier_is_told_of_the_other_one_and_leaves_it_alone(topics: Topics, tmp_path: Path) -> None:
    log, task = opened(topics, partitions=1)
    first = task.lane("p", 0, EARLIER)
    first.write([numbered(range(3))], {"epoch": 1}, none_refused)
    second = of_another_run(topics, tmp_path / "other", log.topic).lane("p", 0, LATER)
    assert second.committed() is None, "the epochs of another run are not its own, even if they have the same name"
    with pytest.raises(Fenced):
        first.write([numbered(range(3, 6))], {"epoch": 2}, none_refused)
    first.close()
    for _ in range(2):
        with pytest.raises(LaneTaken, match=f"another run.*gauss.p.{log.topic}.0: give") as raised:
            task.lane("p", 0, EARLIER)
        assert not raised.value.retryable
    second.write([numbered(range(3, 6))], {"epoch": 1}, none_refused)
    second.close()
    assert numbers(log, 6) == [list(range(6))]


def test_run_that_is_started_again_takes_the_lane_back_and_knows_its_last_epoch(topics: Topics, tmp_path: Path) -> None:
    log, task = opened(topics, partitions=1)
    first = task.lane("p", 0, EARLIER)
    first.write([numbered(range(3))], {"epoch": 1}, none_refused)
    second = of_another_run(topics, tmp_path / "other", log.topic).lane("p", 0, LATER)
    second.write([numbered(range(3, 6))], {"epoch": 7}, none_refused)
    again = task.lane("p", 0, LATER + 1)
    assert again.committed() == {"epoch": 1}
    again.write([numbered(range(6, 9))], {"epoch": 2}, none_refused)
    with pytest.raises(Fenced):
        second.write([numbered(range(100, 103))], {"epoch": 8}, none_refused)
    for lane in (first, second, again):
        lane.close()
    assert numbers(log, 9) == [list(range(9))]


def test_epoch_whose_transaction_timed_out_is_written_once_by_the_next_attempt(topics: Topics, admin: Admin) -> None:
    log, task = opened(topics, partitions=1, transaction_timeout="1s")
    lane = cast(KafkaLane, task.lane("p", 0, NOW))
    lane.write([numbered(range(3))], {"epoch": 1}, none_refused)
    lane._producer.begin()
    lane._producer.write(log.topic, numbered(range(3, 6)), lane._partitioning)
    lane._producer.flush()
    held = admin.stable(log.topic, [0])
    wait_until(lambda: admin.stable(log.topic, [0]) != held, what="the broker's abort")
    with pytest.raises((Fenced, ProducerLost)):
        lane._commit(lane._position.named(lane._owner, {"epoch": 2}))
    lane.close()
    lane = cast(KafkaLane, task.lane("p", 0, NOW))
    assert lane.committed() == {"epoch": 1}
    lane.write([numbered(range(3, 6))], {"epoch": 2}, none_refused)
    lane.close()
    assert numbers(log, 6) == [list(range(6))]


def test_partitions_that_were_added_do_not_let_a_fenced_attempt_write(topics: Topics, admin: Admin) -> None:
    log, task = opened(topics, partitions=1)
    first, second = task.lane("p", 0, NOW), task.lane("p", 0, NOW)
    second.write([numbered(range(3))], {"epoch": 1}, none_refused)
    admin.add_partitions(log.topic, 2)
    wait_until(lambda: task.partitions() == 2)
    with pytest.raises(Fenced, match="another writer has committed"):
        first.write([numbered(range(100, 103))], {"epoch": 1}, none_refused)
    second.write([numbered(range(3, 6))], {"epoch": 2}, none_refused)
    for lane in (first, second):
        lane.close()
    log.look_back()
    assert sorted(chain.from_iterable(numbers(log, 6))) == list(range(6))


def test_partitions_that_were_added_do_not_let_a_fenced_run_write(topics: Topics, admin: Admin, tmp_path: Path) -> None:
    log, task = opened(topics, partitions=1)
    first = task.lane("p", 0, EARLIER)
    first.write([numbered(range(3))], {"epoch": 1}, none_refused)
    second = of_another_run(topics, tmp_path / "other", log.topic).lane("p", 0, LATER)
    admin.add_partitions(log.topic, 2)
    wait_until(lambda: task.partitions() == 2)
    with pytest.raises(LaneTaken):
        first.write([numbered(range(100, 103))], {"epoch": 2}, none_refused)
    first.close()
    second.write([numbered(range(3, 6))], {"epoch": 1}, none_refused)
    second.close()
    log.look_back()
    assert sorted(chain.from_iterable(numbers(log, 6))) == list(range(6))


@pytest.mark.parametrize("transactions", [True, False])
def test_topic_that_is_deleted_while_an_epoch_is_written_is_not_found_soon(
    topics: Topics, admin: Admin, transactions: bool
) -> None:
    more = {} if transactions else {"transactions": False}
    log, task = opened(topics, partitions=1, **more)
    lane = task.lane("p", 0, NOW)
    lane.write([numbered(range(3))], {"epoch": 1}, none_refused)
    count = cast(Any, lane)._partitions
    known = [count()]
    cast(Any, lane)._partitions = lambda: known.pop() if known else count()  # as it was a moment ago
    admin.delete(log.topic)
    began = time.monotonic()
    with pytest.raises(NotFound, match="Unknown"):
        lane.write([numbered(range(3, 6))], {"epoch": 2}, none_refused)
    assert time.monotonic() - began < log_timeout(task) / 2
    lane.close()


def log_timeout(task: KafkaTaskLog) -> float:
    """Seconds after which a transaction is given up."""
    return task._config.transaction_timeout / 1000


def test_lane_of_a_task_that_died_between_position_and_commit_opens_at_once(topics: Topics) -> None:
    log, task = opened(topics, partitions=1)
    dead = cast(KafkaLane, task.lane("p", 0, NOW))
    dead._producer.begin()
    dead._producer.write(log.topic, numbered(range(100, 103)), dead._partitioning)
    dead._producer.position(dead._lane, log.topic, 0, 9, {"of": "nobody"})
    began = time.monotonic()
    lane = task.lane("p", 0, NOW)
    assert time.monotonic() - began < 10, "the transaction stays open for a minute unless it is fenced"
    assert lane.committed() is None
    lane.write([numbered(range(3))], {"epoch": 1}, none_refused)
    lane.close()
    dead.close()
    assert numbers(log, 3) == [list(range(3))]


def test_lane_without_transactions_needs_no_right_to_them_and_repeats_an_epoch(
    topics: Topics, kafka: SecuredBroker
) -> None:
    log, _ = opened(topics, partitions=1)
    login = {"brokers": [f"127.0.0.1:{kafka.ports['SASL_PLAINTEXT']}"], "security_protocol": "sasl_plaintext", **BOB}
    config = {**kafka.topic(topic=log.topic), **login}
    with granted(kafka, log.topic):
        task = KafkaTaskLog(SPEC.validate(config), topics.folder / "topic")
        with pytest.raises(ConfigError, match="GROUP_AUTHORIZATION_FAILED"):
            task.lane("p", 0, NOW)
        with granted(kafka, groups=True), pytest.raises(ConfigError, match="TRANSACTIONAL_ID_AUTHORIZATION") as raised:
            task.lane("p", 0, NOW)
        assert 'begin with "gauss."' in raised.value.hint and "transactions = false" in raised.value.hint
        task = KafkaTaskLog(SPEC.validate({**config, "transactions": False}), topics.folder / "topic")
        for _ in range(2):
            lane = task.lane("p", 0, NOW)
            assert lane.committed() is None
            lane.write([numbered(range(3))], {"epoch": 1}, none_refused)
            lane.close()
    assert numbers(log, 6) == [[0, 1, 2, 0, 1, 2]]


@pytest.mark.parametrize("transactions", [True, False])
def test_epoch_of_many_batches_and_a_record_of_the_maximum_size_are_written(topics: Topics, transactions: bool) -> None:
    log, task = opened(
        topics,
        partitions=1,
        topic_config={"max.message.bytes": "100000"},
        transactions=transactions,
        compression="none",
    )
    overhead = 72  # of a batch with one record of this size
    values = [*(b"%d" % number * 1_000 for number in range(10, 500)), b"1" * (100_000 - overhead), b"2"]
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["data"])
    lane = task.lane("p", 0, NOW)
    lane.write([batch], {"epoch": 1}, none_refused)
    lane.close()
    log.append(Chunk(batch.column(0), len(values), NOW))
    log.reveal()
    wait_until(lambda: end_now(log) >= 2 * len(values), what="both writes")
    assert data(log) == values * 2
    too_large = pa.RecordBatch.from_arrays([pa.array([b"1" * (100_001 - overhead)])], ["data"])
    lane, refused = task.lane("p", 0, NOW), list[pa.RecordBatch]()
    lane.write([too_large], {"epoch": 2}, refused.append)
    lane.close()
    assert refused == [too_large]
