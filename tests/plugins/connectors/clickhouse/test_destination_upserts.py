"""Upserts: deletes without values."""

from __future__ import annotations

import pyarrow as pa

from gauss.contracts.connector.stream import OPERATION, Upsert
from plugins.connectors.clickhouse.writing import CDC, DestinationFixture

CHANGES = pa.schema([
    pa.field("a", pa.int64(), nullable=False),
    pa.field("v", pa.string(), nullable=False),
    pa.field("l", pa.list_(pa.int64())),
    pa.field(OPERATION, pa.string()),
])  # fmt: skip


def changes(*rows: tuple[str, int, str | None]) -> pa.RecordBatch:
    operations, keys, values = zip(*rows, strict=True)
    lists = pa.array([None if value is None else [1] for value in values], pa.list_(pa.int64()))
    columns = [pa.array(keys, pa.int64()), pa.array(values, pa.string()), lists, pa.array(operations)]
    return pa.record_batch(columns, schema=CHANGES)


def test_a_delete_needs_no_value_for_a_column_that_is_never_null(destination: DestinationFixture) -> None:
    stream = destination.stream(CDC, Upsert(["a"]))
    first = changes(("insert", 1, "x"), ("insert", 2, "y"), ("insert", 3, "z"))
    second = changes(
        *(("delete", 1, None), ("update", 2, "Y"), ("delete", 3, None), ("insert", 3, "new")),
        *(("insert", 4, "short"), ("delete", 4, None)),
    )
    done = destination.write([first, second], stream, fits=True)
    assert destination.rows(columns="a, v", final=True) == [(2, "Y"), (3, "new")]
    assert not done.seen.letters and done.summary.records_written == 9
