"""Format: bytes of one record ↔ a row. One record at a time always works; a batch codec makes it fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from gauss.contracts.plugin import PluginSpec
from gauss.model.details import capped
from gauss.model.units import counted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True)
class FieldType:
    """A type by name and attributes, the currency of schemas: `decimal {precision: 18, scale: 8}`."""

    name: str
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceField:
    """A field of a format: a plain name, or a path such as `$.order.id`."""

    name: str
    field_type: FieldType


@dataclass(frozen=True)
class SourceSchema:
    fields: tuple[SourceField, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FormatSpec(PluginSpec):
    """`implementation(config)` gives a `Format`."""

    KIND: ClassVar[str] = "format"
    gives_nan: bool = True
    """Whether a decoded number may be NaN, which Spark and scan programs do not compare alike."""


class BadRecord(ValueError):
    """Why a record can't be decoded: a fixed reason code, the column, and a sentence."""

    def __init__(self, reason: str, detail: str, column: str = "") -> None:
        detail = capped(detail)
        super().__init__(detail)
        self.reason, self.detail, self.column = reason, detail, column


class BadRows(ValueError):
    """Which rows of a batch can't be encoded: (index, reason code, what was wrong) of each; all others can."""

    def __init__(self, bad: list[tuple[int, str, str]]) -> None:
        index, _, detail = bad[0]
        super().__init__(f"{counted(len(bad), 'row')} can't be encoded; row {index}: {detail}")
        self.bad = bad


class Decoded(NamedTuple):
    """A batch decoded: `rows` has the rows of the good records, `good` the record of each row, `bad` the rest."""

    rows: pa.RecordBatch
    good: np.ndarray
    """Ascending; a record that holds several rows stands there several times, one that holds none not at all."""
    bad: list[tuple[int, str, str]]
    """(index, reason code, what was wrong)"""
    spread: bool = False
    """Whether some good record has not exactly one row."""


RAW = "_raw:"
"""Before a column's name, for `merge_batch`: its texts are values in the format's own words, put in as they are."""
FILL = "_fill:"
"""Before all that, for `merge_batch`: its values are put only into records that have no such field."""
OTHER = "_other:"
"""Before `prefix:key`, for `merge_batch`: its values are whole records, whose fields are put into those that have no
such field; under names with the prefix, but for the key. A null instead of a record is one without fields."""


class RecordFormat(Protocol):
    """What a third party writes; `format_batch.batched` gives it the batch forms."""

    def schema(self) -> SourceSchema | None:
        """The fixed schema, or None when records say themselves what they hold."""
        ...

    def decode(self, data: bytes) -> dict[str, Any]:
        """One record; raises ValueError (BadRecord gives the reason a code) with what is wrong with it."""
        ...

    def encode(self, row: dict[str, Any]) -> bytes:
        """One row; raises as `decode` does for one that the format can't hold."""
        ...


class Format(RecordFormat, Protocol):
    """With the batch forms. A format whose records may hold any field also has `merge_batch(rest, rows)`: the records
    `rest` with the columns of `rows` put into them. A format whose records hold several rows also has
    `decode_rows(data) -> list[dict]`."""

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        """The named fields of many records, with the same verdict for each as `decode` would give."""
        ...

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """As many records as rows, or a single one where the format keeps many rows in a record; raises BadRows."""
        ...
