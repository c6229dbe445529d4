"""Columns inferred from samples: types that keep every digit, nulls, names that do not collide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gauss.fleet.mapping.column import MappingColumn
from gauss.fleet.mapping.samples import propose_from
from gauss.model.errors import ConfigError


def columns(*records: Any, texts: tuple[str, ...] = ()) -> dict[str, MappingColumn]:
    data = [json.dumps(record).encode() for record in records] + [text.encode() for text in texts]
    return {each.field_path: each for each in propose_from(data, "json", {}).mapping.columns}


@pytest.mark.parametrize(
    ("values", "type_", "encoding"),
    [
        ("true, false", "Bool", None),
        ("1, -1", "Int64", None),
        ("9223372036854775807", "Int64", None),
        ("9223372036854775808", "UInt64", None),
        ("18446744073709551615, 0", "UInt64", None),
        ("18446744073709551615, -1", "Decimal(38, 0)", None),
        ("18446744073709551616", "Decimal(38, 0)", None),
        ("1" + "0" * 40, "String", "json"),
        ("0.1, 2", "Float64", None),
        ("0.12345678901234567890", "Decimal(38, 20)", None),
        ("9007199254740993, 0.5", "Decimal(38, 1)", None),
        ("1e400", "Float64", None),
        ('"12.50", "7.5"', "Decimal(18, 2)", None),
        ('"12", "13"', "String", None),
        ('"2024-01-31"', "Date32", None),
        ('"2024-02-31"', "String", None),
        ('"2024-01-31T10:00:00Z"', "DateTime64(3)", "iso"),
        ('"2024-01-31T10:00:00.123456+02:00"', "DateTime64(6)", "iso"),
        ('"2024-01-31 10:00:00"', "DateTime64(3)", "iso"),
        ('"2024-01-31T10:00:00.1Z", "2024-01-31T10:00:00.123456789Z"', "DateTime64(9)", "iso"),
        ('"123e4567-e89b-12d3-a456-426614174000"', "UUID", None),
        ('"10.0.0.1"', "IPv4", None),
        ('"::1", "2001:db8::1"', "IPv6", None),
        ("[1, 2]", "Array(Int64)", None),
        ('["2024-01-31"]', "Array(String)", None),
        ("[]", "Array(String)", None),
        ("[null, 1]", "String", "json"),
        ('[{"a": 1}]', "String", "json"),
        ('1, "1"', "String", "json"),
        ('{"a.b": 1}', "String", "json"),
        ("{}", "String", "json"),
        ('{"a": 1}, 1', "String", "json"),
    ],
)
def test_values_have_the_narrowest_type_that_loses_nothing(values: str, type_: str, encoding: str | None) -> None:
    texts = tuple(json.dumps({"v": 0}).replace("0", value, 1) for value in _split(values))
    found = columns(texts=texts)["v"]
    assert (found.type, found.encoding, found.nullable) == (type_, encoding, False)


def _split(values: str) -> list[str]:
    """The values of a list, exactly as they are written."""
    found, depth, start, quoted = [], 0, 0, False
    for at, character in enumerate(values):
        quoted ^= character == '"'
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth and not quoted:
            found.append(values[start:at])
            start = at + 1
    return [*found, values[start:]]


@pytest.mark.parametrize(
    ("unit", "factor", "digits"), [("s", 1, 0), ("ms", 10**3, 3), ("us", 10**6, 6), ("ns", 10**9, 9)]
)
def test_epochs_are_told_by_their_size_where_the_name_says_time(unit: str, factor: int, digits: int) -> None:
    moment = 1_700_000_000 * factor
    found = columns({"created_at": moment, "id": moment})
    assert (found["created_at"].type, found["created_at"].encoding) == (f"DateTime64({digits})", unit)
    assert (found["id"].type, found["id"].encoding) == ("Int64", None)


def test_a_field_that_is_missing_or_null_in_a_sample_is_nullable() -> None:
    found = columns({"a": 1, "b": 1, "c": None}, {"a": 2, "b": None, "c": None}, {"a": 3, "b": 2, "c": None, "d": 1})
    assert {path: each.nullable for path, each in found.items()} == {"a": False, "b": True, "c": True, "d": True}


def test_a_path_and_a_name_that_look_alike_have_different_columns() -> None:
    found = columns({"a": {"b": 1}, "a_b": 2, "a-b": 3, "_id": 4})
    assert {path: each.column for path, each in found.items()} == {
        "a.b": "a_b",
        "a_b": "a_b_2",
        "a-b": "a_b_3",
        "_id": "id",
    }


def test_names_that_no_path_contains_are_reported() -> None:
    proposal = propose_from([b'{"a.b": 1, "c": 2, "$x": 3}'], "json", {})
    assert [each.field_path for each in proposal.mapping.columns] == ["c"]
    assert proposal.ignored == ("a.b", "$x")


def test_objects_that_are_nested_too_deep_are_kept_as_text() -> None:
    record: Any = 1
    for _ in range(10):
        record = {"n": record}
    (found,) = columns(record).values()
    assert (found.field_path, found.encoding) == ("n.n.n.n.n.n", "json")


def test_few_texts_of_many_records_are_a_low_cardinality_and_the_sorting_key() -> None:
    records = [{"id": n, "kind": "ab"[n % 2], "name": f"n{n}", "ts": 1_700_000_000_000 + n} for n in range(40)]
    proposal = propose_from([json.dumps(each).encode() for each in records], "json", {})
    types = {each.column: each.type for each in proposal.mapping.columns}
    assert (types["kind"], types["name"]) == ("LowCardinality(String)", "String")
    assert proposal.mapping.order_by == ["kind", "ts"]
    assert proposal.ttl == "toDateTime(ts) + INTERVAL 90 DAY"
    assert proposal.mapping.ttl is None, "nothing is deleted unless somebody says so"


def test_bad_records_among_samples_are_left_out() -> None:
    huge = b'{"a": ' + b"9" * 5_000 + b"}"
    proposal = propose_from([b"{", b"[1]", None, b"\xff", huge, b'{"a": 1}'], "json", {})
    assert [(each.column, each.nullable) for each in proposal.mapping.columns] == [("a", False)]


def test_csv_and_msgpack_are_inferred() -> None:
    import msgspec

    packed = [msgspec.msgpack.encode({"a": 1, "b": {"c": 0.5}, "d": b"x"})]
    found = {each.column: each.type for each in propose_from(packed, "msgpack", {}).mapping.columns}
    assert found == {"a": "Int64", "b_c": "Float64", "d": "String"}
    fields = {"fields": [{"name": "day"}, {"name": "price"}]}
    found = {each.column: each.type for each in propose_from([b"2024-01-01,1.50"], "csv", fields).mapping.columns}
    assert found == {"day": "Date32", "price": "Decimal(18, 2)"}


AVRO = """{"type": "record", "name": "r", "fields": [
    {"name": "id", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}]},
    {"name": "tags", "type": {"type": "array", "items": "string"}}]}"""
PROTO = """syntax = "proto3";
message Order {
    uint64 id = 1; int32 count = 2; double price = 3; bool paid = 4; repeated string tags = 5; bytes raw = 6;
}"""


@pytest.mark.parametrize(
    ("name", "keys", "schema", "expected"),
    [
        (
            "avro",
            ("schema_file", "schema_text"),
            AVRO,
            {"id": "Int64", "at": "DateTime64(6)", "price": "Decimal128(4)", "tags": "Array(Nullable(String))"},
        ),
        (
            "protobuf",
            ("proto", "proto_text"),
            PROTO,
            {
                "id": "UInt64",
                "count": "Int32",
                "price": "Float64",
                "paid": "Bool",
                "tags": "Array(Nullable(String))",
                "raw": "String",
            },
        ),
    ],
)
def test_formats_with_a_schema_have_its_types(
    tmp_path: Path, name: str, keys: tuple[str, str], schema: str, expected: dict[str, str]
) -> None:
    file, text = keys
    path = tmp_path / "schema.proto"
    path.write_text(schema)
    message = {"message": "Order"} if name == "protobuf" else {}
    for config in ({file: str(path)}, {text: schema}):
        found = {each.column: each for each in propose_from([b"any"], name, config | message).mapping.columns}
        assert {column: each.type.replace(", 'UTC'", "") for column, each in found.items()} == expected
    with pytest.raises(ConfigError, match="not both"):
        propose_from([b"any"], name, {file: str(path), text: schema} | message)


def test_wrong_settings_of_a_format_are_named() -> None:
    with pytest.raises(ConfigError, match="formatConfig: shema_file"):
        propose_from([b"any"], "avro", {"shema_file": "x"})
