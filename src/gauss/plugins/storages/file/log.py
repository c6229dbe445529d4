"""The file log: segments in a folder. One writer at a time; readers take no lock."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.storage import BackedUp, StorageContext
from gauss.model.errors import Collected, Damaged, GaussError
from gauss.model.files import PRIVATE_FOLDER
from gauss.plugins.storages.file import meta
from gauss.plugins.storages.file.backup import BackupPart, copy_parts, parts_of
from gauss.plugins.storages.file.disk import lock_folder, os_errors_explained, sync_folder
from gauss.plugins.storages.file.log_sync import LogSync
from gauss.plugins.storages.file.offline import note_elsewhere
from gauss.plugins.storages.file.recover import open_segments
from gauss.plugins.storages.file.rolled_segment import RolledSegment
from gauss.plugins.storages.file.roller import Roller
from gauss.plugins.storages.file.segment import Segment
from gauss.plugins.storages.file.segments import Segments
from gauss.plugins.storages.file.spec import FileConfig
from gauss.plugins.storages.memory.ring import Ring

TAIL_BYTES = 4 << 20
"""Bytes of the newest records (up to twice as many) that are cached in memory for readers that keep up."""
LARGEST_TAIL_BYTES = 64 << 20
"""Maximum bytes of the records of one `reveal`, which are cached until the next `reveal` or `maintain`."""

log = logging.getLogger(__name__)


class FileLog:
    """A `Log` in files."""

    times_vary = False

    def __init__(self, config: PluginConfig, context: StorageContext) -> None:
        self._config = file = cast(FileConfig, config)
        self._root = context.base_dir / file.data_dir if file.data_dir is not None else context.directory
        self._write_lock = threading.Lock()  # appends, trims, and age retention, which has its own thread
        with os_errors_explained("opening", self._root):
            self._root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._folder_lock: int | None = lock_folder(self._root)
            note_elsewhere(context.directory, self._root)
            try:
                self.framing: Framing = context.framing(file.framing, file.framing_parameters())
                self._meta = meta.open_meta(self._root, file, context)
                self.inc = self._meta.inc
                self._segments = Segments(self._open_segments(context))
            except BaseException:
                os.close(self._folder_lock)
                raise
        active = self._segments.active
        self._end = self._appended = active.end
        self._shown_blocks = active.blocks
        self._shown_segments = len(self._segments.all)
        self._tail = Ring(None, None, start=active.end)
        self._unshown_bytes = self._untrimmed_bytes = 0
        self._began = time.monotonic()
        self._damaged: set[tuple[int, int]] = set()
        self._syncing = LogSync(file, self._segments, self._write_lock)
        named = None if file.format is None else partial(context.format, file.format)
        self._rolling = Roller(self._segments, self._write_lock, named)

    def _open_segments(self, context: StorageContext) -> list[Segment | RolledSegment]:
        """The segments of the folder, followed by one to write to."""
        recovered = open_segments(self._root, self.framing, context.committed, self._meta.gaps)
        self.lost, self.set_aside = recovered.lost, recovered.aside
        found = recovered.segments
        last = found[-1] if found else None
        if last is None:
            return [self._new_segment(0, 0, "")]
        if isinstance(last, RolledSegment) or not last.is_written:
            found.append(self._new_segment(last.end, last.before + last.size, last.folder))
        return found

    # --- what is there ---

    @property
    def floor(self) -> int:
        return self._segments.floor

    @property
    def end(self) -> int:
        return self._end

    def last_ts(self) -> int:
        return self._segments.last_ts()

    def bytes_from(self, offset: int) -> int:
        return self._segments.bytes_from(offset)

    def offset_within(self, limit: int) -> int:
        return self._segments.offset_within(limit)

    def offset_at(self, ts_ms: int) -> int:
        end, found = self._end, self._segments.offset_at(ts_ms)
        return end if found is None else min(max(found, self.floor), end)

    def chunks(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        stop, tail = min(stop, self._end), self._tail
        if start >= stop:
            return []
        if start < self.floor:
            raise Collected(f"offset {start} is behind the oldest retained record {self.floor}")
        if start >= tail.floor:
            try:
                return tail.chunks(start, stop, max_bytes)
            except Collected:
                pass  # no longer in memory, but still in the file
        while start < stop:
            try:
                return self._segments.read(start, stop, max_bytes)
            except Damaged as error:
                self._note(error)
                if self._config.on_damage == "stop":
                    raise
                start = error.stop
        return []

    def _note(self, error: Damaged) -> None:
        if (error.first, error.stop) not in self._damaged:
            self._damaged.add((error.first, error.stop))
            log.error("%s", error.message)

    @property
    def damaged(self) -> int:
        """Number of damaged records found since the log was opened."""
        return sum(stop - first for first, stop in list(self._damaged))

    def backup(self, folder: Path) -> BackedUp:
        """Copies all visible records to a new folder, concurrently with writers and readers."""
        with self._write_lock, os_errors_explained("reading", self._root):
            parts = [BackupPart.of(self._root, self._root / meta.NAME)]
            shown = self._segments.all[: self._shown_segments]
            for number, segment in enumerate(shown):
                last = number == len(shown) - 1
                parts += parts_of(self._root, segment, self._shown_blocks if last else segment.blocks)
            records = self._end - self.floor
        return copy_parts(parts, folder, records)

    # --- writing ---

    def append(self, chunk: Chunk, publish: int = 0) -> None:
        """Appends records; after a failure none of them remains."""
        stored = chunk.framed(self.framing)
        with self._write_lock, os_errors_explained("writing", self._root):
            active = self._segment_for(stored)
            blocks = active.blocks
            try:
                active.append(stored, publish)
                if self._config.fsync == "always":
                    for handle in active.handles():
                        handle.sync()
            except BaseException:
                active.cut(blocks)
                raise
            self._appended = active.end
            self._syncing.dirty = True
            # A client that uses the framing in which records came is sent these bytes as they are. Records without one
            # are Arrow memory, which would keep the pages around it from going back to the system.
            self._tail.append(stored if chunk.framing is None else chunk)
            self._unshown_bytes += chunk.nbytes

    def reveal(self) -> None:
        with self._write_lock:
            self._shown_segments = len(self._segments.all)
            self._shown_blocks = self._segments.active.blocks
            self._tail.reveal()
            self._untrimmed_bytes += self._unshown_bytes
            if self._untrimmed_bytes > TAIL_BYTES:
                self._trim_tail(min(max(TAIL_BYTES, self._unshown_bytes), LARGEST_TAIL_BYTES))
            self._unshown_bytes = 0
        self._end = self._appended

    def _trim_tail(self, size: int) -> None:
        self._untrimmed_bytes = 0
        self._tail.trim(self._tail.offset_within(size))

    def rollback(self) -> None:
        segments = self._segments
        with self._write_lock, os_errors_explained("taking back what was written to", self._root):
            while len(segments.all) > self._shown_segments:
                segments.active.stop_writing()
                segments.active.remove()
                segments.all = segments.all[:-1]
                if len(segments.all) == self._shown_segments:
                    segments.active.begin_writing()
            if segments.active.blocks > self._shown_blocks:
                segments.active.cut(self._shown_blocks)
            self._appended = self._end
            self._tail.rollback()
            self._unshown_bytes = 0

    def skip_to(self, offset: int) -> None:
        if offset <= self._appended:
            return
        with self._write_lock, os_errors_explained("writing", self._root):
            self._meta.add_gap(self._appended, offset)
            # The name of the new segment keeps the place, even before it holds a record.
            self._start_segment(offset, self._segments.active.folder)
        self._appended = offset
        self._tail = Ring(None, None, start=offset)
        self.reveal()

    def _segment_for(self, chunk: Chunk) -> Segment:
        """The segment for this chunk: the last one, or a new one if that is full or of another day."""
        active = self._segments.active
        folder = self._root
        if self._config.partition_by == "date":
            folder = self._root / datetime.fromtimestamp(chunk.first_ts() / 1000, UTC).strftime("%Y-%m-%d")
        full = active.blocks and active.size + chunk.nbytes > self._config.segment_limit()
        if self._config.file_format == "arrow_ipc_file" and active.blocks:
            full = full or active.end - active.base + chunk.count > self._config.roll_rows
        if not full and folder == active.folder:
            return active
        return self._start_segment(self._appended, folder)

    def _start_segment(self, base: int, folder: Path) -> Segment:
        active, segments = self._segments.active, self._segments.all
        self._began = time.monotonic()
        fresh = self._new_segment(base, active.before + active.size, folder)
        self._syncing.leave(active.stop_writing())
        if active.base == base and not active.blocks:  # an empty one gives its place
            if active.folder != folder:
                active.remove()
            segments = segments[:-1]
        self._segments.all = (*segments, fresh)
        return fresh

    def _new_segment(self, base: int, before: int, folder: Path | str) -> Segment:
        path = self._root / folder
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)
        segment = Segment(path, base, self.framing, before)
        segment.begin_writing()
        if self._config.fsync != "never":
            sync_folder(path)
            sync_folder(self._root)
        return segment

    def _leave_active(self) -> None:
        """Starts a new segment after the active one, unless records are staged in that."""
        active = self._segments.active
        if not active.blocks or self._appended != self._end:
            return
        self._start_segment(self._appended, active.folder)
        self._shown_segments, self._shown_blocks = len(self._segments.all), 0

    # --- letting go ---

    def trim(self, floor: int) -> None:
        with self._write_lock:
            self._remove_before(lambda segment: segment.end <= floor)

    def _remove_before(self, may_go: Callable[[Segment | RolledSegment], bool]) -> None:
        segments, number = self._segments.all, 0
        # What is shown may go, but never the segment that is written.
        while number < self._shown_segments - 1 and may_go(segments[number]):
            number += 1
        if not number:
            return
        self._segments.all = segments[number:]
        self._shown_segments -= number
        for segment in segments[:number]:
            self._rolling.remove_log(segment.base)
            segment.remove()
            if segment.folder != self._root and not any(segment.folder.iterdir()):
                segment.folder.rmdir()

    def maintain(self, passed: int, now_ms: int | None = None) -> None:
        file = self._config
        with self._write_lock:
            self._trim_tail(TAIL_BYTES)
        if file.retention is not None:
            with self._write_lock, os_errors_explained("removing old segments of", self._root):
                now = int(time.time() * 1000) if now_ms is None else now_ms
                self._expire(now - file.retention, self._end if file.retention_force else passed)
        self._syncing.sync_if_due()
        if file.file_format == "arrow_ipc_file":
            self._roll()

    def _expire(self, oldest_ms: int, passed: int) -> None:
        def may_go(segment: Segment | RolledSegment) -> bool:
            return segment.last_ts < oldest_ms and segment.end <= passed and segment.ends_soundly()

        if may_go(self._segments.active):
            self._leave_active()
        self._remove_before(may_go)

    def _roll(self) -> None:
        with self._write_lock, os_errors_explained("rolling", self._root):
            if time.monotonic() - self._began >= self._config.roll_interval / 1000:
                self._leave_active()
            due = self._rolling.begin_round(self._shown_segments)
        if due and self._syncing.dirty:
            self._syncing.sync()  # an epoch that starts in a rolled segment must not lose its end
        for segment in due:
            with os_errors_explained("rolling", self._root):
                self._rolling.roll(segment)

    def _roll_rest(self) -> None:
        """Rolls all segments at a stop, so that the files hold all records; failures are left to the next run."""
        with self._write_lock:
            self._leave_active()
            due = self._rolling.all_due(self._shown_segments)
        try:
            for segment in due:
                self._rolling.roll(segment)
            with self._write_lock:
                self._rolling.remove_logs()
        except (GaussError, OSError) as error:
            log.warning("%s: not everything is rolled: %s", self._root, error)

    def close(self) -> None:
        if self._folder_lock is None:
            return
        self._syncing.sync()
        if self._config.file_format == "arrow_ipc_file":
            self._roll_rest()
        with self._write_lock:
            self._segments.active.stop_writing()
            os.close(self._folder_lock)
            self._folder_lock = None
