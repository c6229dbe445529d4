"""An idempotent producer that writes Arrow batches: no record is lost or doubled while its handle lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, Self

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from gauss.clients.errors import Unclear
from gauss.clients.kafka.errors import TOO_LARGE, TooLarge, from_code
from gauss.clients.kafka.library import PRODUCER, Handle, lib
from gauss.clients.kafka.outgoing import Partitioning, outgoing, record_sizes
from gauss.clients.kafka.produce_loop import fixed_arguments, produce_loop
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from gauss.model.errors import GaussError, Unavailable

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
DELIVERY_MS = 120_000
"""Time after which a record that no broker acknowledged counts as failed."""
BATCH_BYTES = 1_000_000
QUEUE_BYTES = 64 << 20
"""Size of the records that a producer holds. A larger record is refused."""
_LOOK_MS = 100
_SHORT_STEPS, _STEPS_BETWEEN_CHECKS = 20, 100
_FULL_MS = 2
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
_PURGE_ALL = 7
"""Queued and in flight, without waiting."""


def batch_bytes(most: int | None) -> int:
    """The size of batches for a topic, given its `max.message.bytes` if that is known."""
    return BATCH_BYTES if most is None else min(BATCH_BYTES, most)


class Producer:
    """For one thread at a time. `write` returns before the records are acknowledged, `flush` after. Only `close` may be
    called by another thread meanwhile."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        compression: Compression = "lz4",
        batch_bytes: int = BATCH_BYTES,
        delivery_ms: int = DELIVERY_MS,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        """`batch_bytes` must not exceed `max.message.bytes` of the topic: the broker refuses a larger batch whole. A
        record of more bytes is a batch by itself."""
        self._seconds = settings.request_timeout / 1000
        self._flush_seconds = delivery_ms / 1000 + 1
        self._failed: tuple[int, int] | None = None
        self.written = 0
        """The number of records that `write` was given, so that of the next one."""
        self.batch_bytes = batch_bytes
        self._using = threading.RLock()
        """Held for each call of the library, none of which takes long, so that the handle is not destroyed in one."""
        self._closer: int | None = None
        """The thread that closes the producer, if any."""
        self.on_wait: Callable[[], object] | None = None
        """Called about once a second while acknowledgements are awaited. It raises if none will come: the library is
        not told that a topic was deleted."""
        self.on_too_large: Callable[[int], None] | None = None
        """Called with the number of each record of a batch that its topic refuses because of its size. The others are
        written. Without it that is an error."""
        self._topics: dict[str, int] = {}
        self._handle = Handle(
            PRODUCER,
            {
                **client_conf(settings),
                "enable.idempotence": "true",
                "compression.codec": compression,
                "batch.size": str(batch_bytes),
                "message.max.bytes": str(1_000_000_000),  # the broker knows the limit
                "message.timeout.ms": str(delivery_ms),
                "delivery.report.only.error": "true",
                "queue.buffering.max.messages": "500000",
                "queue.buffering.max.kbytes": str(QUEUE_BYTES >> 10),
                "topic.metadata.propagation.max.ms": "5000",
                **(conf or {}),
            },
            self._on_failed,
        )

    def write(self, topic: str, batch: pa.RecordBatch, partitions: Partitioning | np.ndarray) -> None:
        """Gives the records of a batch (`outgoing`) to the producer; waits while its queue is full. The first error of
        an earlier record may be raised here."""
        columns = outgoing(batch, partitions)
        with self._used():
            fixed_arguments(columns.vus, self._topic(topic))
        produce, error = produce_loop(), np.zeros(1, np.int64)
        row, since = 0, time.monotonic()
        while row < batch.num_rows:
            before = row
            with self._used() as pointer:
                row = produce(pointer, row, self.written, columns, error)
                lib().rd_kafka_poll(pointer, _FULL_MS if error[0] == KafkaError._QUEUE_FULL else 0)
                if error[0]:
                    self._raise_failed()
                if error[0] and self._never_fits(batch, row, int(error[0])):
                    self._on_failed(KafkaError.MSG_SIZE_TOO_LARGE, self.written + row)
                    self._raise_failed()
                    row, error[0] = row + 1, 0
            if row > before:
                since = time.monotonic()
            if error[0] and error[0] != KafkaError._QUEUE_FULL:
                raise from_code(int(error[0]), subject=f"topic {topic}")
            if time.monotonic() - since > self._flush_seconds:
                raise self._handle.errors.instead_of(
                    Unavailable(f"Kafka: topic {topic}: the producer's queue has been full for too long")
                )
        self.written += batch.num_rows

    @staticmethod
    def _never_fits(batch: pa.RecordBatch, row: int, code: int) -> bool:
        """Whether the library did not take a record because it is too large, not because of others before it."""
        return code in TOO_LARGE or (
            code == KafkaError._QUEUE_FULL and record_sizes(batch.slice(row, 1))[0] > QUEUE_BYTES
        )

    def flush(self) -> None:
        """Returns when all records are acknowledged. Raises the error of the first one that is not."""
        deadline = time.monotonic() + self._flush_seconds
        steps = 0  # since acknowledged records do not wake the call, it returns after 10 ms, or its timeout if shorter
        while self._flush_step(1 if steps < _SHORT_STEPS else _LOOK_MS):
            steps += 1
            if steps % _STEPS_BETWEEN_CHECKS == 0 and self.on_wait is not None:
                with suppress(Unavailable):
                    self.on_wait()
            if time.monotonic() > deadline:
                raise self._handle.errors.instead_of(
                    Unclear("Kafka: records were not acknowledged in time", hint="read the position first")
                )
        self._handle.errors.clear()

    def _flush_step(self, timeout_ms: int) -> bool:
        """Whether records are still to be acknowledged."""
        with self._used() as pointer:
            left = lib().rd_kafka_flush(pointer, timeout_ms)
            self._raise_failed()
            return bool(left)

    def close(self) -> None:
        """Discards what was not flushed. A call that waits in another thread ends with Unavailable. Idempotent."""
        self._closer = threading.get_ident()
        with self._using:
            if not self._handle.pointer:
                return
            lib().rd_kafka_purge(self._handle.pointer, _PURGE_ALL)
            for topic in self._topics.values():
                lib().rd_kafka_topic_destroy(topic)
            self._topics.clear()
            self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _used(self) -> Iterator[int]:
        """The pointer for one call of the library; raises Unavailable if the producer is closed."""
        with self._using:
            if not self._handle.pointer or self._closer not in (None, threading.get_ident()):
                raise Unavailable("Kafka: the producer is closed", hint="open a new one")
            yield self._handle.pointer

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            made = lib().rd_kafka_topic_new(self._handle.pointer, name.encode(), None)
            if not made:
                raise from_code(lib().rd_kafka_last_error(), subject=f"topic {name}")
            self._topics[name] = made
        return self._topics[name]

    def _on_failed(self, code: int, number: int) -> None:
        if code in TOO_LARGE and self.on_too_large is not None:
            self.on_too_large(number)
        elif self._failed is None and code not in _PURGED:  # by an abort, or after another error
            self._failed = code, number

    def _raise_failed(self) -> None:
        """Raises why the producer can't go on: a fatal error, a record that failed, brokers that refuse this client."""
        code, text = self._handle.fatal()
        if code:
            raise from_code(code, text, fatal=True)
        if self._failed is not None:
            code, number = self._failed
            self._failed = None
            error = from_code(code, subject=f"record {number} of this producer")
            if isinstance(error, TooLarge):
                error.number = number
            raise self._handle.errors.instead_of(error)
        if refused := self._handle.errors.refused():
            raise refused

    def _reason(self, error: GaussError) -> GaussError:
        """The error that came first, if the given one only follows from it."""
        try:
            self._raise_failed()
        except GaussError as found:
            return found
        return error
