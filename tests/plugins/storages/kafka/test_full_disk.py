"""A broker whose disk is full: what was acknowledged stays, and epochs go on once there is space."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from gauss.clients.kafka.broker import Broker, new_cluster_id
from gauss.clients.kafka.broker_properties import Ports
from gauss.model.errors import GaussError
from gauss.plugins.storages.kafka.shared_log import KafkaLog
from gauss.plugins.storages.kafka.task_log import KafkaTaskLog
from helpers.disks import fill, small_file_system
from helpers.kafka import NOW
from helpers.kafka_topics import SPEC, end_now, none_refused
from helpers.logs import data, open_log
from helpers.run import free_port
from helpers.waiting import wait_until

ROWS = 500


@pytest.mark.fault
def test_epochs_that_meet_a_full_disk_are_written_once_when_there_is_space(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "disk", "160m") as folder:
        broker = Broker(folder, {1: Ports(free_port(), free_port())})
        broker.create(new_cluster_id())
        broker.start()
        config = {"brokers": [broker.address], "partitions": 1, "compression": "none", "request_timeout": "3s"}
        config["transaction_timeout"] = "5s"
        log = cast(KafkaLog, open_log("kafka", tmp_path, config, incarnation=lambda stored: stored or 7))
        task = KafkaTaskLog(SPEC.validate(config), tmp_path / "topic")
        try:
            for epoch in range(3):
                _write(task, epoch)
            fill(folder / "filler")
            with pytest.raises(GaussError) as raised:
                for epoch in range(3, 50):
                    _write(task, epoch)
            assert raised.value.retryable, raised.value.message
            (folder / "filler").unlink()
            broker.kill()  # it ends by itself when its last disk has failed, but perhaps not yet
            broker.start()
            last = wait_until(lambda: _last(task), 60, "the position")["epoch"]
            for epoch in range(last, last + 4):  # as after any error: the epoch is tried again
                _write(task, epoch)
            count = (last + 4) * ROWS
            wait_until(lambda: end_now(log) and _count(log) >= count, 60, lambda: _count(log))
            assert [int(each) for each in data(log)] == list(range(count))
        finally:
            log.close()
            broker.kill()


def _write(task: KafkaTaskLog, epoch: int) -> None:
    """One attempt of an epoch, in a lane that is opened anew."""
    lane = task.lane("p", 0, NOW)
    try:
        if lane.committed() != {"epoch": epoch}:
            values = [b"%-200d" % number for number in range(epoch * ROWS, (epoch + 1) * ROWS)]
            lane.write(
                [pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["data"])], {"epoch": epoch}, none_refused
            )
    finally:
        lane.close()


def _last(task: KafkaTaskLog) -> Any:
    """The name of the last epoch; `None` while the broker does not answer."""
    try:
        lane = task.lane("p", 0, NOW)
    except GaussError as error:
        assert error.retryable, error.message
        return None
    lane.close()
    return lane.committed()


def _count(log: KafkaLog) -> int:
    return sum(placed.chunk.count for placed in log.chunks(0, log.end, 1 << 30))
