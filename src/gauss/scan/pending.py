"""Candidates that were fetched and evaluated, of which some have been given."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import Capabilities
from gauss.scan.binding import Binding, Prepared
from gauss.scan.program.fuel import Limit, Meter, Unread
from gauss.scan.sizes import row_sizes


class Pending:
    """Rows, the candidates that they were made of, and how many of these the fuel allows."""

    candidates: pa.RecordBatch
    """As the provider gave them."""
    rows: pa.RecordBatch
    count: int
    """How many candidates there are."""
    stop: int
    """How many of them may be taken."""
    over: Limit | None
    """The limit that the candidate at `stop` would exceed."""
    size = 0
    """The bytes of all rows."""
    row = candidate = 0
    """The first ones that have not been given."""
    _ends: np.ndarray | None = None

    @property
    def admitted(self) -> int:
        """How many rows may be given."""
        return int(self.rows.num_rows)

    def admit(self) -> None:
        """Sets `stop` and `over`, once `size` is known."""

    def cost(self, stop: int) -> int:
        """The fuel of the candidates from the current one up to `stop`."""
        raise NotImplementedError

    def candidate_of(self, row: int) -> int:
        """The candidate that a row was made of."""
        return row

    def record(self, candidate: int) -> int:
        """The place of a candidate's record among those that the provider gave."""
        return candidate

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


class Passed(Pending):
    """Candidates that are rows already."""

    def __init__(self, candidates: pa.RecordBatch, unread: Unread, limits: Capabilities) -> None:
        self.candidates = self.rows = candidates
        self.count = int(candidates.num_rows)
        self._unread, self._limits = unread, limits

    @property
    def admitted(self) -> int:
        return self.stop

    def admit(self) -> None:
        most_item, most_scan = self._limits.max_fuel_item, self._limits.max_fuel_scan
        self.stop, self.over = self._unread.admit(self.count, self.size, self._row_sizes, most_item, most_scan)

    def _row_sizes(self) -> np.ndarray:
        return np.diff(self._row_ends(), prepend=0)


class Evaluated(Pending):
    """What expressions have made of candidates."""

    def __init__(self, prepared: Prepared, binding: Binding, meter: Meter) -> None:
        self.candidates, self._toll, self._record = prepared.candidates, prepared.toll, prepared.record
        self.count = prepared.toll.rows
        # What must not run, be it a pattern that would take for ever, is known before anything runs.
        self.stop, self.over = meter.admit_batch(prepared.toll)
        self.rows, self._kept = binding.run(prepared, self.stop)

    def cost(self, stop: int) -> int:
        return self._toll.between(self.candidate, stop)

    def candidate_of(self, row: int) -> int:
        return row if self._kept is None else int(self._kept[row])

    def record(self, candidate: int) -> int:
        return candidate if self._record is None else int(self._record[candidate])
