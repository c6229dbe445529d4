"""Executors that return rows: `Plain` returns candidates unchanged, `Staged` runs expressions over them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import pyarrow as pa

from gauss.contracts.cursor import Capabilities, Code, Cursor, Output, Program, Step
from gauss.scan.aggregate import AggCursor
from gauss.scan.binding import Binding
from gauss.scan.executor import Executor
from gauss.scan.outputs import Item, ipc_stream
from gauss.scan.pending import Evaluated, PassedRows, Pending
from gauss.scan.program.fuel import Limit, Meter, Unread
from gauss.scan.sizes import byte_counter

FEWEST_CANDIDATES = 1024
MOST_CANDIDATES = 262_144
STEPS_AHEAD = 4
"""Maximum number of steps for which candidates are fetched ahead, estimated from the last selectivity."""
FEWEST_BYTES = 256 << 10
CANDIDATE_BYTES = 16 << 20
_OK = Code.OK  # looking up an enum member is slow, and every step does it


class RowExecutor(Executor):
    """Fills a batch up to the limits of its step; continues while all rows are dropped. Fuel is charged for the
    candidates up to the last returned row."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities) -> None:
        super().__init__(cursor, program, capabilities)
        self._pending: Pending | None = None
        self._batch: pa.RecordBatch | None = None
        self._stream: bytes | None = None
        self._columnar = program.output is Output.COLUMNAR
        self._position = cursor.position
        self._held = cursor.hold
        self._asked = 0
        self._count_bytes: Callable[[pa.RecordBatch], int] | None = None

    @property
    def position(self) -> int:
        """The provider's position if nothing is pending: it may have skipped records outside the view."""
        return self.cursor.position if self._pending is None else self._position

    @property
    def hold(self) -> int:
        """While candidates are pending, the hold from before they were fetched, or the position if higher."""
        return self.cursor.hold if self._pending is None else max(self._held, self._position)

    def _seek(self, to: int | str) -> bool:
        if not super()._seek(to):
            return False
        self._pending = None
        self._position = self.cursor.position
        return True

    def next(self, step: Step) -> Code:
        self.discard()
        if self._final is not None:
            return self._final
        if (code := self.refused(step)) is not None:
            return code
        parts: list[pa.RecordBatch] = []
        count = size = 0
        # Without `fill` the batch is not cut at max_bytes: the provider has applied that limit approximately.
        most = min(step.max_bytes, self._limits.max_batch_bytes) if step.fill else self._limits.max_batch_bytes
        stopped: Code | None = None
        while count < step.limit and stopped is None:
            if self._pending is None and (stopped := self._fill(step, most)) is not None:
                break
            part, part_size, stopped = self._take(step.limit - count, most - size, first=not parts)
            if part.num_rows:
                parts.append(part)
                count, size = count + part.num_rows, size + part_size
                if not step.fill:
                    break
        if not parts:
            return stopped or Code.INVALID
        self.size = size
        self._batch = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        return _OK

    def _fill(self, step: Step, most: int) -> Code | None:
        """Fetches and evaluates candidates. Returns a code if there are none."""
        if step.fill:
            self._asked = self._candidates(step.limit)
            wanted = max(FEWEST_BYTES, min(STEPS_AHEAD * most, CANDIDATE_BYTES))
        else:
            self._asked, wanted = step.limit, step.max_bytes
        self._position = self.cursor.position
        self._held = self.cursor.hold
        # One more than the fuel allows, which shows whether the scan is at its end or at its limit.
        code = self.cursor.next(Step(min(self._asked, self._affordable() + 1), wanted, fill=False))
        if isinstance(self.cursor, AggCursor):
            self.fuel += self.cursor.charged()
        if code is not _OK:
            if code is not Code.INVALID:
                self._final = code
            return code
        candidates = self.cursor.read()[1]
        assert isinstance(candidates, pa.RecordBatch)
        self._pending = pending = self._evaluate(candidates)
        if self._count_bytes is None:  # all steps have the same columns
            self._count_bytes = byte_counter(pending.rows.schema)
        pending.size = self._count_bytes(pending.rows)
        pending.admit()
        return None

    @abstractmethod
    def _candidates(self, limit: int) -> int:
        """How many candidates to fetch for a step of `limit` rows."""

    @abstractmethod
    def _affordable(self) -> int:
        """How many candidates the remaining fuel allows at most."""

    @abstractmethod
    def _evaluate(self, candidates: pa.RecordBatch) -> Pending:
        """Evaluates candidates to rows."""

    @abstractmethod
    def _charge(self, pending: Pending, candidates: int) -> None:
        """Charges fuel for the pending candidates from the current one to `candidates`, exclusive."""

    def _take(self, limit: int, size: int, *, first: bool) -> tuple[pa.RecordBatch, int, Code | None]:
        """Takes pending rows. Returns them, their bytes, and a code if the batch must end after them."""
        pending = self._pending
        assert pending is not None
        stop, code = pending.stop, None if pending.over is None else Code.REJECTED
        begin = pending.row
        end = min(pending.admitted, begin + limit)
        before = pending.size_upto(begin)
        fitting = pending.fitting(before + size)
        if fitting < end:
            code, end, stop = _OK, fitting, pending.candidate_of(fitting)
            if first and end == begin:  # return at least one row, unless it exceeds the limit of any batch
                if pending.size_upto(begin + 1) - before > self._limits.max_batch_bytes:
                    return pending.rows.slice(begin, 0), 0, Code.REJECTED
                end, stop = begin + 1, stop + 1
        elif end - begin == limit:
            code, stop = _OK, pending.candidate_of(end - 1) + 1
        taken = pending.size_upto(end) - before
        self._consume(pending, stop, end)
        if code is Code.REJECTED and first and end == begin and pending.over is Limit.SCAN:
            self._final = code
        return pending.rows.slice(begin, end - begin), taken, code

    def _consume(self, pending: Pending, candidates: int, rows: int) -> None:
        if candidates > pending.candidate:
            self._charge(pending, candidates)
        if candidates == pending.count:
            self._pending = None
            self._position = self.cursor.position
        else:
            if candidates:
                self._position = self._place(pending.candidates, pending.record(candidates - 1))
            pending.candidate, pending.row = candidates, rows

    def _place(self, candidates: pa.RecordBatch, index: int) -> int:
        """The position after a candidate; unchanged if the candidate has neither offset nor version."""
        names = candidates.schema.names
        if "offset" in names:
            return int(candidates.column("offset")[index].as_py()) + 1
        if self._live and "version" in names:
            # Rows of the pinned root have versions up to the pinned one, unordered.
            return max(self._position, int(candidates.column("version")[index].as_py()))
        return self._position

    def read(self) -> tuple[Code, Item | None]:
        if self._batch is None:
            return self._final or Code.INVALID, None
        if not self._columnar:
            return _OK, self._batch
        if self._stream is None:
            self._stream = ipc_stream(self._batch)
        return _OK, self._stream

    def discard(self) -> None:
        self._batch = self._stream = None

    def end(self, code: Code) -> None:
        super().end(code)
        self._pending = None


class Plain(RowExecutor):
    """Returns candidates unchanged, charged by rows and bytes."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities) -> None:
        super().__init__(cursor, program, capabilities)
        self._unread = Unread()

    def _candidates(self, limit: int) -> int:
        # A multiple of the step, so that a batch is one slice and needs no concatenation.
        fewest = max(1, FEWEST_CANDIDATES // limit) * limit
        return max(limit, min(max(2 * self._asked // limit * limit, fewest), max(fewest, STEPS_AHEAD * limit)))

    def _affordable(self) -> int:
        return self._unread.affordable(self._limits.max_fuel_scan)

    def _evaluate(self, candidates: pa.RecordBatch) -> Pending:
        return PassedRows(candidates, self._unread, self._limits)

    def _charge(self, pending: Pending, candidates: int) -> None:
        size = pending.size_upto(candidates) - pending.size_upto(pending.candidate)
        self._unread.add(candidates - pending.candidate, size)
        self.fuel = self._unread.spent


class Staged(RowExecutor):
    """Runs expressions over candidates."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities, binding: Binding) -> None:
        super().__init__(cursor, program, capabilities)
        self._binding = binding
        self._per_row = 0.0  # candidates per returned row, of the last evaluation

    def _candidates(self, limit: int) -> int:
        # Doubles each time, so that a small first batch is quick and a long search is fast, but limited to the rows of
        # a few steps.
        enough = int(self._per_row * STEPS_AHEAD * limit) or MOST_CANDIDATES
        return min(max(min(2 * self._asked, enough), limit, FEWEST_CANDIDATES), MOST_CANDIDATES)

    def _affordable(self) -> int:
        return max(0, self._limits.max_fuel_scan - self.fuel) // max(1, self._binding.bound.static_cost)

    def _evaluate(self, candidates: pa.RecordBatch) -> Pending:
        meter = Meter(self._limits.max_fuel_item, self._limits.max_fuel_scan, self.fuel)
        pending = Evaluated(self._binding.prepare(candidates), self._binding, meter)
        rows = pending.rows.num_rows
        self._per_row = candidates.num_rows / rows if rows else 0.0
        return pending

    def _charge(self, pending: Pending, candidates: int) -> None:
        self.fuel += pending.cost(candidates)
