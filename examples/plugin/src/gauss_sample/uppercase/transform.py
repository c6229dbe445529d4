"""The transform: Arrow batch in, Arrow batch out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField
from gauss.contracts.transform import Schemas, Traits
from gauss_sample.uppercase.spec import UppercaseConfig

if TYPE_CHECKING:
    import pyarrow as pa


class Uppercase:
    def __init__(self, config: UppercaseConfig) -> None:
        self._field = config.field
        self._names: list[str] = []

    def bind(self, schemas: Schemas) -> Traits:
        """All fields of the input's schema are decoded; without one, the field itself."""
        own = [SourceField(self._field, FieldType("string"))]
        fields = list(schemas.input.fields) if schemas.input is not None else own
        self._names = [field.name for field in fields]
        return Traits(fields)

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Without `_data` in the result, its columns are encoded; `_ts_ms` keeps each record's time."""
        import pyarrow.compute as pc

        place = records.schema.get_field_index(self._field)
        upper = records.set_column(place, self._field, pc.utf8_upper(records.column(place)))
        return upper.select(["_ts_ms", *self._names])
