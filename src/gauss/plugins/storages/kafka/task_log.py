"""A Kafka topic as Spark's tasks read and write it, without the engine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa

from gauss.clients.kafka.admin import Admin, Topic
from gauss.clients.kafka.following_reader import FollowingReader
from gauss.clients.kafka.reading import Range
from gauss.clients.kafka.settings import KafkaSettings
from gauss.contracts.format import Format
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.shared_log import LaneWriter
from gauss.contracts.storage import no_format
from gauss.model.errors import NotFound, Rejected
from gauss.plugins.storages.kafka import identity as identities
from gauss.plugins.storages.kafka.lane_writer import KafkaLane, LaneOwner
from gauss.plugins.storages.kafka.partition import Missed, existing_range, keyed_range
from gauss.plugins.storages.kafka.repeating_lane import RepeatingLane
from gauss.plugins.storages.kafka.snapshot import Snapshot, row_keys
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig

KNOWN_SECONDS = 1.0
"""Age up to which the description of a topic is used before a range is read; after it a new one is asked for."""


class KafkaTaskLog:
    """A `TaskLog`. It may be sent to another machine, where the topic's folder is missing: it takes the incarnations
    that it knows along."""

    def __init__(self, config: PluginConfig, folder: Path, format_: Callable[[str], Format] = no_format) -> None:
        self._config, self._folder, self._format = cast(KafkaTopicConfig, config), folder, format_
        self._topic_ids: dict[int, str] = {}
        self._writer = ""
        self.topic = self._config.name(folder.name)
        self._load()

    def _load(self) -> None:
        found = identities.stored(self._folder)
        if found is not None:
            self.topic, self._writer = found.topic, found.writer
            self._topic_ids = {inc: topic_id for topic_id, inc in found.history} | {found.inc: found.topic_id}

    def read(self, inc: int, partition: int, start: int, stop: int, missed: Missed) -> Iterator[pa.RecordBatch]:
        self._check(inc, KNOWN_SECONDS)
        wanted = Range(self.topic, partition, start, stop, self._topic_id(inc))
        return keyed_range(_brokers(self._config).reader, wanted, lambda: self.check(inc), missed)

    def check(self, inc: int) -> None:
        self._check(inc, 0)

    def snapshot(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        config, brokers = self._config, _brokers(self._config)
        described = brokers.described(self.topic, 0)
        numbers = [each.number for each in described.partitions]
        ends, floors = brokers.admin.stable(self.topic, numbers), brokers.admin.earliest(self.topic, numbers)
        found = Snapshot(self.topic, row_keys(config, self._format), config.snapshot_bytes)
        for number in numbers:
            wanted = Range(self.topic, number, floors[number], ends[number], described.topic_id)
            found.add(number, existing_range(brokers.reader, wanted, lambda: self._same(described), lambda *_: None))
        self._same(described)
        return found.batches()

    def _same(self, described: Topic) -> None:
        """Raises Rejected if the topic was deleted or made anew since it was described."""
        try:
            found = _brokers(self._config).described(self.topic, 0).topic_id
        except NotFound:
            found = ""
        if found != described.topic_id:
            happened = "deleted and made anew" if found else "deleted"
            raise Rejected(f"Kafka: topic {self.topic} was {happened} while it was read", hint="read it again")

    def partitions(self) -> int:
        return len(_brokers(self._config).described(self.topic, KNOWN_SECONDS).partitions)

    def lane(self, writer: str, number: int, since_ms: int) -> LaneWriter:
        admin = _brokers(self._config).admin
        if not self._config.transactions:
            return RepeatingLane(self._config, admin, self.topic, self.partitions)
        name, owner = f"gauss.{writer}.{self.topic}.{number}", LaneOwner(self._writer, since_ms)
        return KafkaLane(self._config, admin, self.topic, self.partitions, name, owner=owner)

    def close(self) -> None:
        """Does nothing: the connections of this process serve the next task too."""

    def _topic_id(self, inc: int) -> str:
        if inc not in self._topic_ids:
            self._load()
        if inc not in self._topic_ids:
            raise Rejected(
                f"Kafka: topic {self.topic}: incarnation {inc} is not known here",
                hint="the topic was deleted and made anew: ask the engine for its incarnation",
            )
        return self._topic_ids[inc]

    def _check(self, inc: int, max_age: float) -> None:
        topic_id = self._topic_id(inc)
        try:
            found = _brokers(self._config).described(self.topic, max_age).topic_id
        except NotFound:
            found = ""
        if found != topic_id:
            happened = "made anew" if found else "deleted"
            raise Rejected(
                f"Kafka: topic {self.topic} is no longer that of incarnation {inc}: it was {happened}",
                hint="discard what was read, and ask the engine for the topic's incarnation",
            )


class _Brokers:
    """The clients of one cluster in this process."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.admin = Admin(settings)
        self.reader = FollowingReader(settings)
        self._topics: dict[str, tuple[float, Topic]] = {}

    def described(self, topic: str, max_age: float) -> Topic:
        """The topic as it is now, or was at most `max_age` seconds ago."""
        asked, found = self._topics.get(topic, (0.0, None))
        if found is None or time.monotonic() - asked >= max_age:
            asked = time.monotonic()
            self._topics.pop(topic, None)
            found = self.admin.describe(topic)
            self._topics[topic] = asked, found
        return found


_clusters: dict[str, _Brokers] = {}
_of_parents: list[dict[str, _Brokers]] = []
_lock = threading.Lock()


def _brokers(config: KafkaSettings) -> _Brokers:
    key = repr([(name, getattr(config, name)) for name in KafkaSettings.model_fields])
    with _lock:
        if key not in _clusters:
            _clusters[key] = _Brokers(config)
        return _clusters[key]


def _forked() -> None:
    """Forgets the clients of the parent, whose threads are not in this process, and a lock that one may have held."""
    global _lock
    _lock = threading.Lock()
    _of_parents.append(dict(_clusters))  # to end a client would wait for threads that are not in this process
    _clusters.clear()


os.register_at_fork(after_in_child=_forked)
