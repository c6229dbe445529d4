"""The transforms of hosted tasks, built once per process, and their lookup tables."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec

from gauss.stream.driver.planning.refs import TransformRef
from gauss.stream.driver.planning.standing_plans import ChainStep
from gauss.stream.driver.tasks.reading import FORGET, Range

if TYPE_CHECKING:
    from gauss.contracts.transform import ArrowTransform, TableTransform, Traits


def transform_of(ref: bytes) -> ArrowTransform:
    """The transform, built once per process; `ref` is a TransformRef as JSON."""
    return _bound(ref)[0]


@lru_cache(maxsize=256)
def _bound(ref: bytes) -> tuple[ArrowTransform, Traits]:
    transform, traits = msgspec.json.decode(ref, type=TransformRef).build()
    return cast("ArrowTransform", transform), traits  # only hosted plans name it


FORGET.append(_bound.cache_clear)


def look_up(step: ChainStep, part: Range) -> None:
    """Passes the rows of the lookup table to the transform, at the version of the batch."""
    from gauss.stream.driver.tasks.side_table import look_up as rows_of
    from gauss.stream.driver.tasks.side_table import versions_of

    ref = step.transform.table
    transform, traits = _bound(msgspec.json.encode(step.transform))
    assert ref is not None
    rows = rows_of(step.read, ref, traits.table_fields, versions_of(part.tables)[ref.topic])
    cast("TableTransform", transform).look_up_in(rows)
