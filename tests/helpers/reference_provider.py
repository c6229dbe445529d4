"""The reference provider of scans: a Python list, read record by record. Other providers are compared with it."""

from __future__ import annotations

import time

import pyarrow as pa

from gauss.contracts.cursor import (
    Agg,
    Capabilities,
    Code,
    Last,
    Mode,
    OffsetRange,
    Output,
    Program,
    Seq,
    Step,
    TimeRange,
)
from gauss.contracts.format import Format
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError

VIEWS = frozenset({Seq, OffsetRange, TimeRange, Last, Agg})


class ReferenceProvider:
    """An unbounded log that never deletes records."""

    def __init__(self, format_: Format | None = None, *, live: bool = True, inc: int = 7) -> None:
        self.inc = inc
        self.capabilities = Capabilities(VIEWS, frozenset(Output) - {Output.CHUNKS}, live=live, seek=True)
        self.records: list[tuple[int, bytes]] = []
        self._format = format_

    def append(self, *records: tuple[int, bytes]) -> None:
        """Appends (ts_ms, data) pairs, which become visible at once."""
        self.records = [*self.records, *records]

    def candidates(self) -> pa.Schema:
        return RECORD_SCHEMA

    def batch(self, records: list[tuple[int, bytes]], offsets: range) -> pa.RecordBatch:
        """The records at these offsets as a batch of candidates."""
        rows = [{"offset": offset, "ts_ms": records[offset][0], "data": records[offset][1]} for offset in offsets]
        return pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA)

    def format(self) -> Format | None:
        return self._format

    def version(self) -> int:
        return len(self.records)

    def floor(self) -> int:
        return 0

    def wait(self, version: int, timeout: float) -> int:
        until = time.monotonic() + timeout
        while len(self.records) <= version and time.monotonic() < until:
            time.sleep(0.001)
        return len(self.records)

    def open(self, program: Program) -> ReferenceCursor:
        return ReferenceCursor(self, program)


class ReferenceCursor:
    def __init__(self, provider: ReferenceProvider, program: Program) -> None:
        self._provider, self._live = provider, program.mode is Mode.LIVE
        root, view = provider.records, program.view
        self.pinned_version = len(root)
        if self._live and not isinstance(view, Seq):
            raise ConfigError("expected a snapshot")
        match view:
            case Seq(start):
                self.position, self._stop = start or 0, len(root)
            case OffsetRange(start, stop):
                self.position, self._stop = start, len(root) if stop is None else stop
            case TimeRange(start_ms, stop_ms):
                inside = [index for index, (ts_ms, _) in enumerate(root) if start_ms <= ts_ms < (stop_ms or 1 << 62)]
                self.position, self._stop = (inside[0], inside[-1] + 1) if inside else (0, 0)
            case _:
                self.position, self._stop = max(len(root) - 1, 0), len(root)
        if not 0 <= self.position <= self._stop <= len(root):
            raise ConfigError(f"expected a range below {len(root)}")
        self._start = self.position
        self._root: list[tuple[int, bytes]] | None = root
        self._batch: pa.RecordBatch | None = None

    @property
    def hold(self) -> int:
        return max(self.pinned_version, self.position) if self._live else self.pinned_version

    def seek(self, to: int | str) -> bool:
        inside = isinstance(to, int) and self._start <= to <= self._stop
        self.position = int(to) if inside else self.position
        return inside

    def next(self, step: Step) -> Code:
        self._batch = None
        if self._root is None:
            return Code.INVALID
        if self._live:
            self._root, self._stop = self._provider.records, len(self._provider.records)
        if self.position >= self._stop:
            return Code.INVALID
        stop = min(self._stop, self.position + step.limit)
        self._batch = self._provider.batch(self._root, range(self.position, stop))
        self.position = stop
        return Code.OK

    def read(self) -> tuple[Code, pa.RecordBatch | None]:
        return (Code.INVALID if self._batch is None else Code.OK), self._batch

    def close(self) -> None:
        self._root = self._batch = None
