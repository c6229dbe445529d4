from __future__ import annotations

import pytest

from gauss.clients.clickhouse.type_map import column_type as clickhouse_type
from gauss.clients.postgres.type_map import column_type as postgres_type
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.target import TargetSchema
from gauss.mapping.defaults import column_name, default_target
from gauss.model.errors import ConfigError


def test_every_field_becomes_a_column_after_the_records_time() -> None:
    source = SourceSchema(
        (
            SourceField("$.order.id", FieldType("int64")),
            SourceField("$.items[*].sku", FieldType("array", {"element": "string"})),
        )
    )
    made = default_target(source, TargetSchema((), {"table": "t"}), clickhouse_type, "Int64")
    assert [(f.name, f.field_type.name, f.source) for f in made.fields] == [
        ("ts_ms", "Int64", "ts_ms"),
        ("order_id", "Nullable", "$.order.id"),
        ("items_sku", "Array", "$.items[*].sku"),
    ]
    assert made.attrs == {"table": "t"}


def test_columns_that_clauses_of_the_table_name_take_no_nulls() -> None:
    source = SourceSchema(tuple(SourceField(name, FieldType("int64")) for name in ("ts_ms", "id", "day", "price")))
    attrs = {"table": "price", "order_by": "(id, ts_ms)", "partition_by": "toYYYYMM(toDate(day))"}
    made = default_target(source, TargetSchema((), attrs), clickhouse_type, "Int64")
    assert [(f.name, f.field_type.name) for f in made.fields] == [
        ("ts_ms", "Int64"),
        ("id", "Int64"),
        ("day", "Int64"),
        ("price", "Nullable"),
    ]


def test_two_fields_of_one_name_are_refused() -> None:
    source = SourceSchema((SourceField("$.a.b", FieldType("int64")), SourceField("a_b", FieldType("int64"))))
    with pytest.raises(ConfigError, match='two fields would become the column "a_b"'):
        default_target(source, TargetSchema(), postgres_type, "BIGINT")


@pytest.mark.parametrize(
    ("field", "column"),
    [("symbol", "symbol"), ("$.a.b", "a_b"), ("$.a[*].b", "a_b"), ("$.[*]", "field"), ("a b-c", "a_b_c")],
)
def test_a_path_becomes_a_plain_name(field: str, column: str) -> None:
    assert column_name(field) == column
