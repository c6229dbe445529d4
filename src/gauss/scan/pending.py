"""Candidates that were fetched and evaluated but not all returned yet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import Capabilities
from gauss.scan.binding import Binding, Prepared
from gauss.scan.program.fuel import Limit, Meter, Unread
from gauss.scan.sizes import row_sizes


class Pending:
    """Rows, their candidates, and how many of the candidates the fuel allows."""

    candidates: pa.RecordBatch
    """As returned by the provider."""
    rows: pa.RecordBatch
    count: int
    """Number of candidates."""
    stop: int
    """Number of candidates that the fuel allows."""
    over: Limit | None
    """The limit that the candidate at `stop` would exceed."""
    size = 0
    """Total bytes of the rows."""
    row = candidate = 0
    """Index of the first row and candidate not yet returned."""
    _ends: np.ndarray | None = None

    @property
    def admitted(self) -> int:
        """Number of rows that may be returned."""
        return int(self.rows.num_rows)

    def admit(self) -> None:
        """Sets `stop` and `over`. Needs `size`."""

    def cost(self, stop: int) -> int:
        """Fuel of the candidates from the current one to `stop`, exclusive."""
        raise NotImplementedError

    def candidate_of(self, row: int) -> int:
        """Index of the candidate of a row."""
        return row

    def record(self, candidate: int) -> int:
        """Index of a candidate's record in the provider's batch."""
        return candidate

    def size_upto(self, stop: int) -> int:
        """Total bytes of the first `stop` rows."""
        if stop == self.rows.num_rows:
            return self.size
        return int(self._row_ends()[stop - 1]) if stop else 0

    def fitting(self, size: int) -> int:
        """How many leading rows fit into `size` bytes."""
        if self.size <= size:
            return int(self.rows.num_rows)
        return int(np.searchsorted(self._row_ends(), size, side="right"))

    def _row_ends(self) -> np.ndarray:
        if self._ends is None:
            self._ends = np.cumsum(row_sizes(self.rows))
        return self._ends


class PassedRows(Pending):
    """Candidates that are returned as rows, without expressions."""

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
    """Rows that expressions have made of candidates."""

    def __init__(self, prepared: Prepared, binding: Binding, meter: Meter) -> None:
        self.candidates, self._toll, self._record = prepared.candidates, prepared.toll, prepared.record
        self.count = prepared.toll.rows
        # The limit is applied before anything runs, so an expensive pattern never starts.
        self.stop, self.over = meter.admit_batch(prepared.toll)
        self.rows, self._kept = binding.run(prepared, self.stop)

    def cost(self, stop: int) -> int:
        return self._toll.between(self.candidate, stop)

    def candidate_of(self, row: int) -> int:
        return row if self._kept is None else int(self._kept[row])

    def record(self, candidate: int) -> int:
        return candidate if self._record is None else int(self._record[candidate])
