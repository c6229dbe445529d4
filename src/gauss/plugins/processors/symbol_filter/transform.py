"""symbol-filter: one lookup in a set, as a Spark column or over an Arrow column in a hosted task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.model.errors import ConfigError
from gauss.plugins.processors.fields import is_text, path, plain, spark_column
from gauss.plugins.processors.symbol_filter.spec import SymbolFilterConfig

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class SymbolFilter:
    """Keeps the records whose field is listed."""

    def __init__(self, config: SymbolFilterConfig) -> None:
        self._symbols = sorted(set(config.symbols))
        self._field = SourceField(path(config.field), FieldType("string"))

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        """The one field, which must be text."""
        if schema is not None:
            known = {plain(field.name): field for field in schema.fields}
            name = plain(self._field.name)
            if name not in known:
                raise ConfigError(f'the input format has no field "{name}"', hint=f"it has: {', '.join(known)}")
            self._field = known[name]
            if not is_text(self._field.field_type):
                raise ConfigError(
                    f'"{name}" is {self._field.field_type.name}, and symbols are text',
                    hint=f"use filter, e.g. where = '.{name} == 7'",
                )
        return [self._field]

    def apply(self, records: DataFrame) -> DataFrame:
        """The records that are listed."""
        listed = spark_column(plain(self._field.name)).isin(self._symbols)
        return records.where(listed).select("_ts_ms", "_data")

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records that are listed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        listed = pc.is_in(records.column(self._field.name), value_set=pa.array(self._symbols, pa.string()))
        return records.select(["_ts_ms", "_data"]).filter(listed)
