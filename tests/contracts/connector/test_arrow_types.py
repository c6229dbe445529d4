from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.connector.arrow_types import arrow_schema, arrow_type, column_schemas, type_name
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory

PLAIN = [
    pa.null(), pa.bool_(), pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float64(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(16), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("us"), pa.timestamp("ms", "UTC"),
    pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("s", "+02:00"), pa.timestamp("us", "America/Port-au-Prince"),
    pa.duration("us"), pa.decimal128(38, 10), pa.decimal128(5, -2), pa.decimal256(76, 0), pa.month_day_nano_interval(),
]  # fmt: skip
NESTED = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        st.tuples(st.sampled_from([pa.string(), pa.int32()]), inner).map(lambda pair: pa.map_(*pair)),
        st.dictionaries(st.text(max_size=5), inner, min_size=1, max_size=3).map(
            lambda fields: pa.struct([pa.field(name, kind) for name, kind in fields.items()])
        ),
    ),
    max_leaves=6,
)


@given(NESTED)
def test_type_name_parses_to_the_same_type(kind: pa.DataType) -> None:
    assert arrow_type(type_name(kind)) == kind


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.int64(), "Int64"),
        (pa.string(), "Utf8"),
        (pa.timestamp("us", "UTC"), "Timestamp(Microsecond, UTC)"),
        (pa.timestamp("ms"), "Timestamp(Millisecond)"),
        (pa.decimal128(10, 2), "Decimal128(10, 2)"),
        (pa.list_(pa.string()), "List(Utf8)"),
        (pa.struct([("a", pa.int64()), ("b c", pa.string())]), 'Struct(a: Int64, "b c": Utf8)'),
        (pa.dictionary(pa.int32(), pa.string()), "Dictionary(Int32, Utf8)"),
    ],
)
def test_type_names_equal_those_of_the_rust_arrow_crate(kind: pa.DataType, name: str) -> None:
    assert type_name(kind) == name
    assert arrow_type(name) == kind


@pytest.mark.parametrize(
    "name",
    [
        "", "int64", "Int65", "Timestamp", "Timestamp()", "Timestamp(Hour)", "Time32(Nanosecond)", "Decimal128(39, 0)",
        "Decimal128(5)", "List(Int64", "List(Int64))", "Map(Utf8)", "Struct()", "Struct(a)", "Struct(a: )",
        "Int64 Int64", "List()", "FixedSizeBinary(-1)", "(", "Interval(Year)", 'Struct("a: Int64)', "List(" * 50,
    ],
)  # fmt: skip
def test_invalid_type_name_is_a_schema_error(name: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        arrow_type(name)
    assert caught.value.category is ErrorCategory.SCHEMA


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_is_a_connector_error(name: str) -> None:
    try:
        assert arrow_type(name) is not None
    except ConnectorError:
        pass


def test_schema_converts_to_columns_and_back() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("tags", pa.list_(pa.string()))])
    assert arrow_schema(column_schemas(schema)) == schema
