"""Rolls finished segments to Arrow files, in rounds, in the background."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from gauss.contracts.format import Format
from gauss.plugins.storages.file.rolled_segment import RolledSegment, roll
from gauss.plugins.storages.file.rows_file import RowsFile
from gauss.plugins.storages.file.segment import ROWS, Segment
from gauss.plugins.storages.file.segments import Segments


class Roller:
    """Rolls a segment one round after it was finished, when the journal entries that commit it are synced. The files of
    the log are removed a round later, because a reader may be about to open them. With a format that has a schema, its
    columns are written to a separate file and the log stays."""

    def __init__(
        self, segments: Segments, write_lock: threading.Lock, format_: Callable[[], Format] | None = None
    ) -> None:
        self._segments = segments
        self._write_lock = write_lock
        self._ready: set[int] = set()
        self._replaced: list[Segment] = []
        self._format = format_
        self._rows: RowsFile | None = None
        self._written: set[int] = set()

    def begin_round(self, shown: int) -> list[Segment]:
        """Under the write lock: removes the logs that the last round replaced; returns the segments to roll among the
        first `shown`."""
        self.remove_logs()
        left = self._left(shown)
        due = [segment for segment in left if segment.base in self._ready]
        self._ready = {segment.base for segment in left}
        return due

    def all_due(self, shown: int) -> list[Segment]:
        """Under the write lock and with a synced journal: all segments that can be rolled."""
        return self._left(shown)

    def _left(self, shown: int) -> list[Segment]:
        left = [each for each in self._segments.all[: shown - 1] if isinstance(each, Segment) and each.blocks]
        return [segment for segment in left if segment.base not in self._written]

    def roll(self, segment: Segment) -> None:
        """Runs concurrently with the writer, which may trim the segment."""
        with contextlib.suppress(FileNotFoundError):
            rows = self._rows_file()
            if rows is None:
                self._replace(segment, roll(segment))
                return
            if not segment.path(ROWS).exists():
                rows.write(segment)
            self._written.add(segment.base)
            if segment not in self._segments.all:  # trimmed meanwhile
                segment.path(ROWS).unlink(missing_ok=True)

    def _rows_file(self) -> RowsFile | None:
        """Created on first use, since codecs are large; None if records are kept as bytes."""
        if self._rows is None and self._format is not None:
            made = self._format()
            schema = made.schema()
            if schema is None:  # a self-describing format
                self._format = None
            else:
                self._rows = RowsFile(made, schema)
        return self._rows

    def _replace(self, segment: Segment, rolled: RolledSegment) -> None:
        with self._write_lock:
            if segment not in self._segments.all:  # trimmed meanwhile
                rolled.remove()
                return
            rolled.before = segment.before
            self._segments.all = tuple(rolled if each is segment else each for each in self._segments.all)
            self._replaced.append(segment)

    def remove_logs(self) -> None:
        """Under the write lock: removes all replaced logs."""
        for replaced in list(self._replaced):
            self.remove_log(replaced.base)

    def remove_log(self, base: int) -> None:
        """Under the write lock: removes the log files of a rolled segment, if they still exist."""
        for segment in [each for each in self._replaced if each.base == base]:
            segment.remove()
            self._replaced.remove(segment)
