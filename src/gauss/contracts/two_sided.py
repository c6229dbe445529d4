"""A transform of two topics, both read by event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gauss.contracts.transform import AnyTransform

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame


class TwoSided(AnyTransform, Protocol):
    """A transform of two topics. `beside` of its spec names the other topic, whose format may be `join_input` of its
    config. Its traits have `time` and `beside`. With `blocks_ms` in its spec, pairs are found in blocks of records by
    `matches` and `joined`, else by `apply_both`."""

    def apply_both(self, records: DataFrame, others: DataFrame) -> DataFrame:
        """As `Transform.apply`, with the records of both topics. Both sides contain heartbeats."""
        ...

    def matches(self, records: pa.RecordBatch, others: pa.RecordBatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields all pairs of records of both topics (decoded fields, `_ts_ms`, `_event_ms`) in parts, as row numbers
        of either side."""
        ...

    def joined(self, records: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        """The result for pairs: row n of one side joined with row n of the other."""
        ...
