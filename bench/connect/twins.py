"""The sample modules of `sdk/rust/samples` as connectors in Python, for the comparison of both kinds."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.lifecycle import (
    Catalog,
    CatalogStream,
    ConfigBlob,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary, StateScope, WriteSummary
from gauss.contracts.connector.stream import ColumnSchema, StreamContext, SyncMode

CHECKPOINT_ROWS = 500_000
"""As the kit has it by default."""


class Twin:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.config: dict[str, Any] = {}

    def open(self, context: OpenContext) -> OpenInfo:
        self.config = context.config.value  # type: ignore[attr-defined]
        return OpenInfo()

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        return ValidationResult(ValidationStatus.SUCCESS)

    def close(self) -> None:
        pass


class Numbers(Twin):
    """The numbers from 1 to `rows`, in batches of `batch_rows`."""

    def discover(self) -> Catalog:
        kinds = {"n": "Int64", "half": "Float64", "text": "Utf8", "even": "Boolean"}
        columns = [ColumnSchema(name, kind, name != "n") for name, kind in kinds.items()]
        return Catalog([CatalogStream("numbers", columns, [SyncMode.FULL_REFRESH])])

    def run_read(self, stream: StreamContext) -> ReadSummary:
        rows, size, batches, since, checkpoints = int(self.config["rows"]), 0, 0, 0, 0
        for first in range(1, rows + 1, int(self.config["batch_rows"])):
            last = min(first + int(self.config["batch_rows"]) - 1, rows)
            made = numbers(first, last)
            self.host.emit_batch(made)
            batches, size, since = batches + 1, size + made.nbytes, since + made.num_rows
            if since >= CHECKPOINT_ROWS or last == rows:
                mark = Checkpoint(
                    batches, CheckpointKind.SOURCE, stream.stream_name, "n", Int64Cursor(last), last, size
                )
                self.host.checkpoint(mark)
                since, checkpoints = 0, checkpoints + 1
            self.host.report_progress(last, size)
        return ReadSummary(rows, size, batches, checkpoints)


def numbers(first: int, last: int) -> pa.RecordBatch:
    """The numbers with their halves (some null), a text (some empty, some null) and whether they are even (some
    null)."""
    n = np.arange(first, last + 1)
    found = pa.array(n)
    text = pc.binary_join_element_wise("№ ", pc.cast(found, pa.string()), " 🦀", "")
    columns = [
        found,
        pa.array(n / 2, mask=n % 3 == 0),
        pc.if_else(pa.array(n % 5 == 0, mask=n % 7 == 0), "", text),
        pa.array(n % 2 == 0, mask=n % 11 == 0),
    ]
    return pa.RecordBatch.from_arrays(columns, ["n", "half", "text", "even"])


class Totals(Twin):
    """Adds up columns, and keeps the sums as the state `totals` of the stream."""

    def run_write(self, stream: StreamContext) -> WriteSummary:
        sums: defaultdict[str, float] = defaultdict(int)
        rows, size, batches, since = 0, 0, 0, 0
        while (batch := self.host.next_batch()) is not None:
            assert isinstance(batch, pa.RecordBatch)
            for field, column in zip(batch.schema, batch.columns, strict=True):
                if pa.types.is_int64(field.type) or pa.types.is_float64(field.type):
                    sums[field.name] += pc.sum(column).as_py() or 0
            rows, size = rows + batch.num_rows, size + batch.nbytes
            batches, since = batches + 1, since + batch.num_rows
            if since >= CHECKPOINT_ROWS:
                self._commit(stream, batches, rows, sums)
                since = 0
        self._commit(stream, batches, rows, sums)
        return WriteSummary(rows, size, batches)

    def _commit(self, stream: StreamContext, batches: int, rows: int, sums: dict[str, float]) -> None:
        self.host.state_put(StateScope.STREAM, "totals", json.dumps({"rows": rows, "sums": sums}).encode())
        self.host.checkpoint(Checkpoint(batches, CheckpointKind.DEST, stream.stream_name))
