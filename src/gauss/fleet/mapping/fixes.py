"""Which columns of a mapping samples do not fit, and which changes would make them fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gauss.fleet.mapping.column import Mapping as ColumnMapping
from gauss.fleet.mapping.column import MappingColumn
from gauss.fleet.mapping.compile import TableName, compile_mapping
from gauss.fleet.mapping.infer import infer_type
from gauss.fleet.mapping.preview import preview
from gauss.fleet.mapping.samples import decode_samples
from gauss.fleet.mapping.values import Seen, collect
from gauss.model.errors import ConfigError

MOST_COLUMNS = 200
"""Columns that are looked at one by one. Of wider mappings only the first fault of each record is known."""
MOST_FIXED = 20
MOST_FIXES = 3
_NOWHERE = TableName("http://localhost:8123", "default", "t")


class Fix(NamedTuple):
    """Another type of a column, and how many samples fit it."""

    column: MappingColumn
    fits: int


class ColumnFit(NamedTuple):
    """A column that some samples do not fit."""

    column: str
    faults: list[tuple[int, str]]
    """Index and reason of each sample."""
    fixes: list[Fix]
    """What fits more of them, best first."""


class Samples:
    """Sampled records of a format, judged column by column."""

    def __init__(
        self, data: Sequence[bytes | None], ts_ms: Sequence[int], format_name: str, config: Mapping[str, Any]
    ) -> None:
        decoded = decode_samples(data, format_name, config)
        self._places = [index for index, each in enumerate(decoded) if each.value is not None]
        """The records that are whole: others do not fit whatever the column is."""
        self._data = [data[index] for index in self._places]
        self._ts_ms = [ts_ms[index] for index in self._places]
        self._format = format_name, config
        self._seen = collect([each.value for each in decoded if each.value is not None])

    def fits(self, mapping: ColumnMapping) -> list[ColumnFit]:
        """The columns with faults."""
        found: list[ColumnFit] = []
        for column in mapping.columns[:MOST_COLUMNS]:
            if faults := self._faults(column):
                fixes = self._fixes(column, len(faults)) if len(found) < MOST_FIXED else []
                found.append(ColumnFit(column.column, faults, fixes))
        return found

    def _faults(self, column: MappingColumn) -> list[tuple[int, str]]:
        table = compile_mapping(ColumnMapping(columns=[column]), *self._format, _NOWHERE)
        rows = preview(table, self._data, self._ts_ms)
        return [
            (self._places[index], each.error.detail or each.error.reason)
            for index, each in enumerate(rows)
            if each.error is not None
        ]

    def _fixes(self, column: MappingColumn, faults: int) -> list[Fix]:
        made: list[Fix] = []
        for changed in self._changes(column):
            if changed == column or any(each.column == changed for each in made):
                continue
            try:
                left = len(self._faults(changed))
            except ConfigError:  # the format's schema has another type
                continue
            if left < faults:
                made.append(Fix(changed, len(self._data) - left))
        return sorted(made, key=lambda each: -each.fits)[:MOST_FIXES]

    def _changes(self, column: MappingColumn) -> Iterator[MappingColumn]:
        """From the smallest change to the one that takes any value."""

        def changed(**given: Any) -> MappingColumn:
            return column.model_copy(update=given)

        seen = self._seen.fields.get(column.field_path, Seen())
        missing = seen.values < len(self._data)
        if not column.nullable:
            yield changed(nullable=True)
        found = infer_type(column.field_path, seen)
        nullable = column.nullable or missing
        for kind, encoding in (found, ("String", None), ("String", "json")):
            yield changed(type=kind, encoding=encoding, nullable=nullable)
