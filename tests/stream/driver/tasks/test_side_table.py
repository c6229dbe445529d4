"""The lookup table of a task: keys are compared by bytes, the newest row of each key counts, and changes are
applied."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.stream.driver.planning.refs import FieldRef, FormatRef
from gauss.stream.driver.tasks.key_index import KeyIndex
from gauss.stream.driver.tasks.side_table import SideTable
from helpers.cases import cases
from helpers.side_rows import events

JSON = FormatRef("json").build()


def found(table: SideTable, *keys: str | None) -> list[dict[str, Any] | None]:
    hits, rows = table.find(pa.array(keys, pa.string()))
    return [row if hit else None for hit, row in zip(hits.to_pylist(), rows.to_pylist(), strict=True)]


@settings(max_examples=cases(30), deadline=None)
@given(st.lists(st.lists(st.text(max_size=4), max_size=30), max_size=6))
def test_numbers_of_keys_are_those_of_a_dict(batches: list[list[str]]) -> None:
    index, known = KeyIndex(), dict[str, int]()
    for batch in batches:
        numbers = [known.setdefault(key, len(known)) for key in batch]
        assert index.put(pa.array(batch, pa.string())).tolist() == numbers
    asked = [*known, "\0", "no", None]
    assert index.find(pa.array(asked, pa.string())).tolist() == [
        known.get(key or "", -1) if key is not None else -1 for key in asked
    ]
    assert index.keys().to_pylist() == list(known)


def test_many_keys_are_found_after_the_slots_have_grown() -> None:
    index = KeyIndex()
    keys = pa.array([f"key {number}" for number in range(20_000)])
    index.put(keys.slice(0, 100))
    index.put(keys)
    assert index.find(keys.slice(15_000)).tolist() == list(range(15_000, 20_000))


def test_changes_leave_the_newest_row_of_each_key() -> None:
    table = SideTable(JSON, pa.schema([FieldRef("v", "int64").arrow()]))
    table.change(events(("a", {"v": 1}), ("b", {"v": 2}), ("a", {"v": 3})))
    assert found(table, "a", "b", "c", None) == [{"v": 3}, {"v": 2}, None, None]
    table.change(events(("b", None), ("c", {"v": 4}), ("c", None), ("c", {})))
    assert found(table, "a", "b", "c") == [{"v": 3}, None, {"v": None}]


def test_row_that_can_not_be_decoded_counts_as_missing() -> None:
    table = SideTable(JSON, pa.schema([FieldRef("v", "int64").arrow()]))
    table.change(events(("a", {"v": 1}), ("b", {"v": 1})))
    table.change(events(("a", {"v": "text"})))
    assert found(table, "a", "b") == [None, {"v": 1}]


def test_without_named_fields_rows_give_all_they_have_as_json() -> None:
    table = SideTable(JSON, None)
    assert found(table, "a", None) == [None, None]
    table.change(events(("a", {"k": "a", "x": 1.50})))
    table.change(events(("b", {"k": "b", "y": [1]})))
    assert found(table, "a", "b") == [{"k": '"a"', "x": "1.5", "y": None}, {"k": '"b"', "x": None, "y": "[1]"}]


def test_rows_stay_right_when_old_ones_are_thrown_away() -> None:
    table = SideTable(JSON, pa.schema([FieldRef("v", "int64").arrow()]))
    for turn in range(3):
        table.change(events(*((f"k{number}", {"v": turn * 10_000 + number}) for number in range(5_000))))
        table.change(events(("k7", None)))
    assert found(table, "k0", "k7", "k4999") == [{"v": 20_000}, None, {"v": 24_999}]
