"""Maps decoded batches to a table's columns: filtered, renamed, ordered and converted, with an error per row that does
not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import SourceField, SourceSchema
from gauss.contracts.table import Converter, TableKind
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping.convert import Failed, convert_rows, find
from gauss.mapping.row import column_sources


class UnfitRow(NamedTuple):
    """A row that does not fit the table, and the reason."""

    row: int
    column: str
    reason: str
    detail: str


class Group(NamedTuple):
    """Rows that are inserted together: a batch without the columns for which all of them use the table's DEFAULT."""

    rows: np.ndarray
    """Row numbers in the mapped batch."""
    columns: pa.RecordBatch


@dataclass(frozen=True)
class _Column:
    target: TargetField
    source: SourceField
    converter: Converter
    type: pa.DataType
    accepts_null: bool

    @property
    def has_default(self) -> bool:
        return "default" in self.target.props


class ColumnMap:
    """The mapping of a source's fields to a table's columns, built once and run for every batch."""

    def __init__(self, source: SourceSchema, target: TargetSchema, kind: TableKind) -> None:
        self.columns = [self._column(column, field, kind) for column, field in column_sources(source, target)]

    @staticmethod
    def _column(target: TargetField, source: SourceField, kind: TableKind) -> _Column:
        given = arrow_type(source.field_type)
        wanted = kind.arrow(target.field_type, given)
        converter = find(source.field_type.general, target.field_type, given, wanted, kind.special)
        return _Column(target, source, converter, wanted, kind.accepts_null(target))

    @property
    def fields(self) -> list[SourceField]:
        """The fields to decode."""
        wanted = {column.source.name: column.source for column in self.columns}
        return [entry for name, entry in wanted.items() if name != "@ts_ms"]

    def explain(self) -> list[tuple[str, str, str]]:
        """The column, field and conversion of each column."""
        return [(column.target.name, column.source.name, column.converter.name) for column in self.columns]

    def run(self, rows: pa.RecordBatch, ts_ms: pa.Array) -> tuple[list[Group], list[UnfitRow]]:
        """The columns of the rows that fit, and the rows that do not."""
        bad: dict[int, UnfitRow] = {}
        made = []
        for column in self.columns:
            values = ts_ms if column.source.name not in rows.schema.names else rows.column(column.source.name)
            converted, failed = convert_rows(values, column.converter, column.type)
            if not (column.accepts_null or column.has_default) and converted.null_count:
                failed = [*failed, *self._missing(values, converted)]
            for index, reason, detail in failed:
                bad.setdefault(index, UnfitRow(index, column.target.name, reason, detail))
            made.append(converted)
        batch = pa.RecordBatch.from_arrays(made, names=[column.target.name for column in self.columns])
        keep = np.arange(len(rows))
        if bad:
            keep = np.delete(keep, sorted(bad))
            batch = batch.take(pa.array(keep))
        return self._groups(batch, keep), [bad[index] for index in sorted(bad)]

    @staticmethod
    def _missing(values: pa.Array, converted: pa.Array) -> list[Failed]:
        empty = np.flatnonzero(pc.and_(values.is_null(), converted.is_null()).to_numpy(zero_copy_only=False))
        return [Failed(int(index), "null", "the column takes no null and has no default") for index in empty]

    def _groups(self, batch: pa.RecordBatch, rows: np.ndarray) -> list[Group]:
        """Usually one group; more if rows differ in the columns that they leave to the table's DEFAULT."""
        if not len(rows):
            return []
        left_out = np.zeros(len(rows), dtype=np.int64)
        for bit, index in enumerate(index for index, column in enumerate(self.columns) if column.has_default):
            if batch.column(index).null_count:
                left_out |= batch.column(index).is_null().to_numpy(zero_copy_only=False).astype(np.int64) << bit
        if not left_out.any():
            return [Group(rows, batch)]
        defaults = [column.target.name for column in self.columns if column.has_default]
        groups = []
        for mask in np.unique(left_out):
            chosen = np.flatnonzero(left_out == mask)
            names = [name for bit, name in enumerate(defaults) if mask >> bit & 1]
            part = batch if len(chosen) == len(rows) else batch.take(pa.array(chosen))
            groups.append(Group(rows[chosen], part.drop_columns(names) if names else part))
        return groups
