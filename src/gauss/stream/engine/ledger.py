"""The ledger: who has read and published how far. Kept in memory, rebuilt from the commit journal."""

from __future__ import annotations

import bisect
import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from gauss.model.errors import StorageError
from gauss.stream.engine.entries import (
    KEPT_EPOCHS,
    ClaimMade,
    DeadKey,
    Dropped,
    Entry,
    EpochPublished,
    Incarnated,
    Moved,
    Opened,
    ProcessorRow,
    Pulled,
    Rebuilt,
    State,
)
from gauss.stream.engine.journal import Journal
from gauss.stream.protocol import At, Ends

COMPACT_BYTES = 4 << 20

log = logging.getLogger(__name__)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


class Ledger:
    """All calls may come from any thread; lock order: topics by name, then this."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.RLock()
        self._clock = clock
        self._journal = Journal(directory)
        self._moved: dict[str, Ends] = {}
        self.state = State()
        for body in self._journal.replay():
            self._apply(self._decode(body))
        self._journal.compact(lambda: _encoder.encode(self.state))
        self._compacted = self._journal.size
        self.commit(Opened(self.state.run + 1), sync=True)
        self._number = self.state.run << 32

    def _decode(self, body: bytes) -> Entry:
        try:
            return _decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise StorageError(
                f"{self._journal.path}: an entry can't be understood: {error}",
                hint="the data directory was written by another version; use that one, or another --data-dir",
            ) from error

    def commit(self, entry: Entry, *, sync: bool = False) -> None:
        """Writes an entry, then lets it count; when the write fails nothing has changed."""
        with self._lock:
            self._journal.append(_encoder.encode(entry), sync=sync)
            self._apply(entry)

    def next_number(self) -> int:
        """A publish number that was never used, not even by a run that crashed before its commit."""
        with self._lock:
            self._number += 1
            return self._number

    def committed(self, number: int) -> bool:
        """Whether the publish with this number is in the journal."""
        with self._lock:
            ranges = self.state.committed
            at = bisect.bisect_right(ranges, number, key=lambda each: each[0]) - 1
            return at >= 0 and number <= ranges[at][1]

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
        """Notes a position; it is written with the next `maintain`, since a position only ever repeats records."""
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

    def drop(self, readers: Iterable[tuple[str, str]], processors: Iterable[str]) -> None:
        """Forgets positions; the records they held back may go."""
        entry = Dropped(list(readers), list(processors))
        if entry.readers or entry.processors:
            self.commit(entry)

    def readers(self) -> list[tuple[str, str]]:
        with self._lock:
            return [(topic, name) for topic, names in self.state.positions.items() for name in names]

    def maintain(self) -> None:
        """Every second or so: positions, fsync, and compaction when the journal has grown."""
        with self._lock:
            if self._moved:
                moved, self._moved = self._moved, {}
                try:
                    self.commit(Moved(moved))
                except StorageError:
                    self._moved = moved
                    raise
        # Outside the lock, so that no publish waits for the disk; only this thread replaces the journal's file.
        self._journal.sync()
        with self._lock:
            if self._journal.size > max(COMPACT_BYTES, 4 * self._compacted):
                self._journal.compact(lambda: _encoder.encode(self.state))
                self._compacted = self._journal.size

    def close(self) -> None:
        try:
            self.maintain()
        except StorageError as error:
            log.warning("positions of the last second are not on disk: %s", error.message)
        self._journal.close()

    def _apply(self, entry: Entry) -> None:
        state = self.state
        if isinstance(entry, State):
            self.state = entry
        elif isinstance(entry, Opened):
            state.run = entry.run
        elif isinstance(entry, Incarnated):
            state.incs[entry.topic] = entry.inc
        elif isinstance(entry, ClaimMade):
            self._claimed(entry)
        elif isinstance(entry, Rebuilt):
            self._rebuilt(entry)
        elif isinstance(entry, EpochPublished):
            self._published(entry)
        elif isinstance(entry, Moved):
            for topic, positions in entry.positions.items():
                state.positions.setdefault(topic, {}).update(positions)
        elif isinstance(entry, Dropped):
            for topic, reader in entry.readers:
                state.positions.get(topic, {}).pop(reader, None)
            for processor in entry.processors:
                state.processors.pop(processor, None)
                state.pulled.pop(processor, None)
        elif isinstance(entry, Pulled):
            state.pulled[entry.processor] = entry.position
            state.published.update(entry.topics)
            self._count(entry.number)
        else:
            state.replayed.setdefault(entry.processor, set()).update(entry.keys)
            state.published.update(entry.topics)
            self._count(entry.number)

    def _claimed(self, entry: ClaimMade) -> None:
        row = self.state.processors.get(entry.processor)
        if row is None:
            row = ProcessorRow(entry.checkpoint, entry.generation, entry.start, bounds=entry.bounds)
            self.state.processors[entry.processor] = row
        if (row.checkpoint, row.bounds) != (entry.checkpoint, entry.bounds):
            row.checkpoint, row.epoch, row.recent, row.seen = entry.checkpoint, -1, [], {}
        row.generation, row.start, row.bounds = entry.generation, entry.start, entry.bounds

    def _rebuilt(self, entry: Rebuilt) -> None:
        for claim in entry.claims:
            self._claimed(claim)
            row = self.state.processors[claim.processor]
            row.ends = {}  # nothing is published of what it reads now, and no state is missed
            row.empties = {name: at for name, at in claim.start.items() if entry.emptied.get(name) == at}
        self.state.emptied.update(entry.emptied)

    def _published(self, entry: EpochPublished) -> None:
        row = self.state.processors[entry.processor]
        row.epoch, row.empties = entry.epoch, {}
        row.ends = {**row.ends, **entry.ends}
        row.recent = [*row.recent, (entry.epoch, entry.ends)][-KEPT_EPOCHS:]
        row.seen = {**row.seen, **{name: max(seen, row.seen.get(name, 0)) for name, seen in entry.seen.items()}}
        for name, places in entry.moved.items():
            member = self.state.processors[name]
            member.start, member.ends = {**member.start, **places}, {**member.ends, **places}
        self.state.published.update(entry.topics)
        self._count(entry.number)

    def _count(self, number: int) -> None:
        ranges = self.state.committed
        at = bisect.bisect_right(ranges, number, key=lambda each: each[0])
        if at and ranges[at - 1][1] == number - 1:
            ranges[at - 1][1] = number
        else:
            ranges.insert(at, [number, number])
            at += 1
        if at < len(ranges) and ranges[at][0] == ranges[at - 1][1] + 1:
            ranges[at - 1][1] = ranges.pop(at)[1]
