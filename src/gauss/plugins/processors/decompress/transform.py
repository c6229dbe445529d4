"""decompress: the reader has done the work, its column becomes the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.plugins.processors.decompress.spec import DecompressConfig

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DATA = SourceField("data", FieldType("bytes"))


class Decompress:
    def __init__(self, config: DecompressConfig) -> None:
        self._config = config

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        return [DATA]

    def apply(self, records: DataFrame) -> DataFrame:
        """The records as they were before."""
        from pyspark.sql import functions as F

        return records.select("_ts_ms", F.col(DATA.name).alias("_data"))

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records as they were before."""
        return records.select(["_ts_ms", DATA.name]).rename_columns(["_ts_ms", "_data"])
