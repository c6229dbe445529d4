from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema, arrow_type
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.table import TableKind
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping.columns import ColumnMap
from gauss.mapping.convert import CAST, convert_rows, find
from gauss.mapping.row import apply_mapping, row_of
from gauss.model.errors import ConfigError

SOURCE = SourceSchema(
    (
        SourceField("symbol", FieldType("string")),
        SourceField("bid", FieldType("decimal", {"precision": 18, "scale": 8})),
        SourceField("size", FieldType("int64")),
        SourceField("note", FieldType("string")),
    )
)
TARGET = TargetSchema(
    (
        TargetField("ts_ms", FieldType("int64"), "ts_ms"),
        TargetField("size", FieldType("int8"), "size"),
        TargetField("sym", FieldType("string"), "symbol"),
        TargetField("note", FieldType("string"), "note", {"default": "'none'"}),
        TargetField("made", FieldType("int64"), None, {"default": "now()"}),
    )
)
KIND = TableKind(lambda target, _: arrow_type(target), lambda field: field.name == "sym")


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = arrow_schema(SOURCE.fields)
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def times(count: int) -> pa.Array:
    return pa.array(range(100, 100 + count), pa.int64())


def test_columns_are_chosen_renamed_ordered_and_converted() -> None:
    groups, bad = ColumnMap(SOURCE, TARGET, KIND).run(
        batch([{"symbol": "A", "size": 1, "bid": Decimal("1.5"), "note": "x"}]), times(1)
    )
    assert not bad
    assert [group.columns.to_pylist() for group in groups] == [[{"ts_ms": 100, "size": 1, "sym": "A", "note": "x"}]]


def test_only_what_a_column_reads_is_decoded() -> None:
    assert [field.name for field in ColumnMap(SOURCE, TARGET, KIND).fields] == ["ts_ms", "size", "symbol", "note"]


def test_a_value_that_does_not_fit_costs_its_row_alone() -> None:
    rows = [{"symbol": "A", "size": size, "note": "x"} for size in (1, 400, 3, -129, 5)]
    groups, bad = ColumnMap(SOURCE, TARGET, KIND).run(batch(rows), times(5))
    assert [(entry.row, entry.column, entry.reason) for entry in bad] == [
        (1, "size", "conversion"),
        (3, "size", "conversion"),
    ]
    assert "400" in bad[0].detail
    assert groups[0].rows.tolist() == [0, 2, 4]
    assert groups[0].columns.column("ts_ms").to_pylist() == [100, 102, 104]


def test_null_takes_the_default_or_is_refused_or_passes() -> None:
    rows: list[dict[str, Any]] = [
        {"symbol": "A", "size": 1, "note": "x"},
        {"symbol": None, "size": 2},
        {"symbol": "C", "note": "z"},
    ]
    groups, bad = ColumnMap(SOURCE, TARGET, KIND).run(batch(rows), times(3))
    assert [(entry.row, entry.column, entry.reason) for entry in bad] == [(2, "size", "null")]
    assert [(group.rows.tolist(), group.columns.schema.names) for group in groups] == [
        ([0], ["ts_ms", "size", "sym", "note"]),
        ([1], ["ts_ms", "size", "sym"]),
    ]
    assert groups[1].columns.column("sym").to_pylist() == [None]


def test_types_that_can_never_meet_are_refused_at_once() -> None:
    target = TargetSchema((TargetField("a", FieldType("date"), "bid"),))
    with pytest.raises(ConfigError, match="a decimal can't become a date"):
        ColumnMap(SOURCE, target, KIND)


@given(st.lists(st.integers(-300, 300) | st.none(), max_size=60))
def test_halving_finds_exactly_the_values_that_do_not_fit(values: list[int | None]) -> None:
    made, failed = convert_rows(pa.array(values, pa.int64()), CAST, pa.int8())
    wrong = [index for index, value in enumerate(values) if value is not None and not -128 <= value <= 127]
    assert [entry.row for entry in failed] == wrong
    assert made.to_pylist() == [None if index in wrong else value for index, value in enumerate(values)]


def test_the_row_and_the_batch_give_the_same_columns() -> None:
    values = {"symbol": "A", "size": 7, "bid": Decimal("1.00000000"), "note": "x"}
    row = apply_mapping(row_of(values, SOURCE, 100), TARGET)
    groups, _ = ColumnMap(SOURCE, TARGET, KIND).run(batch([values]), times(1))
    assert {field.name: field.value for field in row.fields} == groups[0].columns.to_pylist()[0]
    assert [field.source_type.name for field in row.fields] == ["int64", "int64", "string", "string"]


def test_a_format_with_a_field_ts_ms_gives_that_one_and_the_record_its_own_apart() -> None:
    source = SourceSchema((SourceField("ts_ms", FieldType("int64")),))
    target = TargetSchema(
        (TargetField("a", FieldType("int64"), "ts_ms"), TargetField("b", FieldType("int64"), "@ts_ms"))
    )
    rows = pa.RecordBatch.from_pydict({"ts_ms": pa.array([5], pa.int64())})
    groups, _ = ColumnMap(source, target, KIND).run(rows, times(1))
    assert groups[0].columns.to_pylist() == [{"a": 5, "b": 100}]
    row = apply_mapping(row_of({"ts_ms": 5}, source, 100), target)
    assert [field.value for field in row.fields] == [5, 100]


def test_numbers_that_are_times_are_cut_to_the_wanted_precision() -> None:
    wanted = pa.timestamp("s", tz="UTC")
    made = find(FieldType("int64"), FieldType("DateTime"), pa.int64(), wanted, {}).run(pa.array([1_999, -1]), wanted)
    assert made.cast(pa.int64()).to_pylist() == [1, -1]
    fine = find(FieldType("timestamp", {"precision": 9}), FieldType("DateTime64"), pa.int64(), wanted, {})
    assert fine.run(pa.array([1_999_999_999]), wanted).cast(pa.int64()).to_pylist() == [1]
