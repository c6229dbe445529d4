"""A topic over a log: registered readers and back-pressure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import pyarrow as pa

from gauss.clients.engine.positions import At
from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Appended
from gauss.contracts.letter import Letter, too_large
from gauss.contracts.shared_log import SharedLog
from gauss.contracts.storage import Capacity, Log, WriteFull
from gauss.model.errors import DiskFull, StorageError, Unavailable
from gauss.scan.log_cursor import LogProvider
from gauss.scan.sources import SourceTask
from gauss.stream.engine.topics.admission import Admission, fit, lifted
from gauss.stream.engine.topics.log_rows import LogRows
from gauss.stream.engine.topics.readers import OffsetReader, ReaderPosition, Readers, place
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.engine.topics.topic_state import Blocked

OnPosition = Callable[[str, str, int, int], None]
"""Called with (topic, reader, inc, offset) when a kept reader has moved."""

CANCEL_POLL_SECONDS = 0.1


class LogTopic(Topic):
    """Records in order, kept for readers that have not read them."""

    def __init__(
        self,
        name: str,
        log: Log,
        capacity: Capacity,
        *,
        dead: Callable[[Letter], None] = lambda _: None,
        positions: dict[str, ReaderPosition] | None = None,
        at_least: int = 0,
        ended: At | None = None,
        on_position: OnPosition | None = None,
    ) -> None:
        """`positions`: the kept readers of the running config. `at_least`: the highest offset of this incarnation in
        any ledger, so that none is reused. `ended`: the end of an incarnation that was lost with its engine."""
        super().__init__(name, log, capacity, dead)
        self._log = log
        self.source = SourceTask(name, LogProvider(log))
        provider = rows() if (rows := getattr(log, "rows", None)) is not None else None  # of an outside system
        self.rows = None if provider is None else LogRows(self, provider)
        self.is_outside = hasattr(log, "send")
        self._readers_lock = threading.RLock() if self.is_outside else self.lock
        """Guards readers, the floor and waiting writers. Taken after `lock`, never while a system is awaited."""
        self._room = threading.Condition(self._readers_lock)
        self._waiting = 0
        self._blocked_since: float | None = None
        self._disk_full = False
        self._over = False
        self._on_position = on_position
        self.note_end: Callable[[int], None] | None = None
        """For a memory topic: called with the visible end whenever it moves."""
        self._last_ts = log.last_ts()
        self._staged_records = self._staged_bytes = 0
        self.counters.lost, self.counters.set_aside = getattr(log, "lost", 0), getattr(log, "set_aside", 0)
        kept = positions or {}
        highest = max([at_least, *(position.offset for position in kept.values() if position.inc == log.inc)])
        if highest > log.end:
            self.counters.lost = max(self.counters.lost, highest - log.end)
            log.skip_to(highest)
        self.readers = Readers(kept, self._reader_moved)
        self.readers.restore(log.inc, log.floor, ended)
        self._admission = Admission(capacity, log, self.readers)
        self.trim()

    @property
    def log(self) -> Log:
        return self._log

    # --- appends of edges ---

    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:
        """Adds records as `write_full` allows; waits while the topic is full and blocks, until `cancel`."""
        left, letters = self.fit(chunk)
        for letter in letters:
            self._dead(letter)
        accepted = dropped = 0
        while left is not None and left.count:
            with self.lock:
                if self._closed:
                    raise Unavailable(f'topic "{self.name}" is closed', hint="the engine is stopping")
                room = self._admission.admitted(left, self._log.end)
                written = self._write(left.slice(0, room)) if room else None
                if written is not None:
                    accepted += written
                    # Even an empty slice of a lazy chunk would frame it.
                    left = left.slice(room, left.count - room) if room < left.count else None
                    continue
                if self.capacity.write_full is not WriteFull.BLOCK:
                    dropped = left.count
                    self.counters.dropped += dropped
                    break
            if not self._wait_for_room(left, cancel):
                break
        self._unblock()
        return Appended(accepted, dropped, self._log.end)

    def _unblock(self) -> None:
        """Ends the time for which writers are blocked, unless another one waits."""
        if self._blocked_since is not None:
            with self._readers_lock:
                self._blocked_since = self._blocked_since if self._waiting else None

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        """The chunk as the log stores it, and letters of the records that its framing can't store. `None`: no records
        remain."""
        if (own := getattr(self._log, "fit", None)) is not None:  # a log in an outside system, which has no framing
            found: tuple[Chunk | None, list[Letter]] = own(chunk)
            return found
        return fit(chunk, self._log.framing, self.name, self.inc)

    def _write(self, chunk: Chunk) -> int | None:
        """Appends and reveals; returns the number of visible records, `None` if the disk is full. Call with the lock
        held."""
        try:
            self.stage_append(chunk, 0)
        except StorageError as error:
            self.rollback()
            self._disk_full = isinstance(error, DiskFull)
            if self._disk_full:
                return None
            raise
        self._disk_full = False
        self._blocked_since = None
        try:
            self.prepare()
        except BaseException:
            self.rollback()
            raise
        written = self._staged_records
        self.reveal()
        self.trim()
        return written

    def _wait_for_room(self, chunk: Chunk | None, cancel: threading.Event | None, seconds: float | None = None) -> bool:
        """Waits until something fits; false if cancelled, closed or too late."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._room:
            self._waiting += 1  # before the next check for space: a reader that moves now sees the waiting writer
            pause = self._disk_full  # there is no notification of free disk space: try again after a while
            try:
                while not self._closed and not (cancel is not None and cancel.is_set()):
                    if not pause and self._fits(chunk):
                        return True
                    if self._blocked_since is None:
                        self._blocked_since = time.monotonic()
                    if deadline is not None and time.monotonic() > deadline:
                        return False
                    self._room.wait(CANCEL_POLL_SECONDS)
                    pause = False
                return False
            finally:
                self._waiting -= 1

    def _fits(self, chunk: Chunk | None) -> bool:
        if chunk is None:
            return self._admission.has_room()
        return self._admission.admitted(chunk, self._log.end) > 0

    # --- publishes: fit and wait_room; under the lock stage_append, reveal or rollback, trim ---

    def wait_room(self, cancel: threading.Event | None = None, seconds: float | None = None) -> bool:
        """Waits until one record fits, without the lock; false if cancelled, or after so many seconds."""
        found = self._admission.has_room() or self._wait_for_room(None, cancel, seconds)
        self._unblock()
        return found

    def stage_append(self, chunk: Chunk, publish: int) -> int:
        """Appends a fitting chunk, invisible until `reveal`; returns the number of accepted records, which is smaller
        only if `drop` dropped some."""
        if not chunk.count:
            return 0
        if publish and self.capacity.write_full is WriteFull.DROP:
            room = self._admission.admitted(chunk, self.staged_end())
            self.counters.dropped += chunk.count - room
            if not room:
                return 0
            chunk = chunk.slice(0, room)
        chunk = lifted(chunk, self._last_ts)
        self._log.append(chunk, publish)
        self._last_ts = chunk.last_ts()
        self._staged_records += chunk.count
        self._staged_bytes += chunk.nbytes
        return chunk.count

    def prepare(self) -> None:
        if self.is_outside:
            log = cast(SharedLog, self._log)
            log.send()
            for records in log.take_refused():
                self._staged_records -= records.num_rows
                self._staged_bytes -= records.column("data").nbytes
                self.refused(records)

    def refused(self, records: pa.RecordBatch) -> None:
        """Writes dead letters of records that the topic's outside system refuses because of their size."""
        for letter in too_large(records, self.name, inc=self.inc):
            self._dead(letter)

    def staged_end(self) -> int:
        """The visible end after `reveal`."""
        return self._log.end + self._staged_records

    def reveal(self) -> None:
        """Moves the visible end over everything staged, and wakes waiting readers."""
        self._log.reveal()
        if self.note_end is not None:
            self.note_end(self._log.end)
        self.counters.records_in += self._staged_records
        self.counters.bytes_in += self._staged_bytes
        self._staged_records = self._staged_bytes = 0
        self.announce()

    def rollback(self) -> None:
        """Removes what is staged."""
        self._log.rollback()
        if not self.is_outside:  # a system that does not answer would be asked
            self._last_ts = self._log.last_ts()
        self._staged_records = self._staged_bytes = 0

    def trim(self) -> None:
        """Removes records beyond the capacity; except with `overwrite`, never what a registered reader needs."""
        with self._readers_lock:
            keep, before = self._admission.keep(), self._log.floor
            self._over = keep.over
            if keep.floor > before:
                self._log.trim(keep.floor)
                self.counters.overwritten += max(0, self._log.floor - max(before, keep.hold))

    def skip(self, offset: int) -> None:
        """Skips offsets: the next record gets this one."""
        with self.lock:
            self._log.skip_to(offset)

    def empty_end(self) -> int:
        # One offset is skipped, so that a log which removes whole segments can remove them all.
        return self._log.end + (self._log.floor < self._log.end)

    def empty(self, end: int | None = None) -> None:
        """Readers that had not read to the end are told how many records they missed."""
        with self.lock, self._readers_lock:
            end = self.empty_end() if end is None else end
            if self._log.floor < end:
                self._log.skip_to(max(end, self._log.end))
                self._log.trim(end)
            self._room.notify_all()
        self.announce()

    def begin_anew(self, ended: int) -> None:
        """Follows the log into its next incarnation: readers begin at its floor, and cursors of the old one, which
        ended at `ended`, are refused."""
        with self._readers_lock:
            self.inc, old = self._log.inc, self.source
            self.source = old.of_next(LogProvider(self._log))
            old.die()
            if isinstance(self.rows, LogRows):
                self.rows.begin_anew()
            for reader in self.readers.all():
                reader.lost(max(0, ended - reader.position))
                reader.seek(self._log.floor)

    # --- reading ---

    def reader(self, name: str, start: str | int, *, keep: bool) -> OffsetReader:
        """Registers an offset reader; a kept one continues at its position."""
        with self._readers_lock:  # no record is removed between the check of the floor and the registration
            reader = self.readers.register(name, start, keep, self._log.floor, self._log.end)
        if keep:
            self._tell_position(reader)
        return reader

    def seek(self, name: str, start: str | int) -> int:
        """Moves a reader; returns its new offset."""
        with self._readers_lock:
            offset = max(place(start, self._log.floor, self._log.end), self._log.floor)
            self.readers.get(name).seek(offset)
            return offset

    def drop_reader(self, name: str) -> None:
        """Removes a reader: nothing is held for it any more."""
        self._reader_moved(self.readers.drop(name))

    def bytes_from(self, offset: int) -> int:
        """Bytes from `offset` on."""
        return self._log.bytes_from(max(offset, self._log.floor))

    def offset_at(self, ts_ms: int) -> int:
        """Offset of the first visible record with `ts_ms >=` the given time; the end if there is none."""
        return self._log.offset_at(ts_ms)

    def _reader_moved(self, reader: OffsetReader) -> None:
        if reader.keep:
            self._tell_position(reader)
        if self._over:
            self.trim()
        if self._waiting:
            with self._room:
                self._room.notify_all()

    def _tell_position(self, reader: OffsetReader) -> None:
        if self._on_position is not None:
            self._on_position(self.name, reader.name, self.inc, reader.position)

    # --- state ---

    def maintain(self, now_ms: int | None = None) -> None:
        """Syncs by interval and removes old records; called about every second."""
        with self._readers_lock:
            slowest = self.readers.slowest()
            passed = self._log.end if slowest is None else min(slowest.position, self._log.end)
        self._log.maintain(passed, now_ms)  # without the lock, since syncing a disk is slow

    def blocked(self) -> Blocked | None:
        """The reader that blocks writers, and for how long; `None` if no writer waits."""
        since, now = self._blocked_since, time.monotonic()
        if since is None:
            return None
        seconds = now - since
        if self._disk_full:
            return Blocked(self.name, "", "", seconds, 0.0, f'topic "{self.name}": the disk is full')
        slowest = self.readers.slowest()
        if slowest is None:
            return None
        idle = now - slowest.moved_at
        who = f"{slowest.name}: client {slowest.peer}" if slowest.peer else slowest.name
        return Blocked(self.name, slowest.name, slowest.peer, seconds, idle, f"{who} has not read for {idle:.0f} s")

    def fill(self) -> float | None:
        slowest = self.readers.slowest()
        start = self._log.floor if slowest is None else max(slowest.position, self._log.floor)
        return self.filled(self._log.end - start, self.bytes_from(start))

    def stats(self) -> dict[str, object]:
        end, floor = self._log.end, self._log.floor
        held, blocked = self._admission.held_from(), self.blocked()
        records, size = self.capacity.records, self.capacity.bytes
        return {
            **self.common_stats(end - floor, self._log.bytes_from(floor)),
            "overshoot": max(0, end - held - records) if held is not None and records is not None else 0,
            "overshoot_bytes": max(0, self._log.bytes_from(held) - size) if held is not None and size else 0,
            "blocked_seconds": round(blocked.seconds, 3) if blocked else 0.0,
            "blocked_by": blocked.detail if blocked else "",
            "readers": [reader.stats(end, held is not None) for reader in self.readers.all()],
        }

    def close(self) -> None:
        """Wakes all waiting calls and closes the log; later appends are rejected."""
        with self._room:
            self._closed = True
            self._room.notify_all()
        with nullcontext() if self.is_outside else self.lock:  # an outside log ends the writer that waits in it
            self._log.close()
        self.announce()
