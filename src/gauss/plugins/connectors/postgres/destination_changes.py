"""Changes of a CDC stream as what is to be done to a table that is kept by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.postgres.arrow_columns import is_list
from gauss.clients.postgres.plain_columns import plain_column
from gauss.clients.postgres.text_columns import text_column
from gauss.contracts.connector.stream import OPERATION, Operation
from gauss.contracts.format import FieldType


class Changes(NamedTuple):
    """The last change of every key: deletes first, then upserts, has the effect of all changes in order."""

    deleted: pa.RecordBatch
    """Keys."""
    written: pa.RecordBatch
    """Rows without their operation."""


def last_changes(rows: pa.RecordBatch, key: Sequence[str], types: Mapping[str, FieldType]) -> Changes:
    """What changes amount to. `types`: of the table's columns."""
    last = _last(rows, key, types)
    is_delete = pc.equal(last.column(OPERATION), str(Operation.DELETE))
    others = [name for name in rows.schema.names if name != OPERATION]
    return Changes(last.filter(is_delete).select(list(key)), last.filter(pc.invert(is_delete)).select(others))


def _last(rows: pa.RecordBatch, key: Sequence[str], types: Mapping[str, FieldType]) -> pa.RecordBatch:
    names = [f"k{place}" for place in range(len(key))]
    columns = [_groupable(rows, name, types[name]) for name in key]
    numbers = pa.array(np.arange(rows.num_rows))
    table = pa.table([*columns, numbers], names=[*names, "number"])
    found = table.group_by(names, use_threads=False).aggregate([("number", "max")])["number_max"]
    if len(found) == rows.num_rows:
        return rows
    return rows.take(found.combine_chunks().sort())


def _groupable(rows: pa.RecordBatch, name: str, kind: FieldType) -> pa.ChunkedArray:
    """A column by which rows can be grouped: lists become text."""
    values = pa.chunked_array([plain_column(name, rows.column(name))])
    return text_column(name, values, kind) if is_list(values.type) else values
