"""The newest record of each key of a Kafka topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.kafka.record_batches import SCHEMA
from gauss.contracts.format import Format
from gauss.contracts.record_field import RecordField
from gauss.model.batch import KEYED_SCHEMA
from gauss.model.errors import Rejected
from gauss.model.units import human_bytes
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig

STEP_BYTES = 64 << 20
"""Size of the records that are read before the newest of each key are selected; that of the newest, if it is more."""
BATCH_BYTES = 8 << 20
Keys = Callable[[pa.BinaryArray], pa.BinaryArray]
"""The keys of undecoded records, null for records without one."""
KEY, PARTITION = "_key", "_partition"
_WIDE = SCHEMA.set(2, pa.field("data", pa.large_binary())).append(pa.field(KEY, pa.large_binary()))
"""The newest records of a topic may have more than 2 GiB."""


def row_keys(config: KafkaTopicConfig, format_: Callable[[str], Format]) -> Keys | None:
    """How the key of a row is found in a record. `None`: it is the key of Kafka's record."""
    if config.key is not None or config.key_field is None or config.format is None:
        return None
    return RecordField(format_(config.format), config.key_field, what="key_field").keys


class Snapshot:
    """Collects records, partition by partition. Memory: the newest record of each key, and those of one step."""

    def __init__(self, topic: str, keys: Keys | None, most: int) -> None:
        """`most`: the `snapshot_bytes` of the topic."""
        self._topic, self._keys, self._most = topic, keys, most
        self._newest: list[pa.Table] = []
        self._held = 0

    def add(self, partition: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Adds the records of a partition, in order, as batches of `record_batches.SCHEMA`."""
        kept = _table([])
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(self._keyed(batch))
            size += batch.nbytes
            if size >= min(self._most, max(STEP_BYTES, kept.nbytes)):
                kept, waiting, size = self._fold(kept, waiting), [], 0
        kept = self._fold(kept, waiting)
        self._held += kept.nbytes
        numbers = pa.array(np.full(len(kept), partition, np.int32))
        self._newest.append(kept.append_column(PARTITION, numbers))

    def newest(self) -> pa.Table:
        """The records with columns `KEY` and `PARTITION`, in any order. Of a key that is in several partitions it is
        the one with the latest time, then the largest offset."""
        found = pa.concat_tables(self._newest)
        order = pc.sort_indices(found, [("ts_ms", "ascending"), ("offset", "ascending")])
        found = found.take(order)
        found = found.take(_last_rows(found.column(KEY)))
        return found.filter(found.column("data").is_valid())

    def batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The records, with their partitions, in the order of partitions and offsets."""
        found = self.newest()
        found = found.take(pc.sort_indices(found, [(PARTITION, "ascending"), ("offset", "ascending")]))
        for number in pc.unique(found.column(PARTITION)).to_pylist():
            part = found.filter(pc.equal(found.column(PARTITION), number)).select(KEYED_SCHEMA.names)
            most = max(1, len(part) * BATCH_BYTES // max(part.nbytes, 1))
            for batch in part.combine_chunks().to_batches(max_chunksize=most):
                yield number, batch.cast(KEYED_SCHEMA)

    def _fold(self, kept: pa.Table, batches: list[pa.RecordBatch]) -> pa.Table:
        """The newest record of each key. Raises Rejected if they take more than a snapshot may."""
        found = _newest(kept, batches)
        if self._held + found.nbytes > self._most:
            raise Rejected(
                f"the snapshot of topic {self._topic} has more than {human_bytes(self._most)}, its snapshot_bytes",
                hint="set snapshot_bytes to more than the newest records of all keys take, or read the topic by offset",
            )
        return found

    def _keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records that have a key. A tombstone has none but that of Kafka's record."""
        keys = batch.column("key")
        if self._keys is not None:
            data = batch.column("data")
            keys = pc.if_else(data.is_valid(), self._keys(data.fill_null(b"")), keys)
        keyed = pa.RecordBatch.from_arrays([*batch.columns, keys], names=[*SCHEMA.names, KEY]).cast(_WIDE)
        return keyed.filter(keys.is_valid()) if keys.null_count else keyed


def _newest(kept: pa.Table, batches: list[pa.RecordBatch]) -> pa.Table:
    together = pa.concat_tables([kept, _table(batches)])
    return together.take(_last_rows(together.column(KEY))).combine_chunks()


def _table(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, _WIDE)


def _last_rows(keys: pa.ChunkedArray) -> pa.Array:
    """The last row of each key, ascending."""
    rows = pa.table({"key": keys, "row": np.arange(len(keys))})
    last = rows.group_by("key", use_threads=False).aggregate([("row", "max")]).column("row_max")
    return pa.array(np.sort(last.to_numpy()))
