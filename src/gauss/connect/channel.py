"""The bounded queue between a source and a destination: nothing is dropped, skipped or reordered."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Mark, Opaque
from gauss.contracts.connector.settings import CheckpointThresholds

MOST_BYTES = 8 << 20
"""What waits between source and destination: more makes no sync faster, only larger."""


class Rejection(NamedTuple):
    """Rows that the source has refused, in their place among the others: they become dead letters when all before
    them is written."""

    rows: pa.RecordBatch
    error: ConnectorError


Item = Batch | Mark | Rejection


class Weight(NamedTuple):
    """An amount of rows."""

    rows: int
    size: int

    @staticmethod
    def of(item: Item) -> Weight:
        if isinstance(item, Mark):
            return Weight(0, 0)
        rows = item.rows
        return Weight(rows.rows, len(rows.payload)) if isinstance(rows, Opaque) else Weight(rows.num_rows, rows.nbytes)


def most_in_flight(checkpoint: CheckpointThresholds) -> Weight:
    """What may wait between source and destination, so that no more than a checkpoint's bound is read again."""
    return Weight(checkpoint.batch_rows, min(checkpoint.batch_bytes, MOST_BYTES))


class Channel:
    """Batches, marks and rejections of one stream in order. Used by one thread on each side; any thread may end it."""

    def __init__(self, capacity: int, most: Weight | None = None) -> None:
        """`capacity`: how many batches and rejections may wait; marks do not count. `most`: how much they may hold
        together; a single one may be larger."""
        self._capacity = max(capacity, 1)
        self._most = most
        self._waiting: deque[Item] = deque()
        self._size = self._rows = self._bytes = 0
        self._ended = self._draining = False
        self.broken: ConnectorError | None = None
        """The error by which it was broken off."""
        self._changed = threading.Condition()

    def put(self, item: Item) -> None:
        """Adds an item. All but marks wait for room; a mark takes the place of one that waits right before it. Raises
        ConnectorError if the other side failed or the run ends."""
        weight = Weight.of(item)
        with self._changed:
            if not isinstance(item, Mark):
                self._changed.wait_for(lambda: self._has_room(weight) or self.broken is not None or self._draining)
            if self.broken is not None:
                raise self.broken
            if self._draining:
                raise cancelled()
            if self._follows_mark(item):
                self._waiting.pop()
            self._waiting.append(item)
            self._count(item, weight, 1)
            self._changed.notify_all()

    def _has_room(self, more: Weight) -> bool:
        if not self._size or self._most is None:
            return self._size < self._capacity
        rows, size = self._rows + more.rows, self._bytes + more.size
        return self._size < self._capacity and rows <= self._most.rows and size <= self._most.size

    def _follows_mark(self, item: Item) -> bool:
        """Whether an item is a mark behind another one: a source without new rows may make any number of them."""
        if not (isinstance(item, Mark) and self._waiting) or item.final:
            return False
        return isinstance(self._waiting[-1], Mark)

    def _count(self, item: Item, weight: Weight, by: int) -> None:
        self._size += by * (not isinstance(item, Mark))
        self._rows += by * weight.rows
        self._bytes += by * weight.size

    def get(self) -> Item | None:
        """Removes the next item; None after the last. Raises ConnectorError if the other side failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended or self.broken is not None)
            if self.broken is not None:
                raise self.broken
            if not self._waiting:
                return None
            item = self._waiting.popleft()
            self._count(item, Weight.of(item), -1)
            self._changed.notify_all()
            return item

    def is_over(self) -> bool:
        """Whether everything was delivered and nothing more comes."""
        with self._changed:
            return self._ended and not self._size

    def end(self) -> None:
        """No more items come; those that wait are still delivered."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def drain(self) -> None:
        """Refuses further items; those that wait are still delivered."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    def break_off(self, error: ConnectorError) -> None:
        """Ends both sides with an error; what waits is not delivered. The first error counts."""
        with self._changed:
            self.broken = self.broken or error
            self._waiting.clear()
            self._size = self._rows = self._bytes = 0
            self._changed.notify_all()


def cancelled() -> ConnectorError:
    """The error of calls that wait while a run is being stopped."""
    return ConnectorError.internal("CANCELLED", "the run is being stopped")
