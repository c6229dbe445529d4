"""The file log: segments in a folder. One writer at a time; readers take no lock."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.storage import BackedUp, StorageContext
from gauss.model.errors import Collected, StorageError
from gauss.plugins.storages.file.backup import Part, copy_parts
from gauss.plugins.storages.file.disk import Handle, lock_folder, replace_file, said_plainly, sync_folder
from gauss.plugins.storages.file.index import ENTRY
from gauss.plugins.storages.file.recover import open_segments
from gauss.plugins.storages.file.rolled import RolledSegment, roll
from gauss.plugins.storages.file.segment import Segment
from gauss.plugins.storages.file.spec import FileConfig
from gauss.plugins.storages.memory.ring import Ring

FORMAT = 1
TAIL_BYTES = 4 << 20
"""So much of the newest, up to twice that, stays in memory too: a reader that keeps up touches no file."""
ROLLS_MET = 10
"""How often a read begins again because a segment was rolled under it."""
MAPPED_SEGMENTS = 16


class FileLog:
    """A `Log` in files."""

    def __init__(self, config: PluginConfig, context: StorageContext) -> None:
        self._config = file = cast(FileConfig, config)
        self._root = context.base_dir / file.data_dir if file.data_dir is not None else context.directory
        self._write_lock = threading.Lock()  # appends, trims and age retention, which comes on its own thread
        with said_plainly("opening", self._root):
            self._root.mkdir(parents=True, exist_ok=True)
            self._folder_lock: int | None = lock_folder(self._root)
            try:
                self.framing: Framing = context.framing(file.framing, file.framing_parameters())
                self.inc = self._incarnation(context)
                self._segments = tuple(open_segments(self._root, self.framing, context.committed))
                last = self._segments[-1] if self._segments else None
                if last is None:
                    self._segments = (self._new_segment(0, 0, ""),)
                elif isinstance(last, RolledSegment):
                    fresh = self._new_segment(last.end, last.before + last.size, last.folder)
                    self._segments = (*self._segments, fresh)
            except BaseException:
                os.close(self._folder_lock)
                raise
        active = self._active
        self._end = self._appended = active.end
        self._shown_blocks = active.blocks
        self._shown_segments = len(self._segments)
        self._tail = Ring(None, None, start=active.end)
        self._tail_grown = 0
        self._unsynced: list[Handle] = []
        self._dirty = False
        self._synced_at = time.monotonic()
        self._mapped: deque[Segment | RolledSegment] = deque()
        self._began = time.monotonic()
        self._ready: set[int] = set()
        self._replaced: list[Segment] = []

    @property
    def _active(self) -> Segment:
        """The one that is written."""
        active = self._segments[-1]
        assert isinstance(active, Segment)
        return active

    def _incarnation(self, context: StorageContext) -> int:
        """Checks that the folder is kept in this framing, and stores the incarnation before the first append."""
        path = self._root / "meta.json"
        stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if stored:
            if stored.get("format") != FORMAT:
                raise StorageError(f"{path}: expected format {FORMAT}, found {stored.get('format')}")
            kept = context.framing(stored["framing"], stored["parameters"])
            if kept.key != self.framing.key:
                raise StorageError(
                    f'topic "{context.topic}": {self._root} is kept in framing {stored["framing"]}'
                    f" {stored['parameters']}, the config says {self._config.framing}"
                    f" {self._config.framing_parameters()}",
                    hint="set the framing back, or give the topic another data_dir",
                )
        inc = context.incarnation(int(stored.get("inc", 0)))
        meta = {
            "format": FORMAT,
            "framing": self._config.framing,
            "parameters": self._config.framing_parameters(),
            "inc": inc,
        }
        if meta != stored:
            replace_file(path, json.dumps(meta).encode())
        return inc

    # --- what is there ---

    @property
    def floor(self) -> int:
        return self._segments[0].base

    @property
    def end(self) -> int:
        return self._end

    def last_ts(self) -> int:
        return max(segment.last_ts for segment in self._segments[-2:])

    def bytes_from(self, offset: int) -> int:
        segments = self._segments
        total = segments[-1].before + segments[-1].size
        segment = segments[max(bisect_right(segments, offset, key=_base) - 1, 0)]
        return total - segment.before - segment.bytes_before(offset)

    def offset_within(self, limit: int) -> int:
        """By whole segments, since that is how they are removed."""
        segments = self._segments
        total = segments[-1].before + segments[-1].size
        number = bisect_left(segments, total - limit, key=_before)
        return segments[min(number, len(segments) - 1)].base

    def offset_at(self, ts_ms: int) -> int:
        end, segments = self._end, self._segments
        # An empty last segment (after a gap) has no time of its own.
        filled = [segment for segment in segments if segment.blocks]
        number = bisect_left(filled, ts_ms, key=_last_ts)
        if number == len(filled):
            return end
        return min(max(filled[number].offset_at(ts_ms), self.floor), end)

    # --- reading ---

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
                pass  # it has left memory meanwhile; it is still in the file
        for _ in range(ROLLS_MET):
            try:
                return self._from_files(start, stop, max_bytes)
            except Collected:
                if start < self.floor:
                    raise
                # A segment was rolled at this moment: the files of the log have gone, its records have not.
        return self._from_files(start, stop, max_bytes)

    def _from_files(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        segments = self._segments
        number = bisect_right(segments, start, key=_base) - 1
        if number < 0:
            raise Collected(f"offset {start} was collected while it was read")
        placed: list[Placed] = []
        while number < len(segments) and start < stop and max_bytes > 0:
            segment = segments[number]
            number += 1
            if segment.end <= start or segment.base >= stop:
                continue
            found = self._read(segment, start, stop, max_bytes)
            placed += found
            if found:
                start = found[-1].offset + found[-1].chunk.count
                max_bytes -= sum(entry.chunk.nbytes for entry in found)
                if start < min(segment.end, stop):
                    break  # the budget ended in this segment, though a block that is cut left some of it
        return placed

    def _read(self, segment: Segment | RolledSegment, start: int, stop: int, max_bytes: int) -> list[Placed]:
        try:
            fresh = not segment.is_mapped
            placed = segment.read(start, stop, max_bytes)
        except FileNotFoundError:
            raise Collected(f"offset {start} was collected while it was read") from None
        if fresh:
            self._mapped.append(segment)
            if len(self._mapped) > MAPPED_SEGMENTS:
                self._mapped.popleft().unmap()
        return placed

    # --- writing ---

    def append(self, chunk: Chunk, publish: int = 0) -> None:
        """Adds records behind everything appended; on any failure nothing of them stays."""
        if not chunk.is_framed_as(self.framing):
            chunk = Chunk(self.framing.joiner().join(chunk.data()), chunk.count, chunk.ts_ms, self.framing)
        with self._write_lock, said_plainly("writing", self._root):
            active = self._roll_for(chunk)
            blocks = active.blocks
            try:
                active.append(chunk, publish)
                if self._config.fsync == "always":
                    for handle in active.handles():
                        handle.sync()
            except BaseException:
                active.cut(blocks)
                raise
            self._appended = active.end
            self._dirty = True
            self._tail.append(chunk)
            self._tail_grown += chunk.nbytes

    def reveal(self) -> None:
        with self._write_lock:
            self._shown_segments = len(self._segments)
            self._shown_blocks = self._segments[-1].blocks
        self._tail.reveal()
        if self._tail_grown > TAIL_BYTES:
            self._tail_grown = 0
            self._tail.trim(self._tail.offset_within(TAIL_BYTES))
        self._end = self._appended

    def rollback(self) -> None:
        with self._write_lock, said_plainly("taking back what was written to", self._root):
            while len(self._segments) > self._shown_segments:
                self._active.stop_writing()
                self._active.remove()
                self._segments = self._segments[:-1]
                if len(self._segments) == self._shown_segments:
                    self._active.begin_writing()
            if self._active.blocks > self._shown_blocks:
                self._active.cut(self._shown_blocks)
            self._appended = self._end
            self._tail.rollback()

    def skip_to(self, offset: int) -> None:
        if offset <= self._appended:
            return
        with self._write_lock, said_plainly("writing", self._root):
            active = self._active
            # The name of the new segment keeps the place, even before it holds a record.
            self._start_segment(offset, active.folder)
        self._appended = offset
        self._tail = Ring(None, None, start=offset)
        self.reveal()

    def _roll_for(self, chunk: Chunk) -> Segment:
        """The segment that takes this chunk: the last one, or a new one if that is full or of another day."""
        active = self._active
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
        active = self._active
        self._began = time.monotonic()
        replaced = active.base == base and not active.blocks
        fresh = self._new_segment(base, active.before + active.size, folder)
        handles = active.stop_writing()
        if self._config.fsync == "interval":
            self._unsynced += handles
        if replaced:  # an empty one in another folder
            if active.folder != folder:
                active.remove()
            self._segments = (*self._segments[:-1], fresh)
        else:
            self._segments = (*self._segments, fresh)
        return fresh

    def _new_segment(self, base: int, before: int, folder: Path | str) -> Segment:
        path = self._root / folder
        path.mkdir(exist_ok=True)
        segment = Segment(path, base, self.framing, before)
        segment.begin_writing()
        if self._config.fsync != "never":
            sync_folder(path)
            sync_folder(self._root)
        return segment

    # --- copying ---

    def backup(self, folder: Path) -> BackedUp:
        """Everything visible now, in a folder of its own; writers and readers go on meanwhile."""
        with self._write_lock, said_plainly("reading", self._root):
            parts = [Part.of(self._root, self._root / "meta.json")]
            shown = self._segments[: self._shown_segments]
            for number, segment in enumerate(shown):
                last = number == len(shown) - 1
                parts += self._parts_of(segment, self._shown_blocks if last else segment.blocks)
            records = self._end - self.floor
        return copy_parts(parts, folder, records)

    def _parts_of(self, segment: Segment | RolledSegment, blocks: int) -> list[Part]:
        if isinstance(segment, RolledSegment):
            return [Part.of(self._root, segment.file)]
        if not blocks:
            return []
        end = segment.index().entry(blocks - 1)
        parts = [
            Part.of(self._root, segment.path("log"), end.end_position),
            Part.of(self._root, segment.path("index"), blocks * ENTRY.size),
        ]
        if segment.path("times").exists():
            size = segment.path("times").stat().st_size
            parts.append(Part.of(self._root, segment.path("times"), min(size, 8 * (end.end - segment.base))))
        return parts

    # --- letting go ---

    def trim(self, floor: int) -> None:
        with self._write_lock:
            self._remove_before(lambda segment: segment.end <= floor)

    def _remove_before(self, may_go: Callable[[Segment | RolledSegment], bool]) -> None:
        segments, number = self._segments, 0
        # What is shown may go, but never the segment that is written.
        while number < self._shown_segments - 1 and may_go(segments[number]):
            number += 1
        if not number:
            return
        self._segments = segments[number:]
        self._shown_segments -= number
        for segment in segments[:number]:
            self._remove_replaced(segment.base)
            segment.remove()
            if segment.folder != self._root and not any(segment.folder.iterdir()):
                segment.folder.rmdir()

    def maintain(self, passed: int, now_ms: int | None = None) -> None:
        file = self._config
        if file.retention is not None:
            with self._write_lock, said_plainly("removing old segments of", self._root):
                now = int(time.time() * 1000) if now_ms is None else now_ms
                self._expire(now - file.retention, self._end if file.retention_force else passed)
        due = time.monotonic() - self._synced_at >= file.fsync_interval / 1000
        if file.fsync == "interval" and self._dirty and due:
            self._sync()
        if file.file_format == "arrow_ipc_file":
            self._roll()

    def _roll(self) -> None:
        """Turns segments that are written no more into Arrow files, one round after they were left: by then the journal
        has what committed them on disk. The files of the log go a round later: a reader may be about to open them."""
        with self._write_lock, said_plainly("rolling", self._root):
            active, nothing_staged = self._active, self._appended == self._end
            waited = time.monotonic() - self._began >= self._config.roll_interval / 1000
            if active.blocks and waited and nothing_staged:
                self._start_segment(self._appended, active.folder)
                self._shown_segments, self._shown_blocks = len(self._segments), 0
            left = [each for each in self._segments[: self._shown_segments - 1] if isinstance(each, Segment)]
            for replaced in list(self._replaced):
                self._remove_replaced(replaced.base)
        due = [segment for segment in left if segment.base in self._ready and segment.blocks]
        self._ready = {segment.base for segment in left}
        if due and self._dirty and self._config.fsync != "never":
            self._sync()  # an epoch that begins in a rolled segment must not lose its end
        for segment in due:
            with said_plainly("rolling", self._root), contextlib.suppress(FileNotFoundError):
                self._replace(segment, roll(segment))

    def _replace(self, segment: Segment, rolled: RolledSegment) -> None:
        with self._write_lock:
            if segment not in self._segments:  # trimmed meanwhile
                rolled.remove()
                return
            rolled.before = segment.before
            self._segments = tuple(rolled if each is segment else each for each in self._segments)
            self._replaced.append(segment)

    def _remove_replaced(self, base: int) -> None:
        for segment in [each for each in self._replaced if each.base == base]:
            segment.remove()
            self._replaced.remove(segment)

    def _expire(self, oldest_ms: int, passed: int) -> None:
        active = self._active
        nothing_staged = self._appended == self._end
        if active.blocks and active.last_ts < oldest_ms and active.end <= passed and nothing_staged:
            self._start_segment(self._appended, active.folder)
            self._shown_segments, self._shown_blocks = len(self._segments), 0
        self._remove_before(lambda segment: segment.last_ts < oldest_ms and segment.end <= passed)

    def _sync(self) -> None:
        """Forces everything to disk, beside the writer: handles stay open while they are referred to."""
        with self._write_lock:
            handles = [*self._unsynced, *self._active.handles()]
            self._unsynced, self._dirty = [], False
        self._synced_at = time.monotonic()
        try:
            with said_plainly("syncing", self._root):
                for handle in handles:
                    handle.sync()
        except StorageError:
            with self._write_lock:
                self._unsynced, self._dirty = [*handles, *self._unsynced], True
            raise

    def close(self) -> None:
        if self._folder_lock is None:
            return
        if self._config.fsync != "never":
            self._sync()
        with self._write_lock:
            self._active.stop_writing()
            os.close(self._folder_lock)
            self._folder_lock = None


def _base(segment: Segment | RolledSegment) -> int:
    return segment.base


def _before(segment: Segment | RolledSegment) -> int:
    return segment.before


def _last_ts(segment: Segment | RolledSegment) -> int:
    return segment.last_ts
