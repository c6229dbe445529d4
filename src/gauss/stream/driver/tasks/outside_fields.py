"""Key and partition of records that are written to topics in outside systems, by fields of the records."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.letter import Letter
from gauss.contracts.record_field import RecordField
from gauss.stream.driver.planning.refs import OutsideTarget
from gauss.stream.driver.tasks.outside_topics import task_log
from gauss.stream.driver.tasks.reading import FORGET, format_of


def with_key(staged: pa.RecordBatch, target: OutsideTarget) -> pa.RecordBatch:
    """Records `(ts_ms, data)` with the column `key`, decoded from their bytes if the result did not have it."""
    if not target.key or target.format is None or "key" in staged.schema.names:
        return staged
    return staged.append_column("key", _field(msgspec.json.encode(target), "key").keys(staged.column(1)))


def with_partition(
    staged: pa.RecordBatch, target: OutsideTarget, flight: str, topic: str, letters: list[Letter]
) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Records `(ts_ms, data)` with the column `partition`, if a field chooses it, and which of them were kept, `None`
    if all. Those without a valid one are added to `letters`."""
    if not target.partition or target.format is None:
        return staged, None
    if "partition" not in staged.schema.names:
        numbers = _field(msgspec.json.encode(target), "partition").numbers(staged.column(1))
        staged = staged.append_column("partition", numbers)
    numbers, count = staged.column("partition"), task_log(flight, topic).partitions()
    kept = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, count)).fill_null(False)
    if pc.all(kept).as_py():
        return staged, None
    for row in staged.filter(pc.invert(kept)).to_pylist():
        found = "no whole number" if row["partition"] is None else str(row["partition"])
        detail = f"{target.partition}: expected a partition, 0 to {count - 1}, found {found}"
        letters.append(
            Letter(
                "bad_partition",
                detail,
                "encode",
                data=row["data"],
                topic=topic,
                ts_ms=row["ts_ms"] or 0,
                column=target.partition,
            )
        )
    return staged.filter(kept), kept


@lru_cache(maxsize=64)
def _field(target: bytes, which: str) -> RecordField:
    """A field of a target, which is an OutsideTarget as JSON."""
    found = msgspec.json.decode(target, type=OutsideTarget)
    assert found.format is not None
    return RecordField(format_of(found.format), getattr(found, which), what=f"{which}_field")


FORGET.append(_field.cache_clear)
