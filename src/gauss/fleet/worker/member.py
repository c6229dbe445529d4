"""A member of a pipeline's consumer group."""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from gauss.clients.kafka.errors import sorted_errors
from gauss.clients.kafka.settings import client_conf
from gauss.fleet.config.kafka import KafkaConfig

POLL_SECONDS = 0.1


class GroupMember:
    """A paused member of a consumer group: Kafka assigns partitions to it, and Spark's tasks read them."""

    def __init__(self, kafka: KafkaConfig, group: str, ttl_ms: int) -> None:
        self._topic = kafka.topic
        self._given: list[int] = []
        self._taken: list[int] = []
        conf: dict[str, Any] = {
            **client_conf(kafka.settings()),
            "group.id": group,
            "session.timeout.ms": ttl_ms,
            "heartbeat.interval.ms": max(ttl_ms // 10, 500),
            "max.poll.interval.ms": max(ttl_ms, 300_000),
            "partition.assignment.strategy": "cooperative-sticky",
            "topic.metadata.refresh.interval.ms": 60_000,  # after which partitions that were added are assigned
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
        with sorted_errors(f"group {group}"):
            self._consumer = Consumer(conf)
            gone = self._on_revoke
            self._consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=gone, on_lost=gone)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign([TopicPartition(each.topic, each.partition, 0) for each in partitions])
        consumer.pause(partitions)
        self._given += [each.partition for each in partitions]

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """No range is in hand here: the thread that polls is the one that commits."""
        with contextlib.suppress(KafkaException):
            consumer.incremental_unassign(partitions)
        gone = {each.partition for each in partitions}
        self._given = [each for each in self._given if each not in gone]
        self._taken += gone

    def poll(self) -> tuple[list[int], list[int]]:
        """The partitions that were assigned and revoked since the last call."""
        found = self._consumer.poll(POLL_SECONDS)
        if found is not None and (error := found.error()) is not None and error.fatal():
            raise KafkaException(error)
        given, taken, self._given, self._taken = self._given, self._taken, [], []
        return given, taken

    def commit(self, offsets: dict[int, int]) -> None:
        """Shows tools how far the pipeline is. The store has the truth, so a failure does no harm."""
        with contextlib.suppress(KafkaException):
            wanted = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
            self._consumer.commit(offsets=wanted, asynchronous=True)

    def close(self) -> None:
        with contextlib.suppress(KafkaException):
            self._consumer.close()
