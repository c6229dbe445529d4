"""Mapping of field types to column types of each system, and of its columns to general types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gauss.clients.clickhouse.type_map import column_type as clickhouse_type
from gauss.clients.clickhouse.type_map import general_type
from gauss.clients.postgres.type_map import column_type as postgres_type
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import GENERAL, FieldType
from gauss.contracts.target import field_type_dict


@pytest.mark.parametrize(
    ("source", "clickhouse", "postgres"),
    [
        (FieldType("decimal", {"precision": 18, "scale": 8}), "Decimal64", "NUMERIC"),
        (FieldType("decimal", {"precision": 40, "scale": 8}), "Decimal256", "NUMERIC"),
        (FieldType("uint64"), "UInt64", "NUMERIC"),
        (FieldType("varchar", {"length": 20}), "String", "VARCHAR"),
        (FieldType("timestamp", {"precision": 3}), "DateTime64", "TIMESTAMP"),
        (FieldType("bool"), "Bool", "BOOLEAN"),
        (FieldType("uuid"), "UUID", "UUID"),
    ],
)
def test_a_type_has_its_column_type_in_each_table(source: FieldType, clickhouse: str, postgres: str) -> None:
    made = clickhouse_type(source)
    assert made is not None
    assert made.attrs["inner"].name == clickhouse
    there = postgres_type(source)
    assert there is not None
    assert there.name == postgres


@pytest.mark.parametrize(
    ("native", "general"),
    [
        (FieldType("Nullable", {"inner": "Int64"}), FieldType("int64")),
        (FieldType("LowCardinality", {"inner": {"name": "String"}}), FieldType("string")),
        (FieldType("Decimal64", {"scale": 4}), FieldType("decimal", {"precision": 18, "scale": 4})),
        (FieldType("DateTime64", {"precision": 9}), FieldType("timestamp", {"precision": 9})),
        (FieldType("String", {"utf8": False}), FieldType("bytes")),
        (FieldType("Array", {"element": "Int32"}), FieldType("array", {"element": {"name": "int32", "attrs": {}}})),
        (FieldType("Array", {"element": "Date"}), FieldType("json")),
        (FieldType("Map", {"key": "String", "value": "Int8"}), FieldType("json")),
        (FieldType("UInt256"), FieldType("string")),
        (FieldType("int64"), None),
    ],
)
def test_a_clickhouse_type_has_a_general_one(native: FieldType, general: FieldType | None) -> None:
    assert general_type(native) == general


def test_a_native_type_that_carries_its_general_one_is_used_like_it() -> None:
    native = FieldType("Nullable", {"inner": "Int64"})
    carried = FieldType(native.name, {**native.attrs, GENERAL: field_type_dict(FieldType("int64"))})
    assert carried.general == FieldType("int64") and carried.native == native
    assert arrow_type(carried) == pa.int64()
    postgres, clickhouse = postgres_type(carried), clickhouse_type(carried)
    assert postgres is not None and postgres.name == "BIGINT"
    assert clickhouse is not None and clickhouse.attrs["inner"].name == "Int64"


def test_a_type_without_a_general_one_is_its_own() -> None:
    plain = FieldType("decimal", {"precision": 18, "scale": 8})
    assert plain.general == plain == plain.native
