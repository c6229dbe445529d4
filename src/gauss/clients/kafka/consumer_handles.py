"""Consumer handles of this process, kept for the next range: a new one costs 10 ms, a connection and some threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int64

import numpy as np

from gauss.clients.kafka.errors import from_code
from gauss.clients.kafka.library import CONSUMER, Handle, PartitionList, lib
from gauss.clients.kafka.reading import Range

KEPT = 4
"""Idle handles per cluster."""
Conf = tuple[tuple[str, str], ...]


class ConsumerHandle:
    """A consumer that reads one partition at a time, for one thread at a time."""

    def __init__(self, conf: Conf) -> None:
        self._handle = Handle(CONSUMER, dict(conf))
        self.errors = self._handle.errors
        lib().rd_kafka_poll_set_consumer(self._handle.pointer)
        self._queue = lib().rd_kafka_queue_get_consumer(self._handle.pointer)

    def assign(self, wanted: Range) -> int:
        """Begins to fetch the partition at the start of the range, which it returns."""
        with PartitionList() as partitions:
            partitions.add(wanted.topic, wanted.partition, wanted.start)
            if code := lib().rd_kafka_assign(self._handle.pointer, partitions.pointer):
                raise from_code(code, subject=str(wanted))
        return wanted.start

    def unassign(self) -> None:
        """Stops to fetch, and discards what was fetched."""
        lib().rd_kafka_assign(self._handle.pointer, None)

    def consume(self, timeout_ms: int, messages: np.ndarray, count: int) -> int:
        """Writes up to `count` addresses of messages. Returns after the timeout unless all have come."""
        return _consume(self._queue, timeout_ms, messages, count)

    def leave(self, rest: np.ndarray, position: int) -> None:  # noqa: ARG002
        """Ends a range. `rest`: the messages that were consumed but do not belong to it."""
        _destroy(rest)

    def watermarks(self, wanted: Range, timeout_ms: int) -> tuple[int, int]:
        """The earliest offset and the end of a partition."""
        return _watermarks(self._handle, wanted, timeout_ms)

    def close(self) -> None:
        lib().rd_kafka_queue_destroy(self._queue)
        self._handle.close()


class SharedConsumer:
    """A consumer that fetches any number of partitions, each into a queue of its own."""

    def __init__(self, conf: Conf) -> None:
        self.handle = Handle(CONSUMER, dict(conf))
        lib().rd_kafka_poll_set_consumer(self.handle.pointer)
        self._events = lib().rd_kafka_queue_get_consumer(self.handle.pointer)

    def serve(self) -> None:
        """Takes the errors of connections; several threads may call it."""
        message = np.zeros(1, np.int64)
        _destroy(message[: _consume(self._events, 0, message, 1)])

    def close(self) -> None:
        lib().rd_kafka_queue_destroy(self._events)
        self.handle.close()


class PartitionFeed:
    """One partition of a shared consumer, for one thread at a time. It goes on to be fetched between two ranges."""

    def __init__(self, consumer: SharedConsumer, topic: str, partition: int) -> None:
        self.consumer, self._topic, self._partition = consumer, topic, partition
        self.key = (consumer, topic, partition)
        self.errors = consumer.handle.errors
        self._queue = lib().rd_kafka_queue_get_partition(consumer.handle.pointer, topic.encode(), partition)
        # Before it is assigned, or records would go to the consumer's queue.
        lib().rd_kafka_queue_forward(self._queue, None)
        self._topic_id, self._next = "", -1
        self._position = 0
        """Everything before it was consumed; behind `_next` if the library has said that nothing is in between."""
        self._rest = np.zeros(0, np.int64)

    def assign(self, wanted: Range) -> int:
        """Fetches from the start of the range on, if it does not do so already. Returns the offset before which nothing
        is left to consume."""
        if (wanted.topic_id, wanted.start) != (self._topic_id, self._next):
            self._unassign()
            self._change("rd_kafka_incremental_assign", wanted.start)
            self._topic_id, self._position = wanted.topic_id, wanted.start
        self._next = wanted.end
        return self._position

    def consume(self, timeout_ms: int, messages: np.ndarray, count: int) -> int:
        """As `ConsumerHandle.consume`."""
        if len(self._rest):
            taken, self._rest = self._rest[:count], self._rest[count:]
            messages[: len(taken)] = taken
            return len(taken)
        found = _consume(self._queue, timeout_ms, messages, count)
        if not found:
            self.consumer.serve()
        return found

    def leave(self, rest: np.ndarray, position: int) -> None:
        """Ends a range. `rest`: the messages that were consumed but belong to a later one."""
        self._rest = np.concatenate([rest, self._rest])
        self._position = position

    def watermarks(self, wanted: Range, timeout_ms: int) -> tuple[int, int]:
        """The earliest offset and the end of the partition."""
        return _watermarks(self.consumer.handle, wanted, timeout_ms)

    def _change(self, function: str, offset: int) -> None:
        with PartitionList() as partitions:
            partitions.add(self._topic, self._partition, offset)
            failed = getattr(lib(), function)(self.consumer.handle.pointer, partitions.pointer)
        if failed:
            code = lib().rd_kafka_error_code(failed)
            text = (lib().rd_kafka_error_string(failed) or b"").decode(errors="replace")
            lib().rd_kafka_error_destroy(failed)
            raise from_code(code, text, f"topic {self._topic}, partition {self._partition}")

    def _unassign(self) -> None:
        _destroy(self._rest)
        self._rest = self._rest[:0]
        if self._next >= 0:
            self._next = -1
            self._change("rd_kafka_incremental_unassign", -1)

    def close(self) -> None:
        """Stops to fetch the partition."""
        try:
            self._unassign()
        finally:
            lib().rd_kafka_queue_destroy(self._queue)


def _consume(queue: int, timeout_ms: int, messages: np.ndarray, count: int) -> int:
    found: int = lib().rd_kafka_consume_batch_queue(queue, timeout_ms, messages.ctypes.data, count)
    if found < 0:
        raise from_code(lib().rd_kafka_last_error())
    return found


def _destroy(messages: np.ndarray) -> None:
    for message in messages:
        lib().rd_kafka_message_destroy(int(message))


def _watermarks(handle: Handle, wanted: Range, timeout_ms: int) -> tuple[int, int]:
    low, high = c_int64(-1), c_int64(-1)
    code = lib().rd_kafka_query_watermark_offsets(
        handle.pointer, wanted.topic.encode(), wanted.partition, ctypes.byref(low), ctypes.byref(high), timeout_ms
    )
    if code:
        raise from_code(code, subject=str(wanted))
    return low.value, high.value


_idle: dict[Conf, list[ConsumerHandle]] = {}
_lock = threading.Lock()


@contextmanager
def consumer(conf: dict[str, str]) -> Iterator[ConsumerHandle]:
    """A handle for one range: one that was used before if there is one. After an error it is not used again."""
    key = tuple(sorted(conf.items()))
    with _lock:
        kept = _idle.get(key)
        handle = kept.pop() if kept else None
    if handle is None:
        handle = ConsumerHandle(key)
    try:
        yield handle
    except Exception:
        handle.close()
        raise
    except GeneratorExit:  # the reader of the range wants no more of it
        _keep(key, handle)
        raise
    _keep(key, handle)


def _keep(key: Conf, handle: ConsumerHandle) -> None:
    handle.unassign()
    with _lock:
        kept = _idle.setdefault(key, [])
        if len(kept) < KEPT:
            kept.append(handle)
            return
    handle.close()


def close_idle() -> None:
    """Ends the idle handles of this process."""
    with _lock:
        handles = [handle for kept in _idle.values() for handle in kept]
        _idle.clear()
    for handle in handles:
        handle.close()


def _forked() -> None:
    """Forgets the handles of the parent, whose threads are not in this process, and a lock that one may have held."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_forked)
