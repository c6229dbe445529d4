"""Block join of two streams: a row of Spark's join is a block of records of about the same event time.

Readers build the blocks, Spark's stream-stream join matches blocks that are near each other in time, and the writer's
task finds the pairs of records in them. The JVM does no work per record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.model.names import BEAT, EVENT, EVENT_MS
from gauss.stream.driver.planning.reads import BLOCK, FIRST, LAST, NUMBER, ReadBlocks
from gauss.stream.driver.planning.refs import TransformRef
from gauss.stream.driver.planning.writes import WritePairs
from gauss.stream.driver.tasks.reading import FORGET, Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from gauss.contracts.two_sided import TwoSided

MOST_RECORDS, MOST_BYTES = 65_536, 8 << 20
"""Limits of a block. Every matching pair of blocks is a row of Spark, so larger blocks are copied less often."""
OTHER = "_other"


def blocks(plan: ReadBlocks, part: Range, batch: pa.RecordBatch, events: pa.Array, already: int) -> pa.RecordBatch:
    """Records as block rows, each within one time slot; `already`: number of blocks of the range so far."""
    schema = plan.block_schema()
    given = dict(zip(batch.schema.names, batch.columns, strict=True)) | {EVENT_MS: events}
    columns = [given[field.name] for field in schema]
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    records = pa.RecordBatch.from_arrays(columns, schema=schema)
    times = events.to_numpy()
    slots = times // plan.slot_ms
    if (np.diff(slots) < 0).any():
        order = np.argsort(slots, kind="stable")
        slots, times, records = slots[order], times[order], records.take(pa.array(order))
    cuts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    most = max(1, min(MOST_RECORDS, MOST_BYTES * len(records) // records.nbytes))
    cuts = [at for first, stop in pairwise(cuts) for at in range(first, stop, most)]
    firsts, lasts = np.minimum.reduceat(times, cuts), np.maximum.reduceat(times, cuts)
    sizes = np.diff([*cuts, len(slots)])
    payload = [records.slice(at, size).serialize().to_pybytes() for at, size in zip(cuts, sizes.tolist(), strict=True)]
    made = {
        EVENT: pa.array(lasts * 1000).cast(pa.timestamp("us", "UTC")),
        BEAT: pa.repeat(False, len(cuts)),
        FIRST: pa.array(firsts),
        LAST: pa.array(lasts),
        NUMBER: pa.array([f"{part.topic} {part.inc} {part.start} {already + n}" for n in range(len(cuts))]),
        BLOCK: pa.array(payload, pa.binary()),
    }
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def near(left: DataFrame, right: DataFrame, window_ms: int, slot_ms: int) -> DataFrame:
    """The pairs of blocks that may contain matching records. Spark drops a block from its state when no later block of
    the other side can be near enough."""
    from pyspark.sql import functions as F

    right = right.select(*(F.col(name).alias(OTHER + name) for name in right.columns))
    apart = F.expr(f"INTERVAL {(window_ms + slot_ms) / 1000} SECOND")
    met = (
        (F.col(BEAT) == F.col(OTHER + BEAT))  # an equality, always true: all blocks go to one partition
        & (F.col(OTHER + EVENT) >= F.col(EVENT) - apart)
        & (F.col(OTHER + EVENT) <= F.col(EVENT) + apart)
        & (F.col(OTHER + FIRST) <= F.col(LAST) + window_ms)
        & (F.col(FIRST) <= F.col(OTHER + LAST) + window_ms)
    )
    return left.join(right, met).select(BEAT, NUMBER, BLOCK, OTHER + NUMBER, OTHER + BLOCK)


def paired(work: WritePairs, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The transform's results for all pairs of records in matching blocks."""
    transform = _transform(msgspec.json.encode(work.transform))
    for batch in batches:
        rows = batch.filter(pc.invert(batch.column(BEAT)))
        if not rows.num_rows:
            continue
        left, left_blocks, left_of = _records(rows, "", work.left.block_schema())
        right, right_blocks, right_of = _records(rows, OTHER, work.right.block_schema())
        # Pairs of blocks that are not in this batch were joined in an earlier one.
        count = int(right_blocks.max()) + 1
        meet = np.sort(left_blocks * count + right_blocks)
        for mine, others in transform.matches(left, right):
            both = left_of[mine] * count + right_of[others]
            now = meet[np.searchsorted(meet, both).clip(max=len(meet) - 1)] == both
            if now.any():
                yield transform.joined(left.take(pa.array(mine[now])), right.take(pa.array(others[now])))


def _records(rows: pa.RecordBatch, side: str, schema: pa.Schema) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
    """The records of one side's blocks, the block number of each row, and the block number of each record."""
    numbers = rows.column(side + NUMBER).dictionary_encode().indices.to_numpy().astype(np.int64)
    _, firsts = np.unique(numbers, return_index=True)
    payload = rows.column(side + BLOCK)
    found = [pa.ipc.read_record_batch(payload[at].as_buffer(), schema) for at in firsts.tolist()]
    sizes = [len(each) for each in found]
    return pa.concat_batches(found), numbers, np.repeat(np.arange(len(found)), sizes)


@lru_cache(maxsize=32)
def _transform(ref: bytes) -> TwoSided:
    transform, _ = msgspec.json.decode(ref, type=TransformRef).build()
    return cast("TwoSided", transform)


FORGET.append(_transform.cache_clear)
