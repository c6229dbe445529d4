"""A scan of a table: the rows of one root in key order; a live scan continues with every later event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.cursor import Code, KeyRange, Mode, Point, Prefix, Program, Seq, Step, TimeRange
from gauss.model.errors import Collected, ConfigError
from gauss.plugins.storages.memory.runs import (
    BATCH_BYTES,
    DATA,
    KEY,
    TS_MS,
    VERSION,
    Bound,
    Run,
    in_range,
    rows_between,
)
from gauss.scan.outputs import lengths, packed_size

if TYPE_CHECKING:
    from gauss.plugins.storages.memory.table import Events, Root

ROW_BYTES = 17
"""Bytes of the version, time and deletion mark of a row."""


class Rooted(Protocol):
    """What is scanned: the newest root of a table, and what it keeps of earlier ones."""

    def pin(self) -> Root: ...

    def newest_parts(self) -> set[int]: ...

    def held(self, version: int) -> tuple[Run, ...] | None: ...

    def tail_at(self, version: int) -> Events | None: ...


class TableCursor:
    """A cursor pinned at the version that was current when it was opened; `position` is the last delivered version."""

    def __init__(self, table: Rooted, program: Program, closed: Callable[[], object]) -> None:
        self._closed = closed
        self._newest_parts = table.newest_parts
        self._live = program.mode is Mode.LIVE
        self._low, self._high = key_range(program)
        self._times = program.view if isinstance(program.view, TimeRange) else None
        start = program.view.start if isinstance(program.view, Seq) else None
        root = table.pin()
        self.pinned_version = self.position = self.hold = root.version
        self._runs = root.runs()
        self._tail: Events | None = root.last if self._live else None
        self._pages: Iterator[pa.RecordBatch] | None = self._rows(self._low)
        self._left: pa.RecordBatch | None = None
        self._batch: pa.RecordBatch | None = None
        self._in_root = True
        self._refused: Code | None = None
        if program.held is not None:
            self._start_at_held(table, program.held)
        if start is not None:
            self._start_after(table, start)

    def _start_at_held(self, table: Rooted, version: int) -> None:
        """Starts a snapshot of a pinned version."""
        runs = table.held(version)
        if runs is None:
            raise Collected(f"version {version} is no longer kept", hint="scan without a version")
        self.pinned_version = self.position = self.hold = version
        self._runs = runs

    def _start_after(self, table: Rooted, version: int) -> None:
        """Starts a live scan whose reader already has Root(version): only the tail is read."""
        newest = self.pinned_version
        if version > newest:
            raise ConfigError(f"expected a version up to {newest}, found {version}")
        if not self._live:
            raise ConfigError(
                f"expected a snapshot of the newest version, which is {newest}, found {version}",
                hint="scan without a version, or live from one",
            )
        self._tail = table.tail_at(version)
        if self._tail is None:
            raise Collected(f"the events after version {version} are gone", hint="scan without a version")
        self.position = self.hold = version
        self._pages, self._runs = None, ()
        following = self._tail.next
        if following is not None and self._tail.stop < version:  # in the middle of a batch
            self._tail, self._in_root = following, False
            later = following.batch.slice(following.batch.num_rows - (following.stop - version))
            rest = in_range(later, self._low, self._high)
            if rest.num_rows:
                self._left = rest
            else:
                self.position = self.hold = following.stop

    def _rows(self, low: Bound) -> Iterator[pa.RecordBatch]:
        if self._times is None:
            yield from rows_between(self._runs, low, self._high)
            return
        for batch in rows_between(self._runs, low, self._high):
            times = batch.column(TS_MS)
            inside = pc.greater_equal(times, self._times.start_ms)
            if self._times.stop_ms is not None:
                inside = pc.and_(inside, pc.less(times, self._times.stop_ms))
            if inside.true_count:
                yield batch.filter(inside)

    def next(self, step: Step) -> Code:
        self._batch = None
        if self._refused is not None:
            return self._refused
        if step.limit <= 0 or step.max_bytes <= 0:
            return Code.INVALID
        parts, code = self._gather(step)
        if not parts:
            return code
        self._batch = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        if self._tail is not None and not self._in_root:
            passed = self._tail.stop if self._left is None else int(self._batch.column(VERSION)[-1].as_py())
            self.position = self.hold = passed
        return Code.OK

    def _gather(self, step: Step) -> tuple[list[pa.RecordBatch], Code]:
        """Rows up to the limits of a step, at least one; if the step requests it, batches do not depend on the
        boundaries of pages and links."""
        parts: list[pa.RecordBatch] = []
        rows, size = step.limit, 0
        while rows > 0:
            if self._left is None:
                root = self._pages is not None
                if (code := self._load()) is not Code.OK:
                    return parts, code
                if root and self._pages is None and parts:
                    break  # a batch does not cross the end of the root
                if self._left is None:
                    continue
            left = self._left
            count, took = _fitting(left, rows, step.max_bytes - size, at_least=0 if parts else 1)
            rows, size = rows - count, size + took
            if count:
                self._in_root = self._pages is not None
                parts.append(left if count == left.num_rows else left.slice(0, count))
            self._left = left.slice(count) if count < left.num_rows else None
            if self._left is not None or not step.fill:
                break
        return parts, Code.OK

    def _load(self) -> Code:
        """Loads the next rows into `_left`, which may stay empty; any code but OK means that there are none now."""
        if (pages := self._pages) is not None:  # another thread may end the scan concurrently
            self._left = next(pages, None)
            if self._left is None:
                self._pages = None
                if self._live:
                    self._runs = ()  # a long-lived reader keeps only what it has not read
            return Code.OK
        following = self._tail.next if self._tail is not None else None
        if following is None:
            return self._refused or Code.INVALID
        batch = in_range(following.batch, self._low, self._high)
        self._left = batch if batch.num_rows else None
        if self._left is None:
            self.position = self.hold = following.stop
        self._tail = following
        if self._refused is not None:  # the writer has rejected it in the meantime
            self._tail = None
            return self._refused
        return Code.OK

    def seek(self, to: int | str) -> bool:
        """Continues at the first row with a key >= `to`; only within the view and the root."""
        inside = (
            isinstance(to, str) and (self._low is None or to >= self._low) and (self._high is None or to < self._high)
        )
        if not inside or self._refused is not None or (self._live and self._pages is None):
            return False
        self._pages, self._left, self._batch = self._rows(str(to)), None, None
        return True

    def read(self) -> tuple[Code, pa.RecordBatch | None]:
        if self._batch is None:
            return self._refused or Code.INVALID, None
        return Code.OK, self._batch

    def close(self) -> None:
        self._refuse(Code.INVALID)
        self._closed()

    def pinned_parts(self) -> dict[int, int]:
        runs = self._runs
        if not runs:
            return {}
        newest = self._newest_parts()
        return {id(part): part.nbytes + BATCH_BYTES for run in runs for part in run.parts() if id(part) not in newest}

    def reject(self) -> None:
        """Ends the scan because it retains more of the tail or of old versions than its limits allow."""
        self._refuse(Code.REJECTED)

    def _refuse(self, code: Code) -> None:
        self._refused = code
        self._runs, self._pages, self._left, self._batch, self._tail = (), None, None, None, None

    def tail(self) -> Events | None:
        """The last link of the tail that it has read; None if it is not a live scan."""
        return self._tail


def key_range(program: Program) -> tuple[Bound, Bound]:
    """The key range [low, high) of a view."""
    match program.view:
        case Seq():
            return None, None
        case TimeRange() as times:
            if times.stop_ms is not None and times.start_ms > times.stop_ms:
                raise ConfigError(f"expected from ≤ to, found [{times.start_ms}, {times.stop_ms})")
            if program.mode is Mode.LIVE:
                raise ConfigError("expected a snapshot for a range of times, found a live scan")
            return None, None
        case KeyRange(start, stop):
            if start is not None and stop is not None and start > stop:
                raise ConfigError(f'expected from ≤ to, found ["{start}", "{stop}")')
            return start, stop
        case Point(key):
            return key, key + "\0"
        case Prefix(prefix):
            return prefix, after_prefix(prefix)
        case view:
            raise ConfigError(
                f"a table can't be read by {type(view).__name__}: it keeps the newest row of each key, not an order",
                hint="read it as seq, range of keys or times, prefix or point",
            )


def after_prefix(prefix: str) -> Bound:
    """The lowest key above all keys with this prefix; UTF-8 sorts like code points."""
    text = prefix.rstrip("\U0010ffff")
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == 0xD800 else following)


def _fitting(batch: pa.RecordBatch, rows: int, size: int, *, at_least: int) -> tuple[int, int]:
    """The number of the batch's first rows that fit, and their bytes."""
    count = min(batch.num_rows, rows)
    keys, data = (batch.column(index).slice(0, count) for index in (KEY, DATA))
    whole = packed_size(keys) + packed_size(data) + ROW_BYTES * count
    if whole <= size:
        return count, whole
    ends = np.cumsum(lengths(keys).astype(np.int64) + lengths(data) + ROW_BYTES)
    count = max(at_least, int(np.searchsorted(ends, size, side="right")))
    return count, int(ends[count - 1]) if count else 0
