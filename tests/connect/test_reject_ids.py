"""Ids of rejected rows: the same when a row is read again, different for different rows."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.reject_ids import RejectIds
from gauss.contracts.connector.cursor import Int64Cursor


def rows(*names: str | None, first: int = 0) -> pa.RecordBatch:
    ids = range(first, first + len(names))
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())})


def test_id_of_a_row_does_not_depend_on_its_place_in_the_batch() -> None:
    names = [*"abcdefghij", None, "k", None]
    whole = rows(*names)
    for place, name in enumerate(names):
        alone = rows(name, first=place)
        assert RejectIds(None, None).of(whole.slice(place, 1)) == RejectIds(None, None).of(alone)


def test_rows_read_again_from_the_same_cursor_have_the_same_ids() -> None:
    first, again = RejectIds(None, None), RejectIds(None, Int64Cursor(5))
    before = first.of(rows("a"))
    first.move(Int64Cursor(5))
    behind = first.of(rows("b", "c"))
    assert again.of(rows("b")) + again.of(rows("b", "c").slice(1)) == behind
    assert not {*before} & {*behind}


def test_equal_rows_have_different_ids_by_repetition_cursor_and_partition() -> None:
    ids = RejectIds(None, None)
    found = [*ids.of(rows("a")), *ids.of(rows("a")), *ids.of(rows("a"))]
    ids.move(Int64Cursor(1))
    found += ids.of(rows("a"))
    for partition in ({"part": 1}, {"part": 2}, "1"):
        found += RejectIds(partition, None).of(rows("a"))
    assert len({*found}) == len(found) == 7
