"""The transform on Spark: columns in, columns out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss_sample.uppercase.spec import UppercaseConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Uppercase:
    def __init__(self, config: UppercaseConfig) -> None:
        self._field = config.field

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        """All fields of a schema go on; without one, the field itself."""
        fields = list(schema.fields) if schema is not None else [SourceField(self._field, FieldType("string"))]
        self._names = [field.name for field in fields]
        return fields

    def apply(self, records: DataFrame) -> DataFrame:
        """Without `_data` in the result, its columns are encoded anew; `_ts_ms` keeps each record's time."""
        from pyspark.sql import functions

        return records.withColumn(self._field, functions.upper(self._field)).select("_ts_ms", *self._names)
