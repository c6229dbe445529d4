"""The ledger: who has read and published how far. Kept in memory, rebuilt from the commit journal."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from gauss.model.errors import StorageError
from gauss.stream.engine.entries import (
    DeadKey,
    Dropped,
    Entry,
    GrantMade,
    Incarnated,
    Moved,
    Opened,
    Origin,
    ProcessorRow,
    State,
)
from gauss.stream.engine.journal import Journal
from gauss.stream.engine.ledger_state import apply, committed, decode, encode
from gauss.stream.protocol import At, Ends

COMPACT_BYTES = 4 << 20

log = logging.getLogger(__name__)


class Ledger:
    """All calls may come from any thread; lock order: topics by name, then this."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.RLock()
        self._clock = clock
        self._journal = Journal(directory)
        self._moved: dict[str, Ends] = {}
        self.state = State()
        for body in self._journal.replay():
            self.state = apply(self.state, self._decode(body))
        self._journal.compact(lambda: encode(self.state))
        self._compacted = self._journal.size
        self.commit(Opened(self.state.run + 1), sync=True)
        self._number = self.state.run << 32

    def _decode(self, body: bytes) -> Entry:
        try:
            return decode(body)
        except msgspec.MsgspecError as error:
            raise StorageError(
                f"{self._journal.path}: an entry can't be understood: {error}",
                hint="the data directory was written by another version; use that one, or another --data-dir",
            ) from error

    def commit(self, entry: Entry, *, sync: bool = False) -> None:
        """Writes an entry, then lets it count; when the write fails nothing has changed."""
        with self._lock:
            self._journal.append(encode(entry), sync=sync)
            self.state = apply(self.state, entry)

    def granted(self, processor: str, generation: int, ends: Ends) -> None:
        """Notes an epoch before a task begins with it."""
        self.commit(GrantMade(processor, generation, ends))

    def next_number(self) -> int:
        """A publish number that was never used, not even by a run that crashed before its commit."""
        with self._lock:
            self._number += 1
            return self._number

    def committed(self, number: int) -> bool:
        """Whether the publish with this number is in the journal."""
        with self._lock:
            return committed(self.state, number)

    def incarnation(self, topic: str, stored: int) -> int:
        """The incarnation to use: the one that lies with the data, or (0: no data) one never used before."""
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
        """Where a reader that outlives its connection stands."""
        with self._lock:
            moved = self._moved.get(topic, {}).get(reader)
            return moved or self.state.positions.get(topic, {}).get(reader)

    def move(self, topic: str, reader: str, at: At) -> None:
        """Notes a position; it is written with the next `save_positions`, since a position only ever repeats
        records."""
        with self._lock:
            self._moved.setdefault(topic, {})[reader] = at

    def highest(self, topic: str, inc: int) -> int:
        """The largest offset of this incarnation that anybody was told of: no lower one may be used again."""
        with self._lock:
            places = [self.state.published.get(topic)]
            places += self.state.positions.get(topic, {}).values()
            for row in self.state.processors.values():
                places += [row.start.get(topic), row.ends.get(topic)]
            return max((at.off for at in places if at is not None and at.inc == inc), default=0)

    def pulled(self, processor: str) -> str:
        """Where a source stands that asks for its records; empty before its first."""
        with self._lock:
            return self.state.pulled.get(processor, "")

    def replayed(self, processor: str) -> set[DeadKey]:
        with self._lock:
            return set(self.state.replayed.get(processor, ()))

    def was_replayed(self, processor: str, key: DeadKey) -> bool:
        with self._lock:
            return key in self.state.replayed.get(processor, ())

    def origin(self, inlet: str, offset: int) -> Origin | None:
        """What a record of a retry inlet was, while it is not passed."""
        with self._lock:
            return self.state.retried.get(inlet, {}).get(offset)

    def drop(self, readers: Iterable[tuple[str, str]], processors: Iterable[str]) -> None:
        """Forgets positions; the records they held back may go."""
        entry = Dropped(list(readers), list(processors))
        if entry.readers or entry.processors:
            self.commit(entry)

    def readers(self) -> list[tuple[str, str]]:
        with self._lock:
            return [(topic, name) for topic, names in self.state.positions.items() for name in names]

    def save_positions(self) -> None:
        """Writes the positions that were noted since the last time."""
        with self._lock:
            if self._moved:
                moved, self._moved = self._moved, {}
                try:
                    self.commit(Moved(moved))
                except StorageError:
                    self._moved = moved
                    raise

    def maintain(self) -> None:
        """Every second or so: positions, fsync, and compaction when the journal has grown."""
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
            log.warning("positions of the last second are not on disk: %s", error.message)
        self._journal.close()
