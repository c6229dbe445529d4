"""What the engine knows of one incarnation of a Kafka topic: ends and floors of its partitions, and their order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gauss.plugins.storages.kafka import identity as identities
from gauss.plugins.storages.kafka import order_file
from gauss.plugins.storages.kafka.identity import Identity
from gauss.plugins.storages.kafka.order_file import OrderFile
from gauss.plugins.storages.kafka.order_index import OrderIndex

log = logging.getLogger("gauss.kafka")

STEP_SECONDS = 0.05
STEP_RECORDS = 65_536
LARGE_INDEX = 16 << 20
"""A topic with several partitions grows in steps, each of which is kept in its index. Steps are as short as looks while
the index is small, and longer in proportion to its size: `STEP_SECONDS` at `LARGE_INDEX` bytes. A step ends sooner if
it has `STEP_RECORDS` records."""
COMPACTED_BYTES = 256 << 10
"""Size of the file from which it is written anew once half of it is not needed."""


class TopicState:
    """One incarnation. `advance` and `retain` may be called by several threads; readers take no lock."""

    def __init__(self, folder: Path, identity: Identity, partitions: int) -> None:
        self._folder = folder
        self.identity = identity
        self._lock = threading.Lock()
        loaded = order_file.load(folder / order_file.NAME, identity.inc)
        self.index = loaded or OrderIndex()
        self.order_lost = identity.indexed and loaded is None
        """The file of the order was deleted: offsets of this incarnation may now mean other records."""
        self._file: OrderFile | None = None
        self._needed_bytes = 0
        known = self.index.ends()
        self.ends = {number: known[number] if number < len(known) else 0 for number in range(partitions)}
        self.earliest = dict.fromkeys(range(partitions), 0)
        self.floor = self.index.begin
        self._stepped = 0.0
        self.ended = threading.Event()
        """Set when the topic is closed or made anew."""
        if loaded and not self.order_lost:
            self._write_file()

    @property
    def inc(self) -> int:
        return self.identity.inc

    @property
    def end(self) -> int:
        return self.index.end

    def add_partitions(self, count: int) -> bool:
        """Notes partitions that were added; whether there are any."""
        with self._lock:
            added = range(len(self.ends), count)
            self.ends |= dict.fromkeys(added, 0)
            self.earliest |= dict.fromkeys(added, 0)
            return bool(added)

    def advance(self, ends: Mapping[int, int], *, now: bool = False) -> None:
        """Takes over the ends of the partitions, and moves the end of the log over them, with `now` at once. Ends never
        go back."""
        with self._lock:
            moved = {number: end for number, end in ends.items() if end > self.ends.get(number, 0)}
            self.ends = {**self.ends, **moved}
            grown = self.index.growth(self.ends)
            if self.ended.is_set() or not grown or not (now or self._step_is_due()):
                return
            if len(self.ends) > 1:
                if self._file is None:
                    self._write_file()
                assert self._file is not None
                self._file.append(grown)
            self.index.grow(grown)
            self._stepped = time.monotonic()

    def _step_is_due(self) -> bool:
        if len(self.ends) == 1:
            return True
        seconds = STEP_SECONDS * self.index.nbytes / LARGE_INDEX
        return time.monotonic() - self._stepped >= seconds or sum(self.ends.values()) - self.end >= STEP_RECORDS

    @property
    def is_stepping(self) -> bool:
        """Whether records wait for the next step."""
        return sum(self.ends.values()) > self.end

    def retain(self, earliest: Mapping[int, int]) -> None:
        """Takes over the oldest offsets of the partitions."""
        with self._lock:
            self.earliest = {**self.earliest, **earliest}
            self.floor = max(self.floor, self.index.floor(self.earliest, self.floor))

    def maintain(self) -> None:
        """Syncs the file of the order, and removes what lies below the floor."""
        with self._lock:
            if self._file is None:
                return
            self._file.sync()
            if self._file.size < max(COMPACTED_BYTES, 2 * self._needed_bytes):
                return
            self.index.forget(self.floor)
            self._write_file()

    def _write_file(self) -> None:
        """Writes the order anew: without steps that were dropped or became one."""
        before = self._file
        self._file = OrderFile(self._folder / order_file.NAME, self.index, self.inc)
        if before is not None:
            before.close()
        self._needed_bytes = self._file.size
        self.identity = identities.note_indexed(self._folder, self.identity)

    def close(self) -> None:
        self.ended.set()
        with self._lock:
            if self._file is not None:
                self._file.sync()
                self._file.close()
                self._file = None


def open_state(
    folder: Path, topic: str, topic_id: str, partitions: int, incarnation: Callable[[int], int]
) -> TopicState:
    """The state of a topic as it was kept, or that of a new incarnation."""
    identity = identities.claim(folder, topic, topic_id, incarnation)
    state = TopicState(folder, identity, partitions)
    if state.order_lost:
        log.warning("topic %s: %s is missing, so that readers begin anew", topic, folder / order_file.NAME)
        state = TopicState(folder, identities.renewed(folder, identity, topic, topic_id, incarnation), partitions)
    return state
