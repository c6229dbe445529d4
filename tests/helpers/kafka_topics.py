"""Kafka topics as the engine opens them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from gauss import registry
from gauss.config.formats import build_format
from gauss.contracts.storage import StorageSpec
from gauss.plugins.storages.kafka.shared_log import KafkaLog
from gauss.plugins.storages.kafka.task_log import KafkaTaskLog
from helpers.kafka import SecuredBroker
from helpers.logs import data, open_log
from helpers.waiting import wait_until

SPEC = registry.spec(StorageSpec, "kafka")

QUOTED = {"name": "price", "type": "double"}


class Topics:
    """Opens Kafka topics, and closes them at the end of the test."""

    def __init__(self, kafka: SecuredBroker, folder: Path) -> None:
        self.kafka, self.folder = kafka, folder
        self._opened: list[KafkaLog] = []
        self._incs = itertools.count(7)

    def open(self, config: dict[str, Any] | None = None, **given: Any) -> KafkaLog:
        """A new topic; with `config` the one that it names. The topic's folder is always the same."""
        wanted = config or self.kafka.topic(**given)
        formats = {"json": build_format("json", {}), "quote": build_format("json", {"fields": [QUOTED]})}
        log = open_log("kafka", self.folder, wanted, incarnation=self._incarnation, formats=formats)
        self._opened.append(cast(KafkaLog, log))
        return self._opened[-1]

    def _incarnation(self, stored: int) -> int:
        return stored or next(self._incs)

    def close(self) -> None:
        for log in self._opened:
            log.close()


def end_now(log: KafkaLog) -> int:
    """The end of a log after a look at the brokers."""
    log.look()
    return log.end


def opened(topics: Topics, **given: Any) -> tuple[KafkaLog, KafkaTaskLog]:
    """A new topic as the engine and as a task know it."""
    config = topics.kafka.topic(**given)
    return topics.open(config), KafkaTaskLog(SPEC.validate(config), topics.folder / "topic")


def numbers(log: KafkaLog, count: int) -> list[list[int]]:
    """The numbers in each partition, once so many are visible."""
    wait_until(lambda: end_now(log) and len(data(log)) >= count, what=lambda: data(log))
    return [
        [int(each) for batch in part.records(part.floor, part.end) for each in batch.column("data").to_pylist()]
        for part in log.partitions()
    ]


def none_refused(records: pa.RecordBatch) -> None:
    """For a write in which no record is too large."""
    raise AssertionError(f"{records.num_rows} records are refused")
