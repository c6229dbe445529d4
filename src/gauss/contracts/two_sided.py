"""A transform of two topics, both read by event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gauss.contracts.time import TimedTransform

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from gauss.contracts.format import SourceField, SourceSchema


class TwoSided(TimedTransform, Protocol):
    """Its spec names the other topic in `beside`, its config may give that a format of its own, `join_input`."""

    beside_fields: list[SourceField]
    """Once it is bound: what is decoded of the other topic's records."""

    @property
    def merges_records(self) -> bool:
        """Whether a result is made of two whole records, which must be of the same format."""
        ...

    window_ms: int
    """How far apart two records of a pair may be."""
    blocks_ms: int
    """Not 0: pairs are found in blocks of records, each of one slot of so many ms, by `matches` and `joined`; 0: they
    are what `apply_both` gives."""

    def bind_beside(self, schema: SourceSchema | None) -> None:
        """Called before `bind`, with the schema of the other topic's format, if it has one."""
        ...

    def apply_both(self, records: DataFrame, others: DataFrame) -> DataFrame:
        """As `apply`, with the records of both topics; heartbeats come on both sides."""
        ...

    def matches(self, records: pa.RecordBatch, others: pa.RecordBatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Every pair among the records of both topics (decoded fields, `_ts_ms`, `_event_ms`), some at a time: the
        places of the one and of the other."""
        ...

    def joined(self, records: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        """The result for pairs: each record with the other one in the same row."""
        ...
