"""Writes the records that the engine itself appends, such as those of a TCP source."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.producer import Producer, batch_bytes
from gauss.contracts.chunk import Chunk
from gauss.model.errors import Unavailable
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig
from gauss.plugins.storages.kafka.too_large import write_all
from gauss.plugins.storages.kafka.written_fields import WrittenFields

PARTITION_BYTES = 256 << 10
"""Bytes after which the next partition is written. Records that were received together stay together: in order, and
well compressed."""


class Appender:
    """Keeps records in memory until they are sent. For one thread at a time; only `end` may be called by another one
    meanwhile."""

    def __init__(self, config: KafkaTopicConfig, admin: Admin, topic: str, fields: WrittenFields) -> None:
        self._config, self._admin, self._topic, self._fields = config, admin, topic, fields
        self._partitioning = Partitioning(1)
        self._producer: Producer | None = None
        self._opening = threading.Lock()
        self._ended = False
        self._staged: list[pa.RecordBatch] = []
        self._partition = self._written = 0
        self.staged_bytes = 0
        self.refused: list[pa.RecordBatch] = []
        """Records that the topic refused because of their size, until they are taken."""

    def stage(self, chunk: Chunk) -> None:
        self._staged.append(self._fields.batch(chunk))
        self.staged_bytes += self._staged[-1].column("data").nbytes

    def discard(self) -> None:
        self._staged, self.staged_bytes = [], 0

    @property
    def staged(self) -> int:
        """Number of staged records."""
        return sum(batch.num_rows for batch in self._staged)

    def send(self, partitions: int) -> list[int]:
        """Writes what is staged: to the partitions that fields choose, else to one. Returns those partitions once the
        brokers have acknowledged all that is not `refused`.

        After an error nothing is staged any more, and some of the records may have been written.
        """
        batches, size = self._staged, self.staged_bytes
        self.discard()
        if partitions != self._partitioning.partitions:  # an open producer would learn of new ones minutes later
            self._close()
            self._partitioning = Partitioning(partitions)
        written = np.zeros(partitions, bool)

        def chosen(batch: pa.RecordBatch) -> np.ndarray:
            found = self._chosen(batch)
            written[found] = True
            return found

        try:
            self.refused += write_all(self._opened, self._topic, batches, chosen)
        except BaseException as error:
            self._close()
            if self._ended and isinstance(error, Unavailable):
                raise self._was_ended() from error
            raise
        self._written += size
        if self._written >= PARTITION_BYTES:
            self._partition, self._written = (self._partition + 1) % partitions, 0
        return np.flatnonzero(written).tolist()

    def _chosen(self, batch: pa.RecordBatch) -> np.ndarray:
        """The partition of each record."""
        if "key" in batch.schema.names or "partition" in batch.schema.names:
            return self._partitioning.of(batch)
        return np.full(batch.num_rows, self._partition % self._partitioning.partitions, np.int32)

    def _opened(self, most_bytes: int) -> Producer:
        """A producer whose batches have at most so many bytes."""
        found = self._producer
        if found is None or found.batch_bytes > most_bytes:
            self._close()
            limit = min(most_bytes, batch_bytes(self._admin.max_batch_bytes(self._topic)))
            with self._opening:
                if self._ended:
                    raise self._was_ended()
                found = Producer(self._config, compression=self._config.compression, batch_bytes=limit)
                self._producer = found
        return found

    def _was_ended(self) -> Unavailable:
        return Unavailable(
            f"Kafka: topic {self._topic} was closed before its brokers acknowledged the records",
            hint="the engine is stopping; some of the records may have been written",
        )

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def end(self) -> None:
        """Closes it for good. A `send` that waits in another thread ends with Unavailable."""
        with self._opening:
            self._ended = True
        self._close()
