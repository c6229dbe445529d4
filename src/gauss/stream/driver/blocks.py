"""Two streams joined in blocks: what Spark keeps and brings together are records of about the same time, as one row.

Readers make the blocks, Spark's join of two streams finds those that lie near each other in time, and the writer's
task finds the pairs in them: a record costs the JVM nothing.
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

from gauss.contracts.time import BEAT, EVENT, EVENT_MS
from gauss.stream.driver.plan import BLOCK, FIRST, LAST, NUMBER, PairWork, ReadPlan, TransformRef
from gauss.stream.driver.reading import FORGET, Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from gauss.contracts.two_sided import TwoSided

MOST_RECORDS, MOST_BYTES = 65_536, 8 << 20
"""Of a block. Two that meet are a row of Spark's, so large ones are copied less often: with a window of a few seconds
and tens of thousands of records in each, by far."""
OTHER = "_other"


def blocks(plan: ReadPlan, part: Range, batch: pa.RecordBatch, events: pa.Array, already: int) -> pa.RecordBatch:
    """Records as rows of blocks, each of one slot of time; `already`: how many blocks the range has given."""
    assert plan.time is not None
    schema = plan.block_schema()
    given = dict(zip(batch.schema.names, batch.columns, strict=True)) | {EVENT_MS: events}
    columns = [given[field.name] for field in schema]
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    records = pa.RecordBatch.from_arrays(columns, schema=schema)
    times = events.to_numpy()
    slots = times // plan.time.blocks_ms
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
    """The blocks of both sides in which pairs may be. Spark drops a block once none of the other side can come that is
    near enough by the times of their last records."""
    from pyspark.sql import functions as F

    right = right.select(*(F.col(name).alias(OTHER + name) for name in right.columns))
    apart = F.expr(f"INTERVAL {(window_ms + slot_ms) / 1000} SECOND")
    met = (
        (F.col(BEAT) == F.col(OTHER + BEAT))  # one partition: the work is done elsewhere
        & (F.col(OTHER + EVENT) >= F.col(EVENT) - apart)
        & (F.col(OTHER + EVENT) <= F.col(EVENT) + apart)
        & (F.col(OTHER + FIRST) <= F.col(LAST) + window_ms)
        & (F.col(FIRST) <= F.col(OTHER + LAST) + window_ms)
    )
    return left.join(right, met).select(BEAT, NUMBER, BLOCK, OTHER + NUMBER, OTHER + BLOCK)


def paired(work: PairWork, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the transform makes of every pair of records in blocks that lie near each other."""
    transform = _transform(msgspec.json.encode(work.transform))
    for batch in batches:
        rows = batch.filter(pc.invert(batch.column(BEAT)))
        if not rows.num_rows:
            continue
        left, left_blocks, left_of = _records(rows, "", work.left.block_schema())
        right, right_blocks, right_of = _records(rows, OTHER, work.right.block_schema())
        # Blocks that were there before have met each other before.
        count = int(right_blocks.max()) + 1
        meet = np.sort(left_blocks * count + right_blocks)
        for mine, others in transform.matches(left, right):
            both = left_of[mine] * count + right_of[others]
            now = meet[np.searchsorted(meet, both).clip(max=len(meet) - 1)] == both
            if now.any():
                yield transform.joined(left.take(pa.array(mine[now])), right.take(pa.array(others[now])))


def _records(rows: pa.RecordBatch, side: str, schema: pa.Schema) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
    """The records of a side's blocks, the block of each row, and the block of each record."""
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
