"""Format: bytes of one record ↔ a row. One record at a time always works; a batch codec makes it fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from gauss.contracts.plugin import PluginSpec

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


class Decoded(NamedTuple):
    """A batch decoded: `rows` has a line for each good record, `good` their indexes, `bad` the rest."""

    rows: pa.RecordBatch
    good: np.ndarray
    bad: list[tuple[int, str, str]]
    """(index, reason code, what was wrong)"""


class Format(Protocol):
    """A third party writes `decode`, `encode` and `schema`; the batch forms have a default that calls them."""

    def schema(self) -> SourceSchema | None:
        """The fixed schema, or None when records say themselves what they hold."""
        ...

    def decode(self, data: bytes) -> dict[str, Any]:
        """One record; raises ValueError with what is wrong with it."""
        ...

    def encode(self, row: dict[str, Any]) -> bytes: ...

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        """The named fields of many records, with the same verdict for each as `decode` would give."""
        ...

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray: ...
