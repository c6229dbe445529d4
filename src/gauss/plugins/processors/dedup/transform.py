"""dedup on Spark: its own operator, over records in the order of their arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import SourceField, SourceSchema
from gauss.contracts.time import BEAT, DELAY_MARK, EVENT
from gauss.model.errors import ConfigError
from gauss.plugins.processors.dedup.spec import DedupConfig
from gauss.plugins.processors.fields import path, plain, spark_column
from gauss.plugins.processors.keys import ANY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = "_key"


class Dedup:
    """Bytes pass as they came; only the key is decoded."""

    def __init__(self, config: DedupConfig) -> None:
        self._keys = [plain(name) for name in config.key or ()]
        self._within = config.within
        self.time = config.event_time(span_ms=0, step_ms=1, required=tuple(self._keys))

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        """The key."""
        known = {plain(field.name): field for field in schema.fields} if schema else {}
        if known and (missing := [name for name in self._keys if name not in known]):
            raise ConfigError(f"key: the input format has no field {', '.join(missing)}", hint=f"it has: {list(known)}")
        return [known.get(name, SourceField(path(name), ANY)) for name in self._keys]

    def apply(self, records: DataFrame) -> DataFrame:
        """The first of each key. One task reads a batch, so that records come in the order of their offsets; the mark
        on the time tells the operator how long a key is kept."""
        from pyspark.sql import functions as F

        parts = [spark_column(name).cast("string") for name in self._keys] or [F.col("_data")]
        # A digest of 128 bits instead of the key: state stays small, whatever a key or record is.
        key = parts[0] if len(parts) == 1 else F.to_json(F.array(*parts))
        digest = F.unhex(F.md5(key))
        event = F.col(EVENT).alias(EVENT, metadata={DELAY_MARK: self._within})
        rows = records.coalesce(1).select("_ts_ms", "_data", BEAT, event, digest.alias(KEY))
        return rows.dropDuplicatesWithinWatermark([KEY, BEAT]).select("_ts_ms", "_data", BEAT)
