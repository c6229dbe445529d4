"""A source and a sink without an engine, for the run that makes the class archive. They load the same JVM classes as
the source and sink of queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

ROWS = 10


class TrainingSource(DataSource):
    SCHEMA = "n bigint, s string, x double, data binary"

    @classmethod
    def name(cls) -> str:
        return "training"

    def schema(self) -> str:
        return self.SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        return TrainingReader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        return TrainingWriter()


@dataclass
class TrainingRows(InputPartition):
    start: int


class TrainingReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:
        return {"n": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(ROWS)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        return {"n": start["n"] + ROWS}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        return [TrainingRows(start["n"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TrainingRows)
        numbers = pa.array(np.arange(partition.start, partition.start + ROWS))
        texts = numbers.cast(pa.string())
        yield pa.RecordBatch.from_arrays(
            [numbers, texts, numbers.cast(pa.float64()), texts.cast(pa.binary())], names=["n", "s", "x", "data"]
        )


class TrainingWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is kept."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing was kept."""
