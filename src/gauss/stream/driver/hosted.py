"""A hosted task: Spark schedules, retries and checkpoints it; its records never pass the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec
import pyarrow as pa

from gauss.stream.driver.plan import TransformRef, Work
from gauss.stream.driver.reading import FORGET, Range, read_decoded, with_marks

if TYPE_CHECKING:
    from gauss.contracts.processor import ArrowTransform, TableTransform


@lru_cache(maxsize=32)
def transform_of(ref: bytes) -> ArrowTransform:
    """The transform, built once per process; `ref` is a TransformRef as JSON."""
    transform, _ = msgspec.json.decode(ref, type=TransformRef).build()
    return transform  # type: ignore[return-value]  # the plan is hosted only for those that are


FORGET.append(transform_of.cache_clear)


def run(work: Work, part: Range) -> Iterator[pa.RecordBatch]:
    """What the transform makes of a range's records, as `result` in compile.py gives it; no empty batches."""
    transform = transform_of(msgspec.json.encode(work.transform))
    if work.transform.table is not None:
        look_up(work, part)
    fields = work.read.decoded()
    for batch in read_decoded(work.read, part):
        if "ts_ms" not in batch.schema.names:  # a field of the format may have that name
            batch = batch.append_column("ts_ms", batch.column("_ts_ms"))  # noqa: PLW2901
        if (made := transform.arrow(with_marks(batch, fields))).num_rows:
            yield made


def look_up(work: Work, part: Range) -> None:
    """Gives the transform the rows of its table at the version of the batch."""
    from gauss.stream.driver.side_table import look_up as rows_of
    from gauss.stream.driver.side_table import versions_of

    ref = work.transform.table
    looking = cast("TableTransform", transform_of(msgspec.json.encode(work.transform)))
    assert ref is not None
    looking.look_up_in(rows_of(work.read, ref, looking.table_fields, versions_of(part.tables)[ref.topic]))
