"""A hosted task: Spark schedules, retries and checkpoints it; its records never pass the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec
import pyarrow as pa

from gauss.stream.driver.plan import TransformRef, Work
from gauss.stream.driver.reading import Range, read_decoded

if TYPE_CHECKING:
    from gauss.contracts.processor import ArrowTransform, TableTransform


@lru_cache(maxsize=32)
def _transform(ref: bytes) -> ArrowTransform:
    transform, _ = msgspec.json.decode(ref, type=TransformRef).build()
    return transform  # type: ignore[return-value]  # the plan is hosted only for those that are


def run(work: Work, part: Range) -> Iterator[pa.RecordBatch]:
    """What the transform makes of a range's records, as `result` in compile.py gives it; no empty batches."""
    transform = _transform(msgspec.json.encode(work.transform))
    if work.transform.table is not None:
        _look_up(work, part, transform)
    for batch in read_decoded(work.read, part):
        if "ts_ms" not in batch.schema.names:  # a field of the format may have that name
            batch = batch.append_column("ts_ms", batch.column("_ts_ms"))  # noqa: PLW2901
        if (made := transform.arrow(batch)).num_rows:
            yield made


def _look_up(work: Work, part: Range, transform: ArrowTransform) -> None:
    """Gives the transform the rows of its table at the version of the batch."""
    from gauss.stream.driver.side_table import look_up, versions_of

    ref = work.transform.table
    looking = cast("TableTransform", transform)
    assert ref is not None
    looking.look_up_in(look_up(work.read, ref, looking.table_fields, versions_of(part.tables)[ref.topic]))
