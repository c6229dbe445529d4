"""Reads ranges of a partition that follow each other: it stays assigned in between, and what was fetched ahead is used
by the next range instead of being fetched again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from threading import Event

import pyarrow as pa

from gauss.clients.kafka.consumer_handles import Conf, PartitionFeed, SharedConsumer
from gauss.clients.kafka.errors import OffsetOutOfRange
from gauss.clients.kafka.range_reader import CompiledReader, RangeRead
from gauss.clients.kafka.reading import DEFAULT_BOUNDS, Bounds, Range, reader_conf
from gauss.clients.kafka.settings import KafkaSettings
from gauss.model.errors import GaussError

QUEUE_BYTES = 4 << 20
QUEUE_RECORDS = 25_000
"""What is fetched ahead of each partition: a small record takes several times its size in the library."""
FEEDS = 16
"""Partitions of a cluster that stay assigned in a process."""
IDLE_SECONDS = 1.0
"""Time after its last range for which a partition stays assigned, since the brokers are asked for its records."""
WAIT_MS = 10
"""Time for which brokers wait for records. The end of a partition is reported so long after its last record."""


class FollowingReader:
    """A `RangeReader`. A partition that another thread is reading is read as by a `CompiledReader`."""

    def __init__(
        self, settings: KafkaSettings, *, queue_bytes: int = QUEUE_BYTES, queue_records: int = QUEUE_RECORDS
    ) -> None:
        self._settings = settings
        self._apart = CompiledReader(settings)
        ahead = {"queued.min.messages": str(queue_records), "fetch.wait.max.ms": str(WAIT_MS)}
        self._conf: Conf = tuple(sorted((reader_conf(settings, queue_bytes=queue_bytes) | ahead).items()))

    def read(
        self, wanted: Range, bounds: Bounds = DEFAULT_BOUNDS, stop: Event | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        if wanted.start >= wanted.end:
            return
        feed = _feeds.take(self._conf, wanted)
        if feed is None:
            yield from self._apart.read(wanted, bounds, stop)
            return
        started = is_whole = False
        try:
            for batch in RangeRead(feed, wanted, bounds, self._settings).batches(stop):
                started = True
                yield batch
            is_whole = not (stop and stop.is_set())
            return
        except OffsetOutOfRange as error:
            # A client that has read a topic of the same name before takes its epochs for those of the new one, and the
            # new one for cut: then another client reads the range.
            if started or not error.earliest <= wanted.start < error.end:
                raise
            _feeds.retire(self._conf)
        finally:
            _feeds.give_back(feed, keep=is_whole)
        yield from self._apart.read(wanted, bounds, stop)


class _Feeds:
    """The assigned partitions of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._consumers: dict[Conf, SharedConsumer] = {}
        self._idle: dict[tuple[SharedConsumer, str, int], tuple[PartitionFeed, float]] = {}
        """Feeds that nobody reads, with the time of their last range, oldest first."""
        self._busy: set[tuple[SharedConsumer, str, int]] = set()
        self._sweeper: threading.Thread | None = None

    def take(self, conf: Conf, wanted: Range) -> PartitionFeed | None:
        """The feed of a partition; `None` if another thread reads it."""
        with self._lock:
            if conf not in self._consumers:
                self._consumers[conf] = SharedConsumer(conf)
            consumer = self._consumers[conf]
            key = (consumer, wanted.topic, wanted.partition)
            if key in self._busy:
                return None
            found = self._idle.pop(key, None)
            feed = found[0] if found is not None else PartitionFeed(*key)
            self._busy.add(key)
        return feed

    def give_back(self, feed: PartitionFeed, *, keep: bool) -> None:
        """Ends the use of a feed. `keep`: its range was read to the end."""
        ended = []
        with self._lock:
            self._busy.discard(feed.key)
            is_current = feed.consumer in self._consumers.values()
            if keep and is_current:
                self._idle[feed.key] = feed, time.monotonic()
                of_cluster = [key for key in self._idle if key[0] is feed.consumer]
                ended = [self._idle.pop(key)[0] for key in of_cluster[:-FEEDS]]
                self._start_sweeper()
            else:
                ended = [feed]
            is_last = not is_current and all(key[0] is not feed.consumer for key in self._busy)
            _end(ended)
        if is_last:
            feed.consumer.close()

    def _start_sweeper(self) -> None:
        if self._sweeper is None:
            self._sweeper = threading.Thread(target=self._sweep, name="kafka idle partitions", daemon=True)
            self._sweeper.start()

    def retire(self, conf: Conf) -> None:
        """Uses another consumer from now on. The old one ends with the last feed that is taken."""
        with self._lock:
            old = self._consumers.pop(conf, None)
            _end([self._idle.pop(key)[0] for key in list(self._idle) if key[0] is old])

    def _sweep(self) -> None:
        """Ends feeds that have been idle for some time; returns when none is left."""
        while True:
            time.sleep(IDLE_SECONDS / 2)
            with self._lock:
                before = time.monotonic() - IDLE_SECONDS
                _end([self._idle.pop(key)[0] for key, (_, used) in list(self._idle.items()) if used < before])
                if not self._idle:
                    self._sweeper = None
                    return


def _end(feeds: list[PartitionFeed]) -> None:
    """Ends feeds while the lock is held: else the next feed of a partition could be unassigned by its predecessor."""
    for each in feeds:
        with suppress(GaussError):  # of a consumer that is lost: its next range says why
            each.close()


_feeds = _Feeds()


def _forked() -> None:
    """Forgets the consumers of the parent, whose threads are not in this process."""
    global _feeds
    _of_parents.append(_feeds)  # to end a client would wait for threads that are not in this process
    _feeds = _Feeds()


_of_parents: list[_Feeds] = []
os.register_at_fork(after_in_child=_forked)
