"""Reads ranges of partitions through librdkafka's batch call and a compiled loop: no Python object per record."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterator
from threading import Event
from typing import Protocol

import numpy as np
import pyarrow as pa

from gauss.clients.kafka.consumer_handles import KEPT, consumer
from gauss.clients.kafka.copy_loop import (
    COPIED,
    DONE,
    FAILED,
    FULL,
    NEXT,
    POSITION,
    copy_loop,
)
from gauss.clients.kafka.errors import ConnectionErrors, OffsetOutOfRange, from_code
from gauss.clients.kafka.library import ERROR, lib
from gauss.clients.kafka.reading import DEFAULT_BOUNDS, IGNORED, Bounds, Progress, Range, out_of_range, reader_conf
from gauss.clients.kafka.record_batches import BatchBuffers
from gauss.clients.kafka.settings import KafkaSettings
from gauss.model.errors import Unavailable

QUEUE_BYTES = 8 << 20
"""Bytes fetched ahead. What is fetched beyond a range's end is thrown away."""
TAKEN = 16_384
"""Messages taken from librdkafka at once."""
WAIT_MS = 10


class CompiledReader:
    """A `RangeReader` for one thread at a time."""

    def __init__(self, settings: KafkaSettings, *, queue_bytes: int = QUEUE_BYTES) -> None:
        self._settings = settings
        self._conf = reader_conf(settings, queue_bytes=queue_bytes)

    def read(
        self, wanted: Range, bounds: Bounds = DEFAULT_BOUNDS, stop: Event | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        if wanted.start >= wanted.end:
            return
        for stale in range(KEPT, -1, -1):
            started = False
            try:
                with consumer(self._conf) as handle:
                    for batch in RangeRead(handle, wanted, bounds, self._settings).batches(stop):
                        started = True
                        yield batch
                return
            except OffsetOutOfRange as error:
                # A handle that has read a topic of the same name before takes its epochs for those of the new one, and
                # the new one for cut. Such a handle is not used again.
                if started or not stale or not error.earliest <= wanted.start < error.end:
                    raise


class Messages(Protocol):
    """The messages of one partition, as `ConsumerHandle` and `PartitionFeed` get them from librdkafka."""

    errors: ConnectionErrors

    def assign(self, wanted: Range) -> int: ...

    def consume(self, timeout_ms: int, messages: np.ndarray, count: int) -> int: ...

    def leave(self, rest: np.ndarray, position: int) -> None: ...

    def watermarks(self, wanted: Range, timeout_ms: int) -> tuple[int, int]: ...


class RangeRead:
    """One range on its way through the buffers."""

    def __init__(self, handle: Messages, wanted: Range, bounds: Bounds, settings: KafkaSettings) -> None:
        self._handle, self._wanted, self._bounds, self._settings = handle, wanted, bounds, settings
        self._messages = np.zeros(TAKEN, np.int64)
        self._count = 0
        rows = min(bounds.rows, wanted.end - wanted.start)
        self._buffers = BatchBuffers(rows, bounds.bytes)
        self._state = self._buffers.arrays.state
        self._progress = Progress(wanted, settings, handle.errors)
        self._copy = copy_loop()

    def batches(self, stop: Event | None) -> Iterator[pa.RecordBatch]:
        self._state[POSITION] = self._handle.assign(self._wanted)
        try:
            while self._state[POSITION] < self._wanted.end and not (stop and stop.is_set()):
                if self._state[NEXT] == self._count:
                    self._take()
                result = self._copy(
                    self._messages, self._count, self._wanted.end, self._bounds.bytes, self._buffers.arrays
                )
                if result == FAILED:
                    self._on_failed()
                elif result in (FULL, DONE):
                    if self._buffers.rows:
                        yield self._buffers.take()
                    if result == DONE:
                        return
                elif result != COPIED:
                    self._buffers.grow(result)
        finally:
            self._handle.leave(self._messages[int(self._state[NEXT]) : self._count].copy(), int(self._state[POSITION]))
            self._count = self._state[NEXT] = 0

    def _take(self) -> None:
        left = self._wanted.end - int(self._state[POSITION])
        self._state[NEXT] = self._count = 0
        self._count = self._handle.consume(WAIT_MS, self._messages, max(1, min(left, TAKEN)))
        if self._count == 0:
            self._progress.at(int(self._state[POSITION]))

    def _on_failed(self) -> None:
        """Raises the error of the next message, unless librdkafka tries again by itself."""
        message = int(self._messages[self._state[NEXT]])
        code = ctypes.c_int32.from_address(message + ERROR).value
        text = (lib().rd_kafka_message_errstr(message) or b"").decode(errors="replace")
        error = from_code(code, text, str(self._wanted))
        lib().rd_kafka_message_destroy(message)
        self._state[NEXT] += 1
        if code in IGNORED:
            return
        if isinstance(error, OffsetOutOfRange):
            raise out_of_range(self._wanted, self._watermarks)
        if not isinstance(error, Unavailable):
            raise error
        self._handle.errors.note(code, text)
        self._progress.at(int(self._state[POSITION]))

    def _watermarks(self) -> tuple[int, int]:
        return self._handle.watermarks(self._wanted, self._settings.request_timeout)
