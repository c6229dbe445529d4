"""A transactional producer: records and the position they stand for become visible together, or not at all."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError

from gauss.clients.errors import Unclear
from gauss.clients.kafka.errors import ProducerLost, from_code
from gauss.clients.kafka.library import PartitionList, lib
from gauss.clients.kafka.producer import BATCH_BYTES, Compression, Producer
from gauss.clients.kafka.settings import KafkaSettings
from gauss.model.errors import ConfigError, Fenced, GaussError, Unavailable

TIMEOUT_MS = 60_000
"""Maximum time of a transaction; the broker aborts one that takes longer."""
POSITION_SECONDS = 10.0
MOST_METADATA = 4096
_STEP_MS = 1_000
_ABORT_SECONDS = 5.0


class TransactionalProducer(Producer):
    """One transaction after the other: `begin`, `write`, `position`, `commit`.

    Opening it aborts the open transaction of its predecessor with the same transactional id, and fences it. After an
    error it is of no more use: close it, open a new one, read the position and decide. (After a record that the broker
    refused, librdkafka leaves a gap in its sequence numbers, so that an abort does not help.)
    """

    def __init__(
        self,
        settings: KafkaSettings,
        transactional_id: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        compression: Compression = "lz4",
        batch_bytes: int = BATCH_BYTES,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            settings,
            compression=compression,
            batch_bytes=batch_bytes,
            delivery_ms=timeout_ms,
            conf={
                "transactional.id": transactional_id,
                "transaction.timeout.ms": str(timeout_ms),
                "socket.timeout.ms": str(min(timeout_ms, settings.request_timeout)),  # the library insists
                **(conf or {}),
            },
        )
        self._id = transactional_id
        self._open = False
        try:
            self._call("init", lambda pointer: lib().rd_kafka_init_transactions(pointer, _STEP_MS))
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        self._failed = None
        self._call("begin", lambda pointer: lib().rd_kafka_begin_transaction(pointer))
        self._open = True

    def position(self, group: str, topic: str, partition: int, offset: int, metadata: Mapping[str, Any]) -> None:
        """Makes a position part of the transaction, as the group's offset of an existing partition with metadata.
        `Admin.committed` reads it."""
        text = json.dumps(metadata, separators=(",", ":")).encode()
        if len(text) > MOST_METADATA:
            raise ConfigError(f"the metadata of a position takes {len(text)} bytes; expected at most {MOST_METADATA}")
        self.flush()  # else the call waits for the linger time

        def send(pointer: int) -> int | None:
            member = lib().rd_kafka_consumer_group_metadata_new(group.encode())
            try:
                with PartitionList() as offsets:
                    offsets.add(topic, partition, offset, text)
                    failed: int | None = lib().rd_kafka_send_offsets_to_transaction(
                        pointer, offsets.pointer, member, _STEP_MS
                    )
                    return failed
            finally:
                lib().rd_kafka_consumer_group_metadata_destroy(member)

        self._call("position", lambda pointer: self._returned(lambda: send(pointer)))

    def _returned(self, send: Callable[[], int | None]) -> int | None:
        """The result of a call in a thread of its own, since it ignores its timeout and waits for ever once the group's
        coordinator was gone (librdkafka issues 5456 and 5511). Such a handle can't be closed either."""
        failed = queue.SimpleQueue[int | None]()
        threading.Thread(target=lambda: failed.put(send()), daemon=True).start()
        try:
            return failed.get(timeout=min(self._seconds, POSITION_SECONDS))
        except queue.Empty:
            self._handle.abandon()
            lost = ProducerLost(f"Kafka: transactional id {self._id}: the position was not accepted in time")
            raise self._handle.errors.instead_of(lost) from None

    def commit(self) -> None:
        """Returns when the transaction is decided. After Unclear it may have been committed."""
        self.flush()
        try:
            self._call("commit", lambda pointer: lib().rd_kafka_commit_transaction(pointer, _STEP_MS))
        except Unavailable as error:
            if isinstance(error, ProducerLost):
                raise
            raise Unclear(error.message, hint="open a new writer and read its position") from error
        self._open = False

    def abort(self) -> None:
        """Discards the open transaction."""
        self._call("abort", lambda pointer: lib().rd_kafka_abort_transaction(pointer, _STEP_MS))
        self._open, self._failed = False, None

    def close(self) -> None:
        """Aborts an open transaction if the brokers answer soon, and ends the handle. Else as `Producer.close`."""
        self._closer = threading.get_ident()
        with self._using:
            if self._handle.pointer and self._open and not self._handle.fatal()[0]:
                self._seconds = min(self._seconds, _ABORT_SECONDS)
                with suppress(GaussError):  # the broker, or the next producer of this id, aborts it
                    self.abort()
            super().close()

    def _call(self, what: str, function: Callable[[int], int | None]) -> None:
        """Calls a function of the handle that returns a `rd_kafka_error_t`, again as long as a retry helps."""
        subject = f"transactional id {self._id}, {what}"
        deadline = time.monotonic() + self._seconds
        while True:
            with self._used() as pointer:
                failed = function(pointer)
                if not failed:
                    break
                code = lib().rd_kafka_error_code(failed)
                text = (lib().rd_kafka_error_string(failed) or b"").decode(errors="replace")
                again = lib().rd_kafka_error_is_retriable(failed) or code == KafkaError._TIMED_OUT
                fatal = bool(lib().rd_kafka_error_is_fatal(failed))
                lib().rd_kafka_error_destroy(failed)
                lib().rd_kafka_poll(pointer, 0)
                error = self._reason(from_code(code, text, subject, fatal=fatal))
            if isinstance(error, Fenced) or fatal or not again or time.monotonic() > deadline:
                raise self._handle.errors.instead_of(error)
            if refused := self._handle.errors.refused():
                raise refused
        self._handle.errors.clear()
