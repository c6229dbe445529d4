"""The ledger: what processors and readers have read and published. Held in memory, rebuilt from the commit journal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from gauss.clients.engine.positions import At, Ends
from gauss.model.errors import StorageError
from gauss.stream.engine.journal.entries import (
    DeadKey,
    Dropped,
    Entry,
    GrantMade,
    Incarnated,
    LedgerState,
    Moved,
    ProcessorRow,
    Pushed,
    RetryOrigin,
    RunOpened,
)
from gauss.stream.engine.journal.journal import Journal
from gauss.stream.engine.journal.ledger_state import apply, committed, decode, encode

COMPACT_BYTES = 4 << 20

log = logging.getLogger(__name__)


class Ledger:
    """Thread-safe. Lock order: topics by name, then the ledger."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.RLock()
        self._clock = clock
        self._journal = Journal(directory)
        self._moved: dict[str, Ends] = {}
        self.state = LedgerState()
        for body in self._journal.replay():
            self.state = apply(self.state, self._decode(body))
        self._journal.compact(lambda: encode(self.state))
        self._compacted = self._journal.size
        self.commit(RunOpened(self.state.run + 1), sync=True)
        self._number = self.state.run << 32

    def _decode(self, body: bytes) -> Entry:
        try:
            return decode(body)
        except msgspec.MsgspecError as error:
            raise StorageError(
                f"{self._journal.path}: unknown journal entry: {error}",
                hint="the data directory was written by another version; use that version, or another --data-dir",
            ) from error

    def commit(self, entry: Entry, *, sync: bool = False) -> None:
        """Writes an entry to the journal, then applies it; nothing changes if the write fails."""
        with self._lock:
            self._journal.append(encode(entry), sync=sync)
            self.state = apply(self.state, entry)

    def granted(self, processor: str, generation: int, ends: Ends, lane: int) -> None:
        """Commits a grant before a task starts with it."""
        self.commit(GrantMade(processor, generation, ends, lane))

    def next_number(self) -> int:
        """A new publish number, also different from those of runs that crashed before a commit."""
        with self._lock:
            self._number += 1
            return self._number

    def committed(self, number: int) -> bool:
        """Whether the publish with this number is in the journal."""
        with self._lock:
            return committed(self.state, number)

    def incarnation(self, topic: str, stored: int) -> int:
        """The incarnation of a topic: the one stored with its data or, if `stored` is 0, a new one."""
        with self._lock:
            known = self.state.incs.get(topic, 0)
            inc = stored or max(known + 1, int(self._clock() * 1000))
            if inc != known:
                self.commit(Incarnated(topic, inc), sync=True)
            return inc

    def row(self, processor: str) -> ProcessorRow | None:
        with self._lock:
            return self.state.processors.get(processor)

    def position(self, topic: str, reader: str) -> At | None:
        """The position of a reader that outlives its connection."""
        with self._lock:
            moved = self._moved.get(topic, {}).get(reader)
            return moved or self.state.positions.get(topic, {}).get(reader)

    def move(self, topic: str, reader: str, at: At) -> None:
        """Notes a position, which the next `save_positions` writes. A crash before that only repeats records."""
        with self._lock:
            moved = self._moved.setdefault(topic, {})
            moved[reader] = at
            if at == self.state.positions.get(topic, {}).get(reader):
                del moved[reader]

    def push(self, processor: str, positions: Ends, state: Any) -> None:
        """Commits the positions of a pushing sink and its state together."""
        with self._lock:
            self.commit(Pushed(processor, state, positions))
            for topic in positions:  # else an older one would be written after it
                self._moved.get(topic, {}).pop(processor, None)

    def highest(self, topic: str, inc: int) -> int:
        """The largest known offset of an incarnation: lower ones must not be used again."""
        with self._lock:
            places = [self.state.published.get(topic)]
            places += self.state.positions.get(topic, {}).values()
            for row in self.state.processors.values():
                places += [row.start.get(topic), row.ends.get(topic)]
            return max((at.off for at in places if at is not None and at.inc == inc), default=0)

    def outside(self, processor: str) -> Any:
        """The position of a pulling source, or the state of a pushing sink; None before its first commit."""
        with self._lock:
            return self.state.outside.get(processor)

    def replayed(self, processor: str) -> set[DeadKey]:
        with self._lock:
            return set(self.state.replayed.get(processor, ()))

    def was_replayed(self, processor: str, key: DeadKey) -> bool:
        with self._lock:
            return key in self.state.replayed.get(processor, ())

    def origin(self, retry_topic: str, offset: int) -> RetryOrigin | None:
        """The origin of a record of a retry topic, until it is read."""
        with self._lock:
            return self.state.retried.get(retry_topic, {}).get(offset)

    def drop(self, readers: Iterable[tuple[str, str]], processors: Iterable[str]) -> None:
        """Forgets readers and processors, so that no records are kept for them."""
        entry = Dropped(list(readers), list(processors))
        if entry.readers or entry.processors:
            self.commit(entry)

    def readers(self) -> list[tuple[str, str]]:
        with self._lock:
            return [(topic, name) for topic, names in self.state.positions.items() for name in names]

    def save_positions(self) -> None:
        """Writes the positions noted since the last call."""
        with self._lock:
            if moved := {topic: positions for topic, positions in self._moved.items() if positions}:
                self._moved = {}
                try:
                    self.commit(Moved(moved))
                except StorageError:
                    self._moved = moved
                    raise

    def maintain(self) -> None:
        """Writes positions, syncs the journal and compacts it when it has grown; called about once per second."""
        self.save_positions()
        # Outside the lock, so that no publish waits for the disk; only this thread replaces the journal's file.
        self._journal.sync()
        with self._lock:
            if self._journal.size > max(COMPACT_BYTES, 4 * self._compacted):
                self._journal.compact(lambda: encode(self.state))
                self._compacted = self._journal.size

    def close(self) -> None:
        try:
            self.maintain()
        except StorageError as error:
            log.warning("positions of the last second were not saved: %s", error.message)
        self._journal.close()
