"""The bounded queue between a source and a destination: nothing is dropped, skipped or reordered."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Mark


class Rejection(NamedTuple):
    """Rows that the source has refused, in their place among the others: they become dead letters when all before
    them is written."""

    rows: pa.RecordBatch
    error: ConnectorError


Item = Batch | Mark | Rejection


class Channel:
    """Batches, marks and rejections of one stream in order. Used by one thread on each side; any thread may end it."""

    def __init__(self, capacity: int) -> None:
        """`capacity`: how many batches and rejections may wait; marks do not count."""
        self._capacity = max(capacity, 1)
        self._waiting: deque[Item] = deque()
        self._size = 0
        self._ended = self._draining = False
        self._broken: ConnectorError | None = None
        self._changed = threading.Condition()

    def put(self, item: Item) -> None:
        """Adds an item. All but marks wait for room. Raises ConnectorError if the other side failed or the run ends."""
        with self._changed:
            if not isinstance(item, Mark):
                self._changed.wait_for(self._has_room)
            if self._broken is not None:
                raise self._broken
            if self._draining:
                raise cancelled()
            self._waiting.append(item)
            self._size += not isinstance(item, Mark)
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._size < self._capacity or self._broken is not None or self._draining

    def get(self) -> Item | None:
        """Removes the next item; None after the last. Raises ConnectorError if the other side failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended or self._broken is not None)
            if self._broken is not None:
                raise self._broken
            if not self._waiting:
                return None
            item = self._waiting.popleft()
            self._size -= not isinstance(item, Mark)
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
            self._broken = self._broken or error
            self._waiting.clear()
            self._size = 0
            self._changed.notify_all()


def cancelled() -> ConnectorError:
    """The error of calls that wait while a run is being stopped."""
    return ConnectorError.internal("CANCELLED", "the run is being stopped")
