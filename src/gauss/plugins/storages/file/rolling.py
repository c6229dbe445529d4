"""Segments that are written no more → Arrow files, in rounds, beside the writer."""

from __future__ import annotations

import contextlib
import threading

from gauss.plugins.storages.file.rolled import RolledSegment, roll
from gauss.plugins.storages.file.segment import Segment
from gauss.plugins.storages.file.segments import Segments


class Rolling:
    """A segment is rolled one round after it was left: by then the journal has what committed it on disk. The files of
    the log go a round later: a reader may be about to open them."""

    def __init__(self, segments: Segments, write_lock: threading.Lock) -> None:
        self._segments = segments
        self._write_lock = write_lock
        self._ready: set[int] = set()
        self._replaced: list[Segment] = []

    def begin_round(self, shown: int) -> list[Segment]:
        """Under the write lock: removes what the last round replaced; gives what is to be rolled of the first `shown`
        segments."""
        for replaced in list(self._replaced):
            self.remove_log(replaced.base)
        left = [each for each in self._segments.all[: shown - 1] if isinstance(each, Segment)]
        due = [segment for segment in left if segment.base in self._ready and segment.blocks]
        self._ready = {segment.base for segment in left}
        return due

    def roll(self, segment: Segment) -> None:
        """Beside the writer, which may trim the segment meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            self._replace(segment, roll(segment))

    def _replace(self, segment: Segment, rolled: RolledSegment) -> None:
        with self._write_lock:
            if segment not in self._segments.all:  # trimmed meanwhile
                rolled.remove()
                return
            rolled.before = segment.before
            self._segments.all = tuple(rolled if each is segment else each for each in self._segments.all)
            self._replaced.append(segment)

    def remove_log(self, base: int) -> None:
        """Under the write lock: the files of the log that a rolled segment was made of, if they are still there."""
        for segment in [each for each in self._replaced if each.base == base]:
            segment.remove()
            self._replaced.remove(segment)
