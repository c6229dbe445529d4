"""Batches of a task: records keep their keys and headers, and a topic without them has no such columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gauss.contracts.letter import Letter
from gauss.model.batch import record_batch
from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.planning.refs import FormatRef
from gauss.stream.driver.tasks.reading import Range, coalesced, decode
from helpers.keyed_records import headers_of, key_of, keyed_batch

FIELDS = pa.schema([("n", pa.int64())])
PART = Range("in", 1, 0, 100)


def plan(format: FormatRef | None) -> RangeRead:
    return RangeRead(flight="", processor="p", generation=1, format=format)


def test_coalesced_batches_keep_keys_and_headers() -> None:
    (whole,) = coalesced(iter([keyed_batch(b"a", b"b"), keyed_batch(b"c", first=2)]))
    assert whole.equals(keyed_batch(b"a", b"b", b"c"))


@pytest.mark.parametrize("format", [FormatRef("json"), None])
def test_decoded_records_have_their_keys_and_headers(format: FormatRef | None) -> None:
    letters: list[Letter] = []
    records = keyed_batch(b'{"n":0}', b"bad", b'{"n":2}', b'{"n":3}')
    (found,) = decode(plan(format), records, FIELDS, PART, letters, offsets=True)
    left = [0, 2, 3] if format is not None else [0, 1, 2, 3]
    assert found.column("_offset").to_pylist() == left
    assert found.column("_key").to_pylist() == [key_of(n) for n in left]
    assert found.column("_headers").to_pylist() == [headers_of(n) for n in left]
    assert [letter.offset for letter in letters] == ([1] if format is not None else [])


def test_records_of_a_topic_without_keys_get_no_columns_for_them() -> None:
    records = record_batch(0, 5, pa.array([b'{"n":0}'], pa.binary()))
    (found,) = decode(plan(FormatRef("json")), records, FIELDS, PART, [])
    assert found.schema.names == ["n", "_ts_ms", "_data"]
