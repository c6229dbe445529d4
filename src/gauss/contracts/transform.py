"""Transform contracts: the traits of a transform bound to its formats, and how it processes records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from gauss.contracts.format import SourceField, SourceSchema
    from gauss.contracts.time import EventTime


@dataclass(frozen=True)
class Schemas:
    """The schemas that a transform is bound to. `None` if there is no format or it has no schema."""

    input: SourceSchema | None = None
    output: SourceSchema | None = None
    table: SourceSchema | None = None
    """Schema of the table named by `tables` of the spec."""
    table_key: str = ""
    """The key field of that table."""
    beside: SourceSchema | None = None
    """Schema of the topic named by `beside` of the spec."""


@dataclass(frozen=True)
class Traits:
    """Traits of a bound transform: what it reads and returns."""

    fields: list[SourceField]
    """Fields of the input to decode; []: the transform gets bytes only. Without an input schema a field's type may be
    `auto`: the first records decide it."""
    carries: bool = False
    """The result has a `_rest` column, which only a format with `merge_batch` can write."""
    columns: list[str] | None = None
    """Columns of the result, if they do not depend on the input: `gauss check` compares them with the output format."""
    time: EventTime | None = None
    """Event-time settings, if it is a `TimedTransform`."""
    table_fields: list[SourceField] | None = None
    """For a `TableTransform`: fields of the table's rows to decode. `None`: all, each value as JSON text."""
    beside: BesideTraits | None = None
    """Set if it is a `TwoSided` transform."""


@dataclass(frozen=True)
class BesideTraits:
    """Traits of a `TwoSided` transform for its second topic."""

    fields: list[SourceField]
    """Fields of that topic's records to decode."""
    window_ms: int
    """How far apart the event times of a pair may be."""
    merges_records: bool
    """A result is made of two whole records, so both topics must have the same format."""


class AnyTransform(Protocol):
    """Base of all transforms on Spark. The spec determines which other protocol it implements."""

    def bind(self, schemas: Schemas) -> Traits:
        """Called once, before anything else. Raises ConfigError if the transform does not fit the schemas."""
        ...


class Transform(AnyTransform, Protocol):
    """A transform by Spark's own operators: DataFrame in, DataFrame out."""

    def apply(self, records: DataFrame) -> DataFrame:
        """`records` has the decoded fields beside `ts_ms` and the hidden `_data`, `_ts_ms`. The result holds either
        `_data` (bytes passed on unchanged) or the columns to encode; it may keep `_ts_ms`."""
        ...


class ArrowTransform(AnyTransform, Protocol):
    """A hosted transform: Arrow batch in, Arrow batch out. Batches are cut anywhere, so the result for a record must
    not depend on other records."""

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """As `Transform.apply`; a field inside an object is a column under its path, `$.order.id`. With `_rest`, which
        holds the records' own bytes, the other columns replace or add fields of those records."""
        ...


class LookUp(Protocol):
    """The rows of a table at one version."""

    def find(self, keys: pa.Array) -> tuple[pa.Array, pa.RecordBatch]:
        """Returns whether each key has a row, and the fields of the rows (null without a row)."""
        ...


class TableTransform(ArrowTransform, Protocol):
    """A hosted transform that looks rows up in the table that its spec names in `tables`."""

    def look_up_in(self, table: LookUp) -> None:
        """Sets the rows for following calls of `arrow`."""
        ...
