"""Records beside the rows that a mapping makes of them, with the reason where it makes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from gauss.model.batch import RECORD_SCHEMA
from gauss.tables.insert import unfit_rows
from gauss.tables.mapped_table import MappedTable
from gauss.tables.rows import Refusal, RowMapper


class RowFault(NamedTuple):
    """Why a record becomes no row."""

    stage: str
    reason: str
    column: str
    detail: str


class PreviewRow(NamedTuple):
    """A record, and its row or the reason why there is none."""

    raw: bytes | None
    mapped: dict[str, Any] | None
    error: RowFault | None


def preview(table: MappedTable, data: Sequence[bytes | None], ts_ms: Sequence[int]) -> list[PreviewRow]:
    """Every record by the way that it takes in a running pipeline, up to the insert."""
    kept = [index for index, each in enumerate(data) if each is not None]
    records = pa.table([kept, [ts_ms[index] for index in kept], [data[index] for index in kept]], schema=RECORD_SCHEMA)
    faults: dict[int, RowFault] = {
        index: RowFault("read", "tombstone", "", "the record has no value")
        for index, each in enumerate(data)
        if each is None
    }
    rows: dict[int, dict[str, Any]] = {}
    found = RowMapper(table).rows(records)
    assert found is not None  # samples are small
    store = _checker(table)
    for refusal in [*found.refusals, *(each for group in found.groups for each in unfit_rows(store, group))]:
        faults.setdefault(refusal.offset, _fault(refusal))
    for group in found.groups:
        for offset, row in zip(group.offsets.tolist(), group.rows.to_pylist(), strict=True):
            rows[offset] = row
    return [PreviewRow(each, None if i in faults else rows.get(i), faults.get(i)) for i, each in enumerate(data)]


def _checker(table: MappedTable) -> Any:
    table.store.open(table.target, ())
    return table.store


def _fault(refusal: Refusal) -> RowFault:
    return RowFault(refusal.stage, refusal.reason, refusal.column, refusal.detail)
