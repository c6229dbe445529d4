"""Key and partition of the records that the engine appends, by fields of the records."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.letter import Letter
from gauss.contracts.record_field import RecordField
from gauss.contracts.storage import StorageContext
from gauss.model.errors import ConfigError, GaussError
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig


class WrittenFields:
    """Decodes `key_field` and `partition_field`, by batch."""

    def __init__(self, config: KafkaTopicConfig, context: StorageContext) -> None:
        self._config, self._context = config, context
        try:
            self.columns(pa.array([], pa.binary()))
        except GaussError as error:
            if not error.retryable:  # a registry that does not answer is asked again with the first record
                raise

    def batch(self, chunk: Chunk) -> pa.RecordBatch:
        """The records with their times, and with keys and partitions as far as fields choose them."""
        data = chunk.data()
        times = np.full(chunk.count, chunk.ts_ms, np.int64) if isinstance(chunk.ts_ms, int) else chunk.ts_ms
        columns = {"data": data, "ts_ms": pa.array(times, pa.int64()), **self.columns(data)}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def columns(self, data: pa.BinaryArray) -> dict[str, pa.Array]:
        """The columns `key` and `partition`, as far as fields choose them. A record that can't be decoded has no key:
        it becomes a dead letter where it is decoded."""
        found: dict[str, pa.Array] = {}
        if self._key is not None:
            found["key"] = self._key.keys(data)
        if self._partition is not None:
            found["partition"] = self._partition.numbers(data)
        return found

    def fit(self, chunk: Chunk, partitions: int, inc: int) -> tuple[Chunk | None, list[Letter]]:
        """The records with a valid number of a partition, if a field chooses it, and letters of the others."""
        if self._partition is None:
            return chunk, []
        data, times = chunk.data(), chunk.ts_ms
        numbers = self._partition.numbers(data).fill_null(-1).to_numpy(zero_copy_only=False)
        bad = (numbers < 0) | (numbers >= partitions)
        if not bad.any():
            return chunk, []
        field, letters = self._config.partition_field or "", []
        for index in np.flatnonzero(bad).tolist():
            found = str(numbers[index]) if numbers[index] >= 0 else "none"
            letter = Letter(
                "bad_partition",
                f"{field}: expected a partition, 0 to {partitions - 1}, found {found}",
                "store",
                data=data[index].as_py(),
                topic=self._context.topic,
                inc=inc,
                ts_ms=times if isinstance(times, int) else int(times[index]),
                column=field,
            )
            letters.append(letter)
        data, times = data.filter(pa.array(~bad)), times if isinstance(times, int) else times[~bad]
        return Chunk(data, len(data), times) if len(data) else None, letters

    @cached_property
    def _key(self) -> RecordField | None:
        return self._field("key_field", self._config.key_field)

    @cached_property
    def _partition(self) -> RecordField | None:
        return self._field("partition_field", self._config.partition_field)

    def _field(self, what: str, name: str | None) -> RecordField | None:
        if name is None or self._config.format is None:
            return None
        try:
            return RecordField(self._context.format(self._config.format), name, what=what)
        except ConfigError as error:
            raise ConfigError(f'topic "{self._context.topic}": {error.message}', hint=error.hint) from error
