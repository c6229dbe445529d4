"""Consumer handles of this process, kept for the next range: a new one costs 10 ms, a connection and some threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int64

from gauss.clients.kafka.errors import from_code
from gauss.clients.kafka.library import CONSUMER, Handle, PartitionList, lib
from gauss.clients.kafka.reading import Range

KEPT = 4
"""Idle handles per cluster."""
_Conf = tuple[tuple[str, str], ...]


class ConsumerHandle:
    """A consumer that reads one partition at a time, for one thread at a time."""

    def __init__(self, conf: _Conf) -> None:
        self._handle = Handle(CONSUMER, dict(conf))
        self.errors = self._handle.errors
        lib().rd_kafka_poll_set_consumer(self._handle.pointer)
        self._queue = lib().rd_kafka_queue_get_consumer(self._handle.pointer)

    def assign(self, wanted: Range) -> None:
        """Begins to fetch the partition at the start of the range."""
        with PartitionList() as partitions:
            partitions.add(wanted.topic, wanted.partition, wanted.start)
            if code := lib().rd_kafka_assign(self._handle.pointer, partitions.pointer):
                raise from_code(code, subject=str(wanted))

    def unassign(self) -> None:
        """Stops to fetch, and discards what was fetched."""
        lib().rd_kafka_assign(self._handle.pointer, None)

    def consume(self, timeout_ms: int, messages: int, count: int) -> int:
        """Writes up to `count` addresses of messages to the address `messages`. Returns after the timeout unless all
        have come."""
        found: int = lib().rd_kafka_consume_batch_queue(self._queue, timeout_ms, messages, count)
        if found < 0:
            raise from_code(lib().rd_kafka_last_error())
        return found

    def watermarks(self, wanted: Range, timeout_ms: int) -> tuple[int, int]:
        """The earliest offset and the end of a partition."""
        low, high = c_int64(-1), c_int64(-1)
        code = lib().rd_kafka_query_watermark_offsets(
            self._handle.pointer,
            wanted.topic.encode(),
            wanted.partition,
            ctypes.byref(low),
            ctypes.byref(high),
            timeout_ms,
        )
        if code:
            raise from_code(code, subject=str(wanted))
        return low.value, high.value

    def close(self) -> None:
        lib().rd_kafka_queue_destroy(self._queue)
        self._handle.close()


_idle: dict[_Conf, list[ConsumerHandle]] = {}
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


def _keep(key: _Conf, handle: ConsumerHandle) -> None:
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
