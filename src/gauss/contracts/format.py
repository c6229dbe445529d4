"""Format contract: converts the bytes of a record to a row and back, one at a time or (faster) in batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from gauss.contracts.plugin import PluginSpec
from gauss.model.details import capped
from gauss.model.units import counted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

GENERAL = "general"
"""Attribute of a native type that holds its general type, as `{name, attrs}`."""


@dataclass(frozen=True)
class FieldType:
    """A type in schemas, by name and attributes: `decimal {precision: 18, scale: 8}`."""

    name: str
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def general(self) -> FieldType:
        """The type of the values in formats and Spark. Differs for native types of a table's system."""
        found = self.attrs.get(GENERAL)
        return self if found is None else FieldType(found["name"], found.get("attrs", {}))

    @property
    def native(self) -> FieldType:
        """The type without its `general` attribute."""
        return FieldType(self.name, {key: value for key, value in self.attrs.items() if key != GENERAL})


@dataclass(frozen=True)
class SourceField:
    """A field of a format. The name may be a path such as `$.order.id`."""

    name: str
    field_type: FieldType
    beside: bool = False
    """Not in the record's data but beside it, as `meta_fields` has them; passing all fields on does not include it."""


@dataclass(frozen=True)
class SourceSchema:
    fields: tuple[SourceField, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FormatSpec(PluginSpec):
    """Spec of a format. `implementation(config)` returns a `Format`."""

    KIND: ClassVar[str] = "format"
    gives_nan: bool = True
    """Whether decoded numbers may be NaN, which Spark and scan programs compare differently."""


class BadRecord(ValueError):
    """A record cannot be decoded: a fixed reason code, the column, and a message."""

    def __init__(self, reason: str, detail: str, column: str = "") -> None:
        detail = capped(detail)
        super().__init__(detail)
        self.reason, self.detail, self.column = reason, detail, column


class BadRows(ValueError):
    """Rows of a batch cannot be encoded: (index, reason code, detail) of each. All others can."""

    def __init__(self, bad: list[tuple[int, str, str]]) -> None:
        index, _, detail = bad[0]
        super().__init__(f"{counted(len(bad), 'row')} can't be encoded; row {index}: {detail}")
        self.bad = bad


class Decoded(NamedTuple):
    """A decoded batch: `rows` of the good records, `good` the record index of each row, `bad` the other records."""

    rows: pa.RecordBatch
    good: np.ndarray
    """Ascending. A record with several rows appears several times, one without rows not at all."""
    bad: list[tuple[int, str, str]]
    """(index, reason code, detail)"""
    spread: bool = False
    """Whether any good record has no or several rows."""


RAW = "_raw:"
"""Column name prefix for `merge_batch`: the values are text in the format's own syntax, inserted unchanged."""
FILL = "_fill:"
"""Column name prefix for `merge_batch`, before any other: values are added only to records without that field."""
OTHER = "_other:"
"""Column name prefix for `merge_batch`, before `prefix:key`: the values are whole records, whose fields are added to
records without that field, under names with the prefix (except the key). A null adds nothing."""


class RecordFormat(Protocol):
    """The minimal interface of a format plugin. `format_batch.batched` adds the batch methods."""

    def schema(self) -> SourceSchema | None:
        """The schema. `None` if the format is self-describing."""
        ...

    def decode(self, data: bytes) -> dict[str, Any]:
        """Decodes one record. Raises ValueError, or BadRecord with a reason code."""
        ...

    def encode(self, row: dict[str, Any]) -> bytes:
        """Encodes one row. Raises as `decode` if the format cannot represent it."""
        ...


class Format(RecordFormat, Protocol):
    """A format with batch methods. If its records may hold any field, it also has `merge_batch(rest, rows)`, which
    returns the records `rest` with the columns of `rows` added. If its records hold several rows, it also has
    `decode_rows(data) -> list[dict]`."""

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        """Decodes the given fields of many records. Accepts and rejects the same records as `decode`."""
        ...

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Encodes rows as one record each, or as one record if the format holds many rows in one. Raises BadRows."""
        ...
