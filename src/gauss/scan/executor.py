"""Cursors that run a program beside its provider: `Plain` passes candidates on, `Staged` runs expressions over them.

Both meter fuel, keep the limits of the capabilities and give the same for the same steps, however the provider
happens to cut its candidates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import Capabilities, Code, Cursor, Mode, Output, Pinning, Placed, Program, Seekable, Step
from gauss.model.batch import value_lengths
from gauss.scan.aggregate import AggCursor
from gauss.scan.binding import Binding, Prepared
from gauss.scan.outputs import Item, ipc_stream, packed_size
from gauss.scan.program.fuel import Limit, Meter, unread

FEWEST_CANDIDATES = 1024
MOST_CANDIDATES = 262_144
STEPS_AHEAD = 4
"""Candidates are evaluated for so many steps at most, going by how many of the last ones were kept."""
CANDIDATE_BYTES = 16 << 20
_UNSET = Code.UNSET  # a member of an enum is dear to look up, and every step does


class Executor(ABC):
    """What both kinds share: a provider's cursor, its limits and the prepared batch."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities) -> None:
        self.cursor = cursor
        self.program = program
        self.pinned_version = cursor.pinned_version
        self.fuel = 0
        self.size = 0
        """The bytes of the prepared batch."""
        self.fault: Exception | None = None
        """What broke it, if something did."""
        self._limits = capabilities
        self._live = program.mode is Mode.LIVE
        self._final: Code | None = None

    @property
    def position(self) -> int:
        return self.cursor.position

    @property
    def hold(self) -> int:
        return self.cursor.hold

    def refused(self, step: Step) -> Code | None:
        """Why a step can't be taken; None: it can."""
        limit, size = step.limit, step.max_bytes
        if type(limit) is not int or limit <= 0 or type(size) is not int or size <= 0:
            return Code.INVALID
        if limit > self._limits.max_batch_items:
            return Code.REJECTED
        if step.seek is not None and (not self._limits.seek or not self._sought(step.seek)):
            return Code.INVALID
        return None

    def _sought(self, to: int | str) -> bool:
        return cast(Seekable, self.cursor).seek(to)

    def pinned_parts(self) -> dict[int, int]:
        """The bytes that only this cursor and others like it keep in memory, part by part."""
        cursor = self._pinning()
        return {} if cursor is None else cursor.pinned_parts()

    def reject(self) -> None:
        """Ends what it pins, from any thread."""
        if (cursor := self._pinning()) is not None:
            cursor.reject()

    def _pinning(self) -> Pinning | None:
        """The provider's cursor, if it keeps anything."""
        inner = getattr(self.cursor, "cursor", self.cursor)  # an aggregate reads by another
        return cast(Pinning, inner) if hasattr(inner, "pinned_parts") else None

    @abstractmethod
    def next(self, step: Step) -> Code:
        """Prepares the next batch."""

    @abstractmethod
    def read(self) -> tuple[Code, Item | None]:
        """The prepared batch."""

    def end(self, code: Code) -> None:
        """Whatever is asked from now on is answered by this code."""
        self._final = code
        self.cursor.close()

    def close(self) -> None:
        self.end(Code.INVALID)


class Plain(Executor):
    """Candidates as they are: chunks stay chunks, and nothing is framed before somebody reads rows."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities) -> None:
        super().__init__(cursor, program, capabilities)
        self._columnar = program.output is Output.COLUMNAR
        self._chunks = program.output is Output.CHUNKS
        self._checked: Step | None = None
        self._rows = self._bytes = 0
        self._row_bytes: Callable[[pa.RecordBatch], int] | None = None

    def next(self, step: Step) -> Code:
        if self._final is not None:
            return self._final
        if step is not self._checked:  # most readers take the same step again and again
            if (code := self.refused(step)) is not None:
                return code
            self._checked = step if step.seek is None else None
        code = self.cursor.next(step)
        if code is _UNSET:
            item = self.cursor.read()[1]
            if self._chunks:
                self.size = self._meter_chunks(cast(list[Placed], item))
            else:
                self.size = self._meter_rows(item)
            self._bytes += self.size
            self.fuel = unread(self._rows, self._bytes)
            if self.fuel > self._limits.max_fuel_scan:
                code = self._final = Code.REJECTED
        return code

    def _meter_chunks(self, placed: list[Placed]) -> int:
        size = 0
        for _, chunk in placed:
            self._rows += chunk.count
            # What Arrow takes for the same records depends on how they came to lie together.
            size += chunk.nbytes if chunk.framing is not None else packed_size(chunk.payload)
        return size

    def _meter_rows(self, batch: pa.RecordBatch) -> int:
        self._rows += batch.num_rows
        if self._row_bytes is None:  # candidates have the same columns at every step
            self._row_bytes = byte_counter(batch.schema)
        return self._row_bytes(batch)

    def read(self) -> tuple[Code, Item | None]:
        if self._final is not None:
            return self._final, None
        code, item = self.cursor.read()
        return (code, ipc_stream(item)) if self._columnar and isinstance(item, pa.RecordBatch) else (code, item)


class _Pending:
    """Evaluated candidates, of which some have been given."""

    def __init__(self, prepared: Prepared, binding: Binding, meter: Meter) -> None:
        self.prepared = prepared
        # What must not run, be it a pattern that would take for ever, is known before anything runs.
        self.stop, self.over = meter.admit_batch(prepared.toll)
        self.rows, self._kept = binding.run(prepared, self.stop)
        self.size = 0
        """The bytes of all rows."""
        self._ends: np.ndarray | None = None
        self.row = self.candidate = 0

    def spent(self, stop: int) -> int:
        """What the candidates from the current one up to `stop` cost."""
        return self.prepared.toll.between(self.candidate, stop) if stop > self.candidate else 0

    def candidate_of(self, row: int) -> int:
        """The candidate that a row was made of."""
        return row if self._kept is None else int(self._kept[row])

    def size_upto(self, stop: int) -> int:
        """The bytes of the first rows."""
        if stop == self.rows.num_rows:
            return self.size
        return int(self._row_ends()[stop - 1]) if stop else 0

    def fitting(self, size: int) -> int:
        """How many of the first rows fit into so many bytes."""
        if self.size <= size:
            return int(self.rows.num_rows)
        return int(np.searchsorted(self._row_ends(), size, side="right"))

    def _row_ends(self) -> np.ndarray:
        if self._ends is None:
            self._ends = np.cumsum(row_sizes(self.rows))
        return self._ends

    def record(self, candidate: int) -> int:
        """The place of a candidate's record among those that the provider gave."""
        record = self.prepared.record
        return candidate if record is None else int(record[candidate])


class Staged(Executor):
    """Expressions over candidates. It goes on while all rows are dropped, and fills a batch up to its limits, so that
    batches do not depend on how the provider cuts; fuel is charged for the candidates up to the last row given."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities, binding: Binding) -> None:
        super().__init__(cursor, program, capabilities)
        self._binding = binding
        self._pending: _Pending | None = None
        self._given: Item | None = None
        self._position = cursor.position
        self._held = cursor.hold
        self._asked = 0
        self._per_row = 0.0  # candidates for a row, of the last that were evaluated
        self._row_bytes: Callable[[pa.RecordBatch], int] | None = None

    @property
    def position(self) -> int:
        """A provider may pass over what is outside the view: where nothing is pending, it knows best."""
        return self.cursor.position if self._pending is None else self._position

    @property
    def hold(self) -> int:
        """What is pending has not been delivered: it is held as before it was fetched."""
        return self.cursor.hold if self._pending is None else self._held

    def _sought(self, to: int | str) -> bool:
        if not super()._sought(to):
            return False
        self._pending = None
        self._position = self.cursor.position
        return True

    def next(self, step: Step) -> Code:
        self._given = None
        if self._final is not None:
            return self._final
        if (code := self.refused(step)) is not None:
            return code
        parts: list[pa.RecordBatch] = []
        count = size = 0
        most = min(step.max_bytes, self._limits.max_batch_bytes)
        stopped: Code | None = None
        while count < step.limit and stopped is None:
            if self._pending is None and (stopped := self._fill(step)) is not None:
                break
            part, part_size, stopped = self._take(step.limit - count, most - size, first=not parts)
            if part.num_rows:
                parts.append(part)
                count, size = count + part.num_rows, size + part_size
        if not parts:
            return stopped or Code.INVALID
        self.size = size
        batch = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        self._given = ipc_stream(batch) if self.program.output is Output.COLUMNAR else batch
        return Code.UNSET

    def _fill(self, step: Step) -> Code | None:
        """Fetches and evaluates candidates; a code when there are none."""
        # More at each go, so that a small first batch comes soon and a long search goes fast; but nobody waits for rows
        # of many later steps.
        enough = int(self._per_row * STEPS_AHEAD * step.limit) or MOST_CANDIDATES
        self._asked = min(max(min(2 * self._asked, enough), step.limit, FEWEST_CANDIDATES), MOST_CANDIDATES)
        self._held = self.cursor.hold
        code = self.cursor.next(Step(self._asked, CANDIDATE_BYTES, fill=False))
        if code is not Code.UNSET:
            if code is not Code.INVALID:
                self._final = code
            return code
        candidates = self.cursor.read()[1]
        assert isinstance(candidates, pa.RecordBatch)
        if isinstance(self.cursor, AggCursor):
            self.fuel += self.cursor.fuel
        meter = Meter(self._limits.max_fuel_item, self._limits.max_fuel_scan, self.fuel)
        prepared = self._binding.prepare(candidates)
        self._pending = pending = _Pending(prepared, self._binding, meter)
        if self._row_bytes is None:  # results have the same columns at every step
            self._row_bytes = byte_counter(pending.rows.schema)
        pending.size = self._row_bytes(pending.rows)
        self._per_row = candidates.num_rows / pending.rows.num_rows if pending.rows.num_rows else 0.0
        return None

    def _take(self, limit: int, size: int, *, first: bool) -> tuple[pa.RecordBatch, int, Code | None]:
        """Rows of what is pending, their bytes, and a code if nothing may follow them in this batch."""
        pending = self._pending
        assert pending is not None
        stop, code = pending.stop, None if pending.over is None else Code.REJECTED
        begin = pending.row
        end = min(pending.rows.num_rows, begin + limit)
        before = pending.size_upto(begin)
        fitting = pending.fitting(before + size)
        if fitting < end:
            code, end, stop = Code.UNSET, fitting, pending.candidate_of(fitting)
            if first and end == begin:  # at least one row comes, unless no batch may hold it
                if pending.size_upto(begin + 1) - before > self._limits.max_batch_bytes:
                    return pending.rows.slice(begin, 0), 0, Code.REJECTED
                end, stop = begin + 1, stop + 1
        elif end - begin == limit:
            code, stop = Code.UNSET, pending.candidate_of(end - 1) + 1
        self._consume(pending, stop, end)
        if code is Code.REJECTED and first and end == begin and pending.over is Limit.SCAN:
            self._final = code
        return pending.rows.slice(begin, end - begin), pending.size_upto(end) - before, code

    def _consume(self, pending: _Pending, candidates: int, rows: int) -> None:
        self.fuel += pending.spent(candidates)
        if candidates == pending.prepared.toll.rows:
            self._pending = None
            self._position = self.cursor.position
        else:
            if candidates:
                self._position = self._place(pending.prepared.candidates, pending.record(candidates - 1))
            pending.candidate, pending.row = candidates, rows

    def _place(self, candidates: pa.RecordBatch, index: int) -> int:
        """Where the cursor stands after a candidate; unless its columns say, where it stood."""
        names = candidates.schema.names
        if "offset" in names:
            return int(candidates.column("offset")[index].as_py()) + 1
        if self._live and "version" in names:
            return int(candidates.column("version")[index].as_py())
        return self._position

    def read(self) -> tuple[Code, Item | None]:
        if self._given is None:
            return self._final or Code.INVALID, None
        return Code.UNSET, self._given

    def end(self, code: Code) -> None:
        super().end(code)
        self._pending = self._given = None


def row_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """The bytes of each row: the values, without Arrow's own."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            sizes += value_lengths(column)
        else:
            sizes += _width(column.type)
    return sizes


def _width(type_: pa.DataType) -> int:
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:  # a nested type: by its parts would be dear, and only records hold them
        return 8


def byte_counter(schema: pa.Schema) -> Callable[[pa.RecordBatch], int]:
    """What counts the bytes of all rows of such batches."""
    texts = [n for n, type_ in enumerate(schema.types) if pa.types.is_binary(type_) or pa.types.is_string(type_)]
    width = sum(_width(type_) for n, type_ in enumerate(schema.types) if n not in texts)

    def count(batch: pa.RecordBatch) -> int:
        size = width * int(batch.num_rows)
        for index in texts:
            size += packed_size(batch.column(index))
        return size

    return count


def row_bytes(batch: pa.RecordBatch) -> int:
    """The bytes of all rows."""
    return byte_counter(batch.schema)(batch)
