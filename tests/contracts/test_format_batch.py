"""A format with only the three required methods works by batch; columns keep their source type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_field, arrow_type, source_type, type_of
from gauss.contracts.format import BadRecord, FieldType, SourceField, SourceSchema
from gauss.contracts.format_batch import batched
from gauss.model.errors import ConfigError
from helpers.format_conformance import FormatCase, FormatConformance


class Pipes:
    """A third-party format: `name|number`."""

    def schema(self) -> SourceSchema:
        return SourceSchema((SourceField("name", FieldType("string")), SourceField("n", FieldType("int8"))))

    def decode(self, data: bytes) -> dict[str, Any]:
        name, _, number = data.decode().partition("|")
        if not name:
            raise BadRecord("no_name", "expected a name before the bar", "name")
        return {"name": name, "n": int(number)}

    def encode(self, row: dict[str, Any]) -> bytes:
        if not row["name"] or not -128 <= row["n"] < 128:
            raise ValueError("expected a name and a number of a byte")
        return f"{row['name']}|{row['n']}".encode()


class TestThirdParty(FormatConformance):
    case = FormatCase(
        make=lambda: batched(Pipes()),
        rows=st.fixed_dictionaries({"name": st.text("abc é", min_size=1), "n": st.integers(-128, 127)}),
        edges=[{"name": "a", "n": -128}, {"name": "é", "n": 127}],
        bad=[(b"", "no_name"), (b"a|", "undecodable"), (b"a|128", "wrong_type"), (b"\xff|1", "bad_utf8")],
        unfit=[{"name": "", "n": 1}, {"name": "a", "n": 128}],
    )


def test_a_format_of_three_methods_decodes_by_batch_with_a_verdict_per_record() -> None:
    format_ = batched(Pipes())
    fields = pa.schema([("name", pa.string()), ("n", pa.int8())])
    records = [b"a|1", b"|2", b"b|x", b"\xff|1", b"c|300", b"d|-4"]
    decoded = format_.decode_batch(pa.array(records, pa.binary()), fields)
    assert decoded.rows.to_pylist() == [{"name": "a", "n": 1}, {"name": "d", "n": -4}]
    assert decoded.good.tolist() == [0, 5]
    assert [(index, reason) for index, reason, _ in decoded.bad] == [
        *[(1, "no_name"), (2, "undecodable"), (3, "bad_utf8"), (4, "wrong_type")]
    ]
    assert decoded.bad[0][2] == "name: expected a name before the bar"
    assert format_.encode_batch(decoded.rows).to_pylist() == [b"a|1", b"d|-4"]


def test_a_format_with_batch_forms_is_left_as_it_is() -> None:
    once = batched(Pipes())
    assert batched(once) is once


def test_paths_are_looked_up_in_the_rows_of_any_format() -> None:
    class Nested(Pipes):
        def decode(self, data: bytes) -> dict[str, Any]:
            return {"o": {"id": len(data)}, "items": [{"sku": "a"}, {}]}

    fields = pa.schema([("$.o.id", pa.int64()), ("$.items[*].sku", pa.list_(pa.string()))])
    decoded = batched(Nested()).decode_batch(pa.array([b"xyz"]), fields)
    assert decoded.rows.to_pylist() == [{"$.o.id": 3, "$.items[*].sku": ["a", None]}]


@pytest.mark.parametrize(
    ("type_", "arrow"),
    [
        (FieldType("uint64"), pa.decimal128(20, 0)),
        (FieldType("int8"), pa.int8()),
        (FieldType("int8", {"bits": 64}), pa.int64()),
        (FieldType("string", {"utf8": False}), pa.binary()),
        (FieldType("decimal", {"precision": 38, "scale": 8}), pa.decimal128(38, 8)),
        (FieldType("decimal", {"precision": 40, "scale": 8}), pa.string()),
        (FieldType("numeric"), pa.string()),
        (FieldType("timestamp", {"precision": 3}), pa.timestamp("us", tz="UTC")),
        (FieldType("timestamp", {"precision": 9}), pa.int64()),
        (FieldType("tuple", {"fields": ["int64", "string"]}), pa.struct([("f0", pa.int64()), ("f1", pa.string())])),
        (FieldType("map", {"key": "string", "value": "int64"}), pa.map_(pa.string(), pa.int64())),
        (
            FieldType("map", {"key": "int32", "value": "string"}),
            pa.list_(pa.field("element", pa.struct([("key", pa.int32()), ("value", pa.string())]))),
        ),
        (FieldType("array", {"element": "int64"}), pa.list_(pa.field("element", pa.int64()))),
    ],
)
def test_each_type_has_its_form_on_spark_and_is_found_again_in_the_metadata(
    type_: FieldType, arrow: pa.DataType
) -> None:
    assert arrow_type(type_) == arrow
    assert source_type(arrow_field(SourceField("f", type_))) == type_


def test_a_column_without_metadata_tells_by_its_arrow_type() -> None:
    assert type_of(pa.timestamp("ns")) == FieldType("timestamp", {"precision": 9, "timezone": False})
    assert type_of(pa.uint64()) == FieldType("uint64")
    assert type_of(pa.dictionary(pa.int8(), pa.large_string())) == FieldType("string")


def test_a_type_that_spark_has_no_form_for_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        arrow_type(FieldType("point"))
    assert "decimal" in caught.value.hint
