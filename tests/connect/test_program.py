"""Programs of the scan language between a source and a destination."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from gauss.connect.program import ProgramTransform
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string(), metadata={"pg": "citext"}),
        pa.field("worth", pa.decimal128(20, 4)),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)
AT = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
ROWS = pa.RecordBatch.from_pylist(
    [{"id": n, "name": f"n{n}" if n else None, "worth": Decimal("1.2345") * n, "at": AT} for n in range(5)],
    schema=SCHEMA,
)


def test_selection_keeps_rows_and_columns_unchanged() -> None:
    transform = ProgramTransform("select(.id > 2)", SCHEMA)
    assert transform.schema.equals(SCHEMA, check_metadata=True)
    assert transform(ROWS).equals(ROWS.slice(3))


def test_copied_columns_are_exact_and_computed_columns_are_added() -> None:
    transform = ProgramTransform("{key: .id, worth, at, twice: .worth * 2, up: (.name | ascii_upcase)}", SCHEMA)
    made = transform(ROWS)
    assert made.schema.equals(transform.schema)
    assert made.column("worth").equals(ROWS.column("worth")) and made.column("at").equals(ROWS.column("at"))
    assert not made.schema.field("key").nullable
    assert made.column("up").to_pylist() == [None, "N1", "N2", "N3", "N4"]
    assert made.column("twice").to_pylist()[2] == pytest.approx(4.938)


def test_metadata_of_copied_columns_is_kept() -> None:
    [field] = ProgramTransform("{label: .name}", SCHEMA).schema
    assert field.name == "label" and field.metadata == {b"pg": b"citext"}


def test_operation_column_is_kept() -> None:
    rows = ROWS.append_column("_op", pa.array(["insert", "delete", "update", "insert", "delete"]))
    made = ProgramTransform("select(.id > 0) | {id}", rows.schema)(rows)
    assert made.schema.names == ["id", "_op"] and made.column("_op").to_pylist() == [
        "delete",
        "update",
        "insert",
        "delete",
    ]


CHANGES = pa.RecordBatch.from_pylist(
    [
        {"id": 1, "name": "in", "_op": "insert"},
        {"id": 2, "name": "out", "_op": "insert"},
        {"id": 1, "name": "out", "_op": "update"},
        {"id": 2, "name": "in", "_op": "update"},
        {"id": 3, "name": None, "_op": "delete"},
    ],
    schema=pa.schema([("id", pa.int64()), ("name", pa.string()), ("_op", pa.string())]),
)


@pytest.mark.parametrize("program", ['select(.name == "in")', 'select(.name == "in") | {id, label: .name}'])
def test_row_that_leaves_the_selection_becomes_a_delete(program: str) -> None:
    made = ProgramTransform(program, CHANGES.schema.remove(2))(CHANGES)
    found = list(zip(made.column("id").to_pylist(), made.column("_op").to_pylist(), strict=True))
    assert found == [(1, "insert"), (1, "delete"), (2, "update"), (3, "delete")]


def test_appended_changes_are_those_of_selected_rows_and_deletes() -> None:
    made = ProgramTransform('select(.name == "in")', CHANGES.schema)(CHANGES)
    assert made.equals(CHANGES.take(pa.array([0, 3, 4])))


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("{x: .nope}", 'no field "nope"'),
        ("select(.at > 5)", "opaque"),
        ("{", "transform: "),
        ("range(1, 5)", "transform: "),
    ],
)
def test_invalid_program_is_a_config_error_with_its_position(program: str, found: str) -> None:
    with pytest.raises(ConnectorError, match="transform: ") as raised:
        ProgramTransform(program, SCHEMA)
    assert found in raised.value.message and raised.value.category is ErrorCategory.CONFIG
