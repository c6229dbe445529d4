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
        """All fields of a schema go on; without one the rest of each record is carried along as it is."""
        if schema is not None:
            return list(schema.fields)
        return [SourceField(self._field, FieldType("string"))]

    def apply(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions

        return records.withColumn(self._field, functions.upper(self._field))
