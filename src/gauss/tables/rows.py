"""Decodes records and maps them to the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format_batch import batched
from gauss.contracts.table import RowGroup
from gauss.tables.mapped_table import MappedTable

MOST_ROWS_BYTES = 256 << 20
"""Maximum size of the rows of one block; larger ranges of records are halved."""


class Refusal(NamedTuple):
    """A record that did not become a row, and why."""

    offset: int
    stage: str
    """`decode`, `map` or `insert`."""
    reason: str
    column: str
    detail: str


class MappedRows(NamedTuple):
    """Records, their rows in groups with the same columns, and the records that have none."""

    records: pa.Table
    groups: tuple[RowGroup, ...]
    refusals: list[Refusal]


class RowMapper:
    """Maps records `(offset, ts_ms, data)` to rows of an open table."""

    def __init__(self, table: MappedTable, lacking: Sequence[str] = ()) -> None:
        """`lacking`: columns of the schema that the live table does not have."""
        self.table = table
        self.lacking = frozenset(lacking)
        self._columns = table.columns()
        self._fields = arrow_schema(table.decoded)

    def rows(self, records: pa.Table) -> MappedRows | None:
        """The rows of some records; None if several records exceed MOST_ROWS_BYTES together."""
        refusals: list[Refusal] = []
        made: dict[str, list[RowGroup]] = {}
        size = 0
        for batch, decoded, good in self._decoded(records, refusals):
            for group in self._mapped(batch, decoded, good, refusals):
                size += group.rows.nbytes
                if size > MOST_ROWS_BYTES and len(records) > 1:
                    return None
                made.setdefault(group.part, []).append(group)
        groups = [
            RowGroup(
                np.concatenate([each.offsets for each in parts]), pa.concat_tables([each.rows for each in parts]), part
            )
            for part, parts in made.items()
        ]
        return MappedRows(records, tuple(groups), refusals)

    def _decoded(
        self, records: pa.Table, refusals: list[Refusal]
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch, np.ndarray]]:
        """Some of the records, their decoded fields, and the index of the record of each row."""
        for batch in records.to_batches():
            data = batch.column(2)
            if self.table.format is None:
                yield batch, pa.RecordBatch.from_arrays([data], ["payload"]), np.arange(len(data))
                continue
            for first, count, decoded in batched(self.table.format).decode_parts(data, self._fields):
                some = batch.slice(first, count)
                offsets = some.column(0).to_numpy()
                refusals += [
                    Refusal(int(offsets[at]), "decode", reason, "", detail) for at, reason, detail in decoded.bad
                ]
                yield some, decoded.rows, decoded.good

    def _mapped(
        self, batch: pa.RecordBatch, decoded: pa.RecordBatch, good: np.ndarray, refusals: list[Refusal]
    ) -> Iterator[RowGroup]:
        """The columns of decoded records, grouped by the columns that they leave to the table's defaults."""
        offsets, times = batch.column(0).to_numpy(), batch.column(1)
        if len(good) != len(offsets) or not np.array_equal(good, np.arange(len(offsets))):
            times = times.take(pa.array(good))
        row_offsets = offsets[good]
        found, bad = self._columns.run(decoded, times)
        refused = {int(row_offsets[each.row]): each for each in reversed(bad)}
        refusals += [Refusal(at, "map", each.reason, each.column, each.detail) for at, each in refused.items()]
        for each in found:
            given = each.columns.schema.names
            part = ",".join(name for column in self._columns.columns if (name := column.target.name) not in given)
            group = RowGroup(row_offsets[each.rows], pa.Table.from_batches([each.columns]), part)
            group = self._without_lacking(group, refusals)
            if refused:
                keep = ~np.isin(group.offsets, list(refused))
                group = RowGroup(group.offsets[keep], group.rows.filter(pa.array(keep)), part)
            if len(group.offsets):
                yield group

    def _without_lacking(self, group: RowGroup, refusals: list[Refusal]) -> RowGroup:
        """Removes the columns that the table lacks; with `reject_row` also the records that have a value there."""
        offsets, rows, part = group
        for name in self.lacking.intersection(rows.schema.names):
            if self.table.config.evolve == "reject_row":
                given = rows[name].is_valid().to_numpy()
                refusals += [
                    Refusal(int(at), "map", "no_column", name, f"{name}: the table has no such column")
                    for at in np.unique(offsets[given])
                ]
                keep = ~np.isin(offsets, offsets[given])
                offsets, rows = offsets[keep], rows.filter(pa.array(keep))
            rows = rows.drop_columns([name])
        return RowGroup(offsets, rows, part)
