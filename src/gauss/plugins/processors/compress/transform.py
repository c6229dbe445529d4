"""compress: one call of a C library per record; on Spark the same function in its Python workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gauss.contracts.format import SourceField, SourceSchema
from gauss.plugins.processors.compress.spec import CompressConfig

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Compress:
    """The same bytes for the same record whenever it runs: no time stands in a header."""

    def __init__(self, config: CompressConfig) -> None:
        self._config = config

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        return []

    def apply(self, records: DataFrame) -> DataFrame:
        """The records compressed."""

        def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return map(self.arrow, given)

        return records.select("_ts_ms", "_data").mapInArrow(batches, "_ts_ms bigint, _data binary")

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records compressed."""
        import pyarrow as pa

        codec = pa.Codec(self._config.algo, compression_level=self._config.level)
        made = [codec.compress(data, asbytes=True) for data in records.column("_data").to_pylist()]
        return pa.RecordBatch.from_arrays(
            [records.column("_ts_ms"), pa.array(made, pa.binary())], names=["_ts_ms", "_data"]
        )
