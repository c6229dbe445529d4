"""Writes epochs to a Kafka topic without transactions: an epoch that is repeated is written again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.producer import BATCH_BYTES, Producer, batch_bytes
from gauss.contracts.shared_log import Refused
from gauss.model.errors import Unavailable
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig
from gauss.plugins.storages.kafka.too_large import write_all


class RepeatingLane:
    """A `LaneWriter` without transactions."""

    def __init__(self, config: KafkaTopicConfig, admin: Admin, topic: str, partitions: Callable[[], int]) -> None:
        self._config, self._admin, self._topic, self._partitions = config, admin, topic, partitions
        self._open()

    def _open(self, most_bytes: int = BATCH_BYTES) -> None:
        self._partitioning = Partitioning(self._partitions(), by_key=self._config.partition_by == "key")
        limit = min(most_bytes, batch_bytes(self._admin.max_batch_bytes(self._topic)))
        self._producer = Producer(self._config, compression=self._config.compression, batch_bytes=limit)
        self._producer.on_wait = self._partitions

    def committed(self) -> Mapping[str, Any] | None:
        return None

    def _opened(self, most_bytes: int) -> Producer:
        """A producer whose batches have at most so many bytes."""
        if self._producer.batch_bytes > most_bytes:
            self._producer.close()
            self._open(most_bytes)
        return self._producer

    def write(
        self,
        batches: Sequence[pa.RecordBatch],
        name: Mapping[str, Any],  # noqa: ARG002 (not kept)
        refused: Refused,
    ) -> None:
        count = self._partitions()
        if count != self._partitioning.partitions:  # an open producer would learn of new ones minutes later
            self._producer.close()
            self._open()
        try:
            for each in write_all(self._opened, self._topic, batches, self._chosen):
                refused(each)
        except Unavailable:
            with suppress(Unavailable):
                self._partitions()  # raises NotFound if the topic is gone, which no retry mends
            raise

    def _chosen(self, batch: pa.RecordBatch) -> np.ndarray:
        return self._partitioning.of(batch)

    def repeat(self, batches: Sequence[pa.RecordBatch], refused: Refused) -> None:
        """Does nothing: no epoch is recognised."""

    def close(self) -> None:
        self._producer.close()
