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


def test_a_selection_keeps_rows_and_columns_as_they_are() -> None:
    transform = ProgramTransform("select(.id > 2)", SCHEMA)
    assert transform.schema.equals(SCHEMA, check_metadata=True)
    assert transform(ROWS).equals(ROWS.slice(3))


def test_copies_stay_exact_and_computed_columns_follow() -> None:
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


def test_a_change_stays_a_change() -> None:
    rows = ROWS.append_column("_op", pa.array(["insert", "delete", "update", "insert", "delete"]))
    made = ProgramTransform("select(.id > 0) | {id}", rows.schema)(rows)
    assert made.schema.names == ["id", "_op"] and made.column("_op").to_pylist() == [
        "delete",
        "update",
        "insert",
        "delete",
    ]


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("{x: .nope}", 'no field "nope"'),
        ("select(.at > 5)", "opaque"),
        ("{", "transform: "),
        ("range(1, 5)", "transform: "),
    ],
)
def test_a_program_that_does_not_fit_is_a_config_error_with_its_place(program: str, found: str) -> None:
    with pytest.raises(ConnectorError, match="transform: ") as raised:
        ProgramTransform(program, SCHEMA)
    assert found in raised.value.message and raised.value.category is ErrorCategory.CONFIG
