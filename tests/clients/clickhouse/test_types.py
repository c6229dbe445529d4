from __future__ import annotations

from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from hypothesis import given
from hypothesis import strategies as st

from gauss.clients.clickhouse.quote import literal
from gauss.clients.clickhouse.types import canonical, parse_type, render_type
from gauss.contracts.format import FieldType
from gauss.model.errors import ConfigError

RENDERED: list[tuple[str, dict[str, Any], str]] = [
    # every row of the specification's table
    ("Decimal64", {"scale": 8}, "Decimal64(8)"),
    ("String", {}, "String"),
    ("DateTime64", {"precision": 3}, "DateTime64(3)"),
    ("LowCardinality", {"inner": {"name": "String"}}, "LowCardinality(String)"),
    ("Array", {"element": {"name": "Int64"}}, "Array(Int64)"),
    # and more
    ("Array", {"element": "Int64"}, "Array(Int64)"),
    ("Nullable", {"inner": {"name": "Float64", "attrs": {}}}, "Nullable(Float64)"),
    (
        "LowCardinality",
        {"inner": {"name": "Nullable", "attrs": {"inner": "String"}}},
        "LowCardinality(Nullable(String))",
    ),
    ("Map", {"key": "String", "value": {"name": "Array", "attrs": {"element": "Int8"}}}, "Map(String, Array(Int8))"),
    ("Tuple", {"elements": ["Int8", "String"]}, "Tuple(Int8, String)"),
    (
        "Tuple",
        {
            "elements": [
                {"name": "a b", "type": "Int8"},
                {"name": "c", "type": {"name": "Enum8", "attrs": {"values": ["x"]}}},
            ]
        },
        "Tuple(`a b` Int8, `c` Enum8('x'))",
    ),
    ("Decimal", {"precision": 38, "scale": 10}, "Decimal(38, 10)"),
    ("Decimal32", {"scale": 2}, "Decimal32(2)"),
    ("Decimal128", {"scale": 20}, "Decimal128(20)"),
    ("Decimal256", {"scale": 40}, "Decimal256(40)"),
    ("DateTime64", {"precision": 6, "timezone": "Europe/Moscow"}, "DateTime64(6, 'Europe/Moscow')"),
    ("DateTime64", {}, "DateTime64"),
    ("DateTime", {"timezone": "UTC"}, "DateTime('UTC')"),
    ("FixedString", {"length": 16}, "FixedString(16)"),
    ("Enum8", {"values": {"a": 1, "b'c": -2}}, "Enum8('a' = 1, 'b\\'c' = -2)"),
    ("Enum", {"values": ["a", "b"]}, "Enum('a', 'b')"),
    ("Variant", {"types": ["Int8", "String"]}, "Variant(Int8, String)"),
    ("AggregateFunction", {"args": "sum, Int64"}, "AggregateFunction(sum, Int64)"),
    ("JSON", {"args": "max_dynamic_paths=8"}, "JSON(max_dynamic_paths=8)"),
    *((f"{sign}Int{bits}", {}, f"{sign}Int{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64, 128, 256)),
    *((name, {}, name) for name in ("Float32", "Float64", "Bool", "Date", "Date32", "UUID", "IPv4", "IPv6", "JSON")),
]


@pytest.mark.parametrize(("name", "attrs", "text"), RENDERED)
def test_type_renders_as_ddl(name: str, attrs: dict[str, Any], text: str) -> None:
    assert render_type(FieldType(name, attrs)) == text


@pytest.mark.parametrize(("name", "attrs", "text"), RENDERED)
def test_clickhouse_accepts_a_rendered_type_and_shows_the_same_one(
    client: Client, name: str, attrs: dict[str, Any], text: str
) -> None:
    definition = literal(f"x {text}")
    column, shown = client.query(f"DESCRIBE TABLE null({definition})").result_rows[0][:2]
    assert column == "x"
    assert canonical(parse_type(shown)) == canonical(FieldType(name, attrs))


simple = st.sampled_from(["Int8", "UInt64", "String", "Float32", "Bool", "UUID", "Date32", "IPv6"]).map(FieldType)
labels = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)


def compound(inner: st.SearchStrategy[FieldType]) -> st.SearchStrategy[FieldType]:
    return st.one_of(
        inner.map(lambda found: FieldType("Array", {"element": found})),
        inner.map(lambda found: FieldType("Nullable", {"inner": found})),
        st.builds(lambda key, value: FieldType("Map", {"key": key, "value": value}), simple, inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda found: FieldType("Tuple", {"elements": found})),
        st.lists(st.tuples(labels, inner), min_size=1, max_size=3).map(
            lambda found: FieldType("Tuple", {"elements": [{"name": name, "type": kind} for name, kind in found]})
        ),
    )


leaves = st.one_of(
    simple,
    st.builds(
        lambda p, s: FieldType("Decimal", {"precision": p, "scale": min(p, s)}), st.integers(1, 76), st.integers(0, 76)
    ),
    st.integers(0, 9).map(lambda p: FieldType("DateTime64", {"precision": p})),
    st.dictionaries(labels, st.integers(-128, 127), min_size=1, max_size=3).map(
        lambda found: FieldType("Enum8", {"values": found})
    ),
)


@given(st.recursive(leaves, compound, max_leaves=6))
def test_rendered_type_parses_to_the_same_type(field_type: FieldType) -> None:
    assert parse_type(render_type(field_type)) == field_type


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("String) ENGINE = Null; --", {}),
        ("String", {"length": 5}),
        ("Array", {}),
        ("Map", {"key": "String"}),
        ("Decimal64", {"scale": "8"}),
        ("FixedString", {}),
        ("Enum8", {"values": {}}),
        ("Tuple", {}),
        ("", {}),
    ],
)
def test_invalid_type_is_refused(name: str, attrs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        render_type(FieldType(name, attrs))
