"""The transforms of hosted tasks: built once per process, with the rows of the tables that they look into."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec

from gauss.stream.driver.plan import TransformRef, Work
from gauss.stream.driver.reading import FORGET, Range

if TYPE_CHECKING:
    from gauss.contracts.processor import ArrowTransform, TableTransform


@lru_cache(maxsize=256)
def transform_of(ref: bytes) -> ArrowTransform:
    """The transform, built once per process; `ref` is a TransformRef as JSON."""
    transform, _ = msgspec.json.decode(ref, type=TransformRef).build()
    return transform  # type: ignore[return-value]  # the plan is hosted only for those that are


FORGET.append(transform_of.cache_clear)


def look_up(work: Work, part: Range) -> None:
    """Gives the transform the rows of its table at the version of the batch."""
    from gauss.stream.driver.side_table import look_up as rows_of
    from gauss.stream.driver.side_table import versions_of

    ref = work.transform.table
    looking = cast("TableTransform", transform_of(msgspec.json.encode(work.transform)))
    assert ref is not None
    looking.look_up_in(rows_of(work.read, ref, looking.table_fields, versions_of(part.tables)[ref.topic]))
