"""Cached decoded columns of scans: the same results as without them, and removed when unused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.cursor import Code, Point, Program, Step
from gauss.contracts.format import Decoded
from gauss.plugins.storages.memory import decoded_columns, runs
from gauss.plugins.storages.memory.runs import DATA
from gauss.plugins.storages.memory.table import MemoryTable
from helpers.cases import cases
from helpers.tables import json_format, open_table, record, upsert

FIELDS = pa.schema([("k", pa.string()), ("v", pa.int64())])


class Counting:
    """The json format, counting the records that it decodes."""

    def __init__(self) -> None:
        self._format = json_format()
        self.records = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._format, name)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        self.records += len(data)
        return self._format.decode_batch(data, fields)


def settled(table: MemoryTable) -> None:
    for _ in range(3):
        table.maintain()


def decode(table: MemoryTable, fields: pa.Schema = FIELDS, limit: int = 1000) -> list[dict[str, Any]]:
    """All rows, decoded as in the scan engine."""
    cursor, found = table.open(Program()), []
    while cursor.next(Step(limit, fill=False)) is Code.OK:
        batch = cursor.read()[1]
        assert batch is not None
        found += table.format().decode_batch(batch.column(DATA), fields).rows.to_pylist()
    cursor.close()
    return found


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def table(counting: Counting) -> MemoryTable:
    made = open_table(counting)
    upsert(made, *(record(f"k{number:03}", number) for number in range(100)))
    settled(made)
    counting.records = 0
    return made


def test_second_scan_of_the_same_fields_decodes_nothing(table: MemoryTable, counting: Counting) -> None:
    first = decode(table)
    assert counting.records == 100
    assert (
        decode(table, limit=7)
        == decode(table)
        == first
        == [{"k": f"k{number:03}", "v": number} for number in range(100)]
    )
    assert counting.records == 100
    decode(table, pa.schema([("v", pa.int64())]))
    assert counting.records == 100
    decode(table, pa.schema([("v", pa.float64())]))
    assert counting.records == 200


def test_few_rows_of_a_page_are_decoded_alone(table: MemoryTable, counting: Counting) -> None:
    cursor = table.open(Program(Point("k042")))
    assert cursor.next(Step()) is Code.OK
    batch = cursor.read()[1]
    assert batch is not None
    assert table.format().decode_batch(batch.column(DATA), FIELDS).rows.to_pylist() == [{"k": "k042", "v": 42}]
    assert counting.records == 1


def test_change_is_seen_and_only_new_pages_are_decoded_again(table: MemoryTable, counting: Counting) -> None:
    decode(table)
    upsert(table, record("k005", 999))
    assert decode(table)[5] == {"k": "k005", "v": 999}
    settled(table)
    assert decode(table)[5] == {"k": "k005", "v": 999}
    counting.records = 0
    decode(table)
    assert counting.records == 0


def test_page_with_a_record_of_another_type_is_decoded_as_without_the_cache(table: MemoryTable) -> None:
    upsert(table, b'{"k": "k050", "v": "text"}')
    settled(table)
    for _ in range(2):
        cursor = table.open(Program())
        assert cursor.next(Step()) is Code.OK
        batch = cursor.read()[1]
        assert batch is not None
        answer = table.format().decode_batch(batch.column(DATA), FIELDS)
        expected = json_format().decode_batch(batch.column(DATA), FIELDS)
        assert (answer.rows, answer.bad) == (expected.rows, expected.bad)
        assert answer.good.tolist() == expected.good.tolist()


def test_decoded_columns_are_freed_when_no_scan_uses_them(table: MemoryTable, monkeypatch: pytest.MonkeyPatch) -> None:
    decode(table)
    assert _kept_bytes(table) > 0
    monkeypatch.setattr(decoded_columns, "IDLE_SECONDS", -1)
    table.maintain()
    assert _kept_bytes(table) == 0


def _kept_bytes(table: MemoryTable) -> int:
    kept = table.format()
    assert isinstance(kept, decoded_columns.DecodedColumns)
    return sum(column.nbytes for columns in kept._known.values() for column in columns.by_field.values())


@settings(deadline=None, max_examples=cases(60))
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 99), st.booleans()), max_size=60),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
def test_answers_are_those_of_the_format_whatever_was_decoded_before(
    events: list[tuple[int, int, bool]], limits: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "PAGE_ROWS", 4)
        table = open_table()
        for at, (key, value, gone) in enumerate(events):
            upsert(table, record(f"k{key}", value, gone=gone))
            if at % 9 == 0:
                table.maintain()
                decode(table, limit=limits[at % len(limits)])
        settled(table)
        for limit in limits:
            assert [row["v"] for row in decode(table, limit=limit)] == _values(events)


def _values(events: list[tuple[int, int, bool]]) -> list[int]:
    held: dict[str, int] = {}
    for key, value, gone in events:
        held.pop(f"k{key}", None)
        if not gone:
            held[f"k{key}"] = value
    return [held[key] for key in sorted(held)]
