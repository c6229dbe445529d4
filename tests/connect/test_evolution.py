"""Each policy of schema evolution, and how rows are made to fit the table."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.connect.evolution import Change, SchemaPlan, plan_schema
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.stream import (
    OPERATION,
    ColumnPolicy,
    NullabilityPolicy,
    SchemaEvolutionPolicy,
    TypeChangePolicy,
)

ID = pa.field("id", pa.int64(), nullable=False)
NAME = pa.field("name", pa.string())
TABLE = pa.schema([ID, NAME])


def plan(source: list[pa.Field], live: pa.Schema | None = TABLE, **policy: Any) -> SchemaPlan:
    schema = pa.schema(source)
    return plan_schema(schema, schema, live, SchemaEvolutionPolicy(**policy))


def kinds(made: SchemaPlan) -> dict[str, Change]:
    return {each.column: each.change for each in made.changes}


def test_new_table_gets_the_columns_of_its_stream() -> None:
    assert plan([ID, NAME], None) == SchemaPlan(TABLE)
    assert plan([ID, NAME]) == SchemaPlan(TABLE)


def test_stream_without_columns_gets_no_table_but_may_have_no_rows_for_an_existing_one() -> None:
    with pytest.raises(ConnectorError, match="the stream has no columns"):
        plan([], None)
    assert kinds(plan([])) == {"id": Change.REMOVED, "name": Change.REMOVED}


def test_new_column_is_added_ignored_or_refused() -> None:
    source = [ID, NAME, pa.field("age", pa.int32(), nullable=False)]
    added = plan(source, new_column=ColumnPolicy.ADD)
    assert kinds(added) == {"age": Change.ADD}
    assert added.table.field("age").nullable  # rows from before have none
    ignored = plan(source, new_column=ColumnPolicy.IGNORE)
    assert kinds(ignored) == {"age": Change.IGNORE} and ignored.table == TABLE
    with pytest.raises(ConnectorError, match="age is new"):
        plan(source, new_column=ColumnPolicy.FAIL)


def test_removed_column_stays_null_or_is_refused() -> None:
    made = plan([ID], removed_column=ColumnPolicy.IGNORE)
    assert kinds(made) == {"name": Change.REMOVED} and made.table == pa.schema([ID])
    with pytest.raises(ConnectorError, match="name is gone"):
        plan([ID], removed_column=ColumnPolicy.FAIL)


def test_another_type_is_converted_nulled_or_refused() -> None:
    source = [ID, pa.field("name", pa.int32())]
    coerced = plan(source, type_change=TypeChangePolicy.COERCE)
    assert kinds(coerced) == {"name": Change.COERCE} and coerced.table == TABLE
    batch = pa.record_batch({"id": [1, 2], "name": pa.array([7, None], pa.int32())})
    assert coerced.fit(batch)[0].to_pydict() == {"id": [1, 2], "name": ["7", None]}
    nulled = plan(source, type_change=TypeChangePolicy.NULL)
    assert nulled.fit(batch)[0].to_pydict() == {"id": [1, 2], "name": [None, None]}
    with pytest.raises(ConnectorError, match="name is int32, in the table string"):
        plan(source, type_change=TypeChangePolicy.FAIL)


def test_column_that_may_be_null_now_is_relaxed_or_refused() -> None:
    source = [ID.with_nullable(True), NAME]
    assert kinds(plan(source, nullability_change=NullabilityPolicy.ALLOW)) == {"id": Change.NULLABLE}
    with pytest.raises(ConnectorError, match="id may be null"):
        plan(source, nullability_change=NullabilityPolicy.FAIL)
    assert plan([ID, NAME.with_nullable(False)]).changes == []  # stricter than the table: nothing to do


def test_values_set_to_null_need_a_nullable_column() -> None:
    source = [pa.field("id", pa.string(), nullable=False), NAME]
    assert kinds(plan(source, type_change=TypeChangePolicy.NULL)) == {"id": Change.NULLABLE}


def test_all_refused_differences_are_reported_together() -> None:
    strict = {
        "new_column": ColumnPolicy.FAIL,
        "removed_column": ColumnPolicy.FAIL,
        "type_change": TypeChangePolicy.FAIL,
    }
    with pytest.raises(ConnectorError) as caught:
        plan([pa.field("id", pa.string()), pa.field("age", pa.int32())], **strict)
    assert caught.value.category is ErrorCategory.SCHEMA
    for part in ("id is string", "age is new", "name is gone"):
        assert part in caught.value.message


def test_types_are_compared_as_the_destination_stores_them() -> None:
    source = pa.schema([pa.field("n", pa.uint64())])
    landed = pa.schema([pa.field("n", pa.decimal128(20, 0))])
    assert plan_schema(source, landed, landed, SchemaEvolutionPolicy()).changes == []


def test_rows_that_do_not_fit_are_reported_by_number_and_the_others_pass() -> None:
    made = plan([pa.field("id", pa.string(), nullable=False), NAME], type_change=TypeChangePolicy.COERCE)
    batch = pa.record_batch({"id": ["1", "x", "3", "4.5", None], "name": list("abcde")})
    fitting, bad = made.fit(batch)
    assert fitting.to_pydict() == {"id": [1, 3], "name": ["a", "c"]}
    assert [(row, error.code) for row, error in bad] == [(1, "NO_CONVERSION"), (3, "NO_CONVERSION"), (4, "NULL")]
    assert "'x' does not fit int64" in bad[0][1].message and all(not error.retryable for _, error in bad)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1e300, math.inf, 1.5, None], pa.float64()),
        ([Decimal(10) ** 60, Decimal(2), Decimal(1), None], pa.decimal256(76, 0)),
        (["1e300", "-Infinity", "2", None], pa.string()),
    ],
)
def test_number_too_large_for_the_column_is_rejected_not_infinite(values: list[Any], kind: pa.DataType) -> None:
    made = plan([ID, pa.field("x", kind)], pa.schema([ID, pa.field("x", pa.float32())]))
    fitting, bad = made.fit(pa.record_batch({"id": [1, 2, 3, 4], "x": pa.array(values, kind)}))
    assert [row for row, _ in bad] == [0] and fitting.column("id").to_pylist() == [2, 3, 4]
    needed = SchemaPlan(pa.schema([ID, pa.field("x", pa.float32(), nullable=False)]), made.changes)
    _, bad = needed.fit(pa.record_batch({"id": [1, 2, 3, 4], "x": pa.array(values, kind)}))
    assert [(row, error.code) for row, error in bad] == [(0, "NO_CONVERSION"), (3, "NULL")]


def test_list_that_does_not_fit_is_rejected_alone() -> None:
    table = pa.schema([pa.field("numbers", pa.list_(pa.int8()))])
    made = plan([pa.field("numbers", pa.list_(pa.int64()))], table, type_change=TypeChangePolicy.COERCE)
    batch = pa.record_batch({"numbers": [[1], [300], [2, 3], None]})
    rows, misfits = made.fit(batch)
    assert rows.to_pydict() == {"numbers": [[1], [2, 3], None]} and [each[0] for each in misfits] == [1]


def test_value_that_does_not_fit_and_has_no_python_type_is_rejected() -> None:
    given = pa.array([2**60, 5], pa.timestamp("us"))
    made = plan([ID, pa.field("at", given.type)], pa.schema([ID, pa.field("at", pa.timestamp("ns"))]))
    _, [(row, error)] = made.fit(pa.record_batch({"id": [1, 2], "at": given}))
    assert row == 0 and "does not fit" in error.message


def test_types_without_a_conversion_are_a_schema_error() -> None:
    made = plan([pa.field("id", pa.list_(pa.int64()), nullable=False), NAME], type_change=TypeChangePolicy.COERCE)
    with pytest.raises(ConnectorError, match="can't be converted") as caught:
        made.fit(pa.record_batch({"id": [[1]], "name": ["a"]}))
    assert caught.value.category is ErrorCategory.SCHEMA


def test_operation_of_a_change_is_kept_and_a_delete_needs_only_key_values() -> None:
    strict = SchemaPlan(pa.schema([ID, NAME.with_nullable(False)]))
    batch = pa.record_batch({"id": [1, 2, 3], "name": ["a", None, None], OPERATION: ["insert", "delete", "update"]})
    fitting, bad = strict.fit(batch)
    assert fitting.to_pydict() == {"id": [1, 2], "name": ["a", None], OPERATION: ["insert", "delete"]}
    assert [(row, error.code) for row, error in bad] == [(2, "NULL")]
    stored = SchemaPlan(pa.schema([ID, NAME, pa.field(OPERATION, pa.string(), nullable=False)]))
    assert stored.fit(batch)[0].schema.names == ["id", "name", OPERATION]


@given(st.lists(st.one_of(st.none(), st.text(max_size=4), st.integers(-(2**63), 2**63 - 1).map(str)), min_size=1))
def test_every_row_is_kept_or_reported(values: list[str | None]) -> None:
    made = plan([pa.field("id", pa.string()), NAME], type_change=TypeChangePolicy.COERCE)
    batch = pa.record_batch({"id": pa.array(values, pa.string()), "name": [str(n) for n in range(len(values))]})
    fitting, bad = made.fit(batch)
    rows = {row for row, _ in bad}
    assert [int(name) for name in fitting.column("name").to_pylist()] == [
        n for n in range(len(values)) if n not in rows
    ]
    for kept, name in zip(fitting.column("id").to_pylist(), fitting.column("name").to_pylist(), strict=True):
        given = values[int(name)]
        assert (kept is None) == (given is None)
        assert given is None or kept == int(given)


@pytest.mark.parametrize("wrap", [lambda kind: kind, pa.list_], ids=["struct", "list"])
def test_a_value_in_a_field_that_the_table_lacks_is_a_misfit(wrap: Any) -> None:
    small = wrap(pa.struct([("x", pa.int64())]))
    large = wrap(pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    made = plan([pa.field("at", large)], pa.schema([("at", small)]))
    objects: list[Any] = [{"x": 1}, {"x": 1, "y": 2}, None]
    values = objects if pa.types.is_struct(large) else [[each] for each in objects]
    fitting, bad = made.fit(pa.record_batch({"at": pa.array(values, large)}))
    assert [row for row, _ in bad] == [1] and "'y': 2" in bad[0][1].message
    assert fitting.num_rows == 2


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(10, 2)])
def test_a_text_with_a_leading_zero_does_not_become_a_number(kind: pa.DataType) -> None:
    made = plan([pa.field("zip", pa.string())], pa.schema([("zip", kind)]))
    fitting, bad = made.fit(pa.record_batch({"zip": ["7", "007", "0", "-07", None]}))
    assert [row for row, _ in bad] == [1, 3] and fitting.num_rows == 3
