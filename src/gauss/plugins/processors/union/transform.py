"""union: the reader gives the ranges of all its topics, their bytes pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import SourceField, SourceSchema
from gauss.plugins.processors.union.spec import UnionConfig

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Union:
    def __init__(self, config: UnionConfig) -> None:
        self._config = config

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        return []

    def apply(self, records: DataFrame) -> DataFrame:
        return records.select("_ts_ms", "_data")

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        return records.select(["_ts_ms", "_data"])
