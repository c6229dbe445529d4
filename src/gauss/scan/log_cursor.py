"""The cursor over a log. All reads of log topics use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import (
    VIEW_TEXTS,
    Agg,
    Capabilities,
    Code,
    Cursor,
    Last,
    Mode,
    OffsetRange,
    Output,
    Placed,
    Program,
    Seq,
    Step,
    TimeRange,
)
from gauss.model.batch import MOST_BYTES, RECORD_SCHEMA
from gauss.model.errors import Collected, ConfigError
from gauss.scan.merge import fitting, rows
from gauss.scan.outputs import Item

if TYPE_CHECKING:
    from gauss.contracts.format import Format
    from gauss.contracts.storage import Log

CAPABILITIES = Capabilities(
    views=frozenset({Seq, OffsetRange, TimeRange, Last, Agg}),
    outputs=frozenset(Output),
    live=True,
    max_fuel_scan=1 << 63,  # a client may follow a topic for years
    max_batch_bytes=MOST_BYTES,  # a record of any size can be read
    seek=True,
)

_OK = Code.OK  # looking up an enum member is slow, and every step does it


class LogCursor:
    """A scan of a log. Returns chunks as stored; the executor cuts them. `position`: offset of the next record."""

    def __init__(self, log: Log, program: Program) -> None:
        self.pinned_version = log.end
        self._log = log
        self._rows = program.output is not Output.CHUNKS
        self._live = program.mode is Mode.LIVE
        self._placed: list[Placed] | None = None
        self._batch: pa.RecordBatch | None = None
        self._refused: Code | None = None
        self._times: tuple[int, int | None] | None = None
        """The times of the wanted records, if those of the log may go back."""
        self.position, self._stop = self._place(program)
        self._start = self.position

    @property
    def hold(self) -> int:
        return max(self.pinned_version, self.position) if self._live else self.pinned_version

    def seek(self, to: int | str) -> bool:
        """Moves to an offset of the view. False if it is outside the view."""
        stop = self._log.end if self._stop is None else self._stop
        if type(to) is not int or not self._start <= to <= stop:
            return False
        self.position = to
        return True

    def _place(self, program: Program) -> tuple[int, int | None]:
        """Start and stop offset of the scan. The stop is `None` for a live scan."""
        view, end, floor = program.view, self.pinned_version, self._log.floor
        if isinstance(view, Seq):
            start = floor if view.start is None else view.start
            if start > end:
                raise ConfigError(f"expected an offset up to {end}, found {start}", hint="start at the end instead")
            if start < floor:
                raise _collected(start, floor)
            return start, None if self._live else end
        if self._live:
            raise ConfigError(
                f"expected a snapshot for {VIEW_TEXTS[type(view)]}, found a live scan",
                hint="read it without live, or go on from an offset: seq(from: …)",
            )
        if isinstance(view, OffsetRange):
            stop = end if view.stop is None else view.stop
            if not view.start <= stop <= end:
                hint = f"the topic ends at offset {end}: leave the end of the range out, or wait for more"
                raise ConfigError(f"expected a range below {end}, found [{view.start}, {stop})", hint=hint)
            if view.start < floor:
                raise _collected(view.start, floor)
            return view.start, stop
        if isinstance(view, TimeRange):
            if view.stop_ms is not None and view.start_ms > view.stop_ms:
                raise ConfigError(f"expected from ≤ to, found [{view.start_ms}, {view.stop_ms})")
            start = max(floor, min(self._log.offset_at(view.start_ms), end))
            if self._log.times_vary:
                self._times = view.start_ms, view.stop_ms
                return start, end
            return start, end if view.stop_ms is None else max(start, min(self._log.offset_at(view.stop_ms), end))
        assert isinstance(view, Last)
        return self._last(floor, end), end

    def _last(self, floor: int, end: int) -> int:
        """The offset of the newest record; `end` if there is none. The last offsets may have no record."""
        width = 1
        while width <= 2 * (end - floor):
            placed = self._log.chunks(max(floor, end - width), end, MOST_BYTES)
            if placed:
                offset, chunk = placed[-1]
                return offset + chunk.count - 1
            width *= 2
        return end

    def next(self, step: Step) -> Code:
        self._placed = self._batch = None
        if self._refused is not None:
            return self._refused
        if step.limit <= 0 or step.max_bytes <= 0:
            return Code.INVALID
        while True:
            stop = self._log.end if self._stop is None else self._stop
            if self.position >= stop:
                return Code.INVALID
            if self._rows:
                stop = min(stop, self.position + step.limit)
            try:
                placed = self._log.chunks(self.position, stop, step.max_bytes)
            except Collected:
                self._refused = Code.REJECTED
                return self._refused
            if not placed:  # a gap in the offsets, left by a restart
                self.position = stop
                continue
            if self._times is not None:
                after = placed[-1].offset + placed[-1].chunk.count
                placed = [part for each in placed for part in _within(each, *self._times)]
                if not placed:
                    self.position = after
                    continue
            self._take(placed, step)
            return _OK

    def _take(self, placed: list[Placed], step: Step) -> None:
        """Keeps as many whole chunks as the step allows; cuts a chunk only if it exceeds the limit by itself."""
        taken = count = 0
        for entry in placed:
            chunk = entry.chunk
            if taken and count + chunk.count > step.limit:
                break
            taken, count = taken + 1, count + chunk.count
        del placed[taken:]
        if taken == 1:
            offset, chunk = placed[0]
            allowed = min(chunk.count, step.limit)
            if chunk.nbytes > 2 * step.max_bytes:
                allowed = min(allowed, max(1, fitting(chunk, step.max_bytes)))
            if allowed < chunk.count:
                chunk = chunk.slice(0, allowed)
                placed[0] = Placed(offset, chunk)
        last_offset, last = placed[-1]
        self.position = last_offset + last.count
        self._placed = placed

    def read(self) -> tuple[Code, Item | None]:
        if self._batch is not None:
            return _OK, self._batch
        if self._placed is None:
            return self._refused or Code.INVALID, None
        if not self._rows:
            return _OK, self._placed
        self._batch = rows(self._placed)
        return _OK, self._batch

    def close(self) -> None:
        self._placed = self._batch = None
        self._refused = Code.INVALID


def _collected(start: int, floor: int) -> Collected:
    return Collected(f"offset {start} is behind the oldest retained record {floor}", hint=f"start at {floor} or later")


def _within(placed: Placed, start_ms: int, stop_ms: int | None) -> Iterator[Placed]:
    """The records of a chunk with `start_ms <= ts_ms < stop_ms`."""
    offset, chunk = placed
    times = np.broadcast_to(chunk.ts_ms, chunk.count)
    wanted = (times >= start_ms) & (times < stop_ms) if stop_ms is not None else times >= start_ms
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False])).astype(np.int8)))
    for first, stop in edges.reshape(-1, 2).tolist():
        yield Placed(offset + first, chunk.slice(first, stop - first))


class LogProvider:
    """Provides the records of a log as candidates of scans."""

    capabilities: Capabilities = CAPABILITIES

    def __init__(self, log: Log) -> None:
        self.inc = log.inc
        self._log = log

    def version(self) -> int:
        return self._log.end

    def floor(self) -> int:
        return self._log.floor

    def candidates(self) -> pa.Schema:
        return RECORD_SCHEMA

    def format(self) -> Format | None:
        """`None`: a log has no format of its own; programs name one."""
        return None

    def open(self, program: Program) -> Cursor:
        return LogCursor(self._log, program)
