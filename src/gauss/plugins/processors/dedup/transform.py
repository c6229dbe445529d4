"""dedup: Spark's deduplication within a watermark, over records in arrival order. Readers make a digest of each key and
drop duplicates within their batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import SourceField
from gauss.contracts.time import DELAY_MARK
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import BEAT, DATA_COLUMN, EVENT, EVENT_MS, TS_MS_COLUMN
from gauss.plugins.processors.dedup.spec import DedupConfig
from gauss.plugins.processors.fields import column_name, path, plain
from gauss.plugins.processors.keys import ANY

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

KEY = ("_key0", "_key1")
"""A digest of 128 bits instead of the key: state stays small, whatever a key or record is."""


class Dedup:
    """Bytes pass as they came; only the key is decoded."""

    def __init__(self, config: DedupConfig) -> None:
        self._keys = [plain(name) for name in config.key or ()]
        self._within = config.within
        self._time = config.event_time(span_ms=0, step_ms=1, required=tuple(self._keys))

    def bind(self, schemas: Schemas) -> Traits:
        """The key."""
        known = {plain(field.name): field for field in schemas.input.fields} if schemas.input else {}
        if known and (missing := [name for name in self._keys if name not in known]):
            raise ConfigError(f"key: the input format has no field {', '.join(missing)}", hint=f"it has: {list(known)}")
        return Traits([known.get(name, SourceField(path(name), ANY)) for name in self._keys], time=self._time)

    def partial_schema(self, fields: pa.Schema) -> pa.Schema:  # noqa: ARG002
        import pyarrow as pa

        digest = [(name, pa.int64()) for name in KEY]
        stamp = pa.timestamp("us", "UTC")
        return pa.schema(
            [(TS_MS_COLUMN, pa.int64()), (DATA_COLUMN, pa.binary()), (BEAT, pa.bool_()), (EVENT, stamp), *digest]
        )

    def partial(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The first of each key in a batch, which is all that could come out of it."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from gauss.plugins.processors.dedup.digests import digests_of, firsts

        names = [column_name(records, name) for name in self._keys] or [DATA_COLUMN]
        digests = digests_of([_texts(records.column(name)) for name in names])
        first = firsts(digests)
        if not first.all():
            records, digests = records.filter(pa.array(first)), digests[first]
        columns = {
            TS_MS_COLUMN: records.column(TS_MS_COLUMN),
            DATA_COLUMN: records.column(DATA_COLUMN),
            EVENT: pc.multiply(records.column(EVENT_MS), 1000).cast(pa.timestamp("us", "UTC")),
            **{name: pa.array(digests[:, side].view(np.int64)) for side, name in enumerate(KEY)},
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def apply(self, records: DataFrame) -> DataFrame:
        """The first of each key. One task reads a batch, so that records come in the order of their offsets; the mark
        on the time tells the operator how long a key is kept."""
        from pyspark.sql import functions as F

        event = F.col(EVENT).alias(EVENT, metadata={DELAY_MARK: self._within})
        rows = records.coalesce(1).select(TS_MS_COLUMN, DATA_COLUMN, BEAT, event, *KEY)
        return rows.dropDuplicatesWithinWatermark([*KEY, BEAT]).select(TS_MS_COLUMN, DATA_COLUMN, BEAT)


def _texts(column: pa.Array) -> pa.Array:
    """Values as texts or bytes, different for different values."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):  # a rare key, for which Arrow has no text
        import msgspec

        return pa.array([msgspec.json.encode(value) for value in column.to_pylist()], pa.large_binary())
    held = column.type
    is_text = pa.types.is_large_string(held) or pa.types.is_string(held)
    return column if is_text or pa.types.is_binary(held) or pa.types.is_large_binary(held) else column.cast(pa.string())
