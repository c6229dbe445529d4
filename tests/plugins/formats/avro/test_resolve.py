"""A writer's schema that differs from the reader's: compatible records are read, others are rejected one by one."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from gauss.contracts.field_types import arrow_schema
from gauss.model.errors import ConfigError
from gauss.plugins.formats.avro.codec import AvroFormat
from gauss.plugins.formats.avro.spec import AvroConfig

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def nested(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "N", "fields": list(fields)}


def schema_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def container(schema: dict[str, Any], *rows: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), rows)
    return out.getvalue()


def make(tmp_path: Path, *fields: dict[str, Any]) -> AvroFormat:
    path = tmp_path / "reader.avsc"
    path.write_text(json.dumps(schema_of(*fields)))
    return AvroFormat(AvroConfig(schema_file=path))


def decoded(format_: AvroFormat, *records: bytes) -> tuple[list[Any], list[tuple[int, str]]]:
    schema = format_.schema()
    assert schema is not None
    found = format_.decode_batch(pa.array(records, pa.binary()), arrow_schema(schema.fields))
    return found.rows.column(0).to_pylist(), [(index, reason) for index, reason, _ in found.bad]


@pytest.mark.parametrize(
    ("writer", "value", "reader", "expected"),
    [
        ("int", 5, "long", 5),
        ("long", 2**60 + 1, "double", float(2**60 + 1)),
        ("float", 1.5, "double", 1.5),
        ("bytes", b"hi", "string", "hi"),
        ("string", "h\u00e9", "bytes", "h\u00e9".encode()),
        ("long", 5, ["null", "long"], 5),
        (["null", "long"], None, "long", None),
        (DECIMAL, Decimal("1.25"), {**DECIMAL, "precision": 9, "scale": 4}, Decimal("1.2500")),
        (MILLIS, NOW, {**MILLIS, "logicalType": "timestamp-micros"}, NOW),
        ({"type": "array", "items": "int"}, [1], {"type": "array", "items": "double"}, [1.0]),
        ({"type": "map", "values": "int"}, {"a": 1}, {"type": "map", "values": "long"}, [("a", 1)]),
        (
            nested({"name": "x", "type": "int"}),
            {"x": 1},
            nested({"name": "x", "type": "long"}, {"name": "y", "type": "int", "default": 7}),
            {"x": 1, "y": 7},
        ),
    ],
)
def test_values_that_the_readers_type_holds_are_read(
    tmp_path: Path, writer: Any, value: Any, reader: Any, expected: Any
) -> None:
    record = container(schema_of({"name": "f", "type": writer}), {"f": value})
    format_ = make(tmp_path, {"name": "f", "type": reader})
    assert format_.decode(record) == {"f": expected}
    assert decoded(format_, record) == ([expected], [])


@pytest.mark.parametrize(
    ("writer", "value", "reader", "reason"),
    [
        ("string", "12", "long", "wrong_type"),
        ("string", "abc", "long", "wrong_type"),
        ("long", 2**40, "int", "wrong_type"),
        ("double", 1.5, "int", "wrong_type"),
        ("boolean", True, "int", "wrong_type"),
        ("long", 1_700_000_000_000, MILLIS, "wrong_type"),
        (MILLIS, NOW, "long", "wrong_type"),
        (["int", "string"], "x", "string", "wrong_type"),
        ("bytes", b"\xff", "string", "bad_utf8"),
        (DECIMAL, Decimal("1.25"), {**DECIMAL, "scale": 1}, "out_of_range"),
    ],
)
def test_what_the_readers_type_does_not_hold_costs_only_its_own_records(
    tmp_path: Path, writer: Any, value: Any, reader: Any, reason: str
) -> None:
    bad = container(schema_of({"name": "f", "type": writer}), {"f": value})
    good = container(schema_of({"name": "f", "type": ["null", reader]}), {"f": None})
    format_ = make(tmp_path, {"name": "f", "type": reader})
    assert decoded(format_, bad, good) == ([None], [(0, reason)])


def test_a_field_without_a_default_that_the_writer_lacks_costs_only_its_own_records(tmp_path: Path) -> None:
    fields = {"name": "a", "type": "long"}, {"name": "b", "type": "long"}
    lacking, whole = container(schema_of(fields[0]), {"a": 1}), container(schema_of(*fields), {"a": 2, "b": 3})
    assert decoded(make(tmp_path, *fields), lacking, whole) == ([2], [(0, "missing_field")])


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (DECIMAL, "\u00ff", Decimal("-0.01")),
        ("bytes", "\u00ff", b"\xff"),
        (MILLIS, 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=dt.UTC)),
        ({"type": "int", "logicalType": "date"}, 1, dt.date(1970, 1, 2)),
        ({"type": "int", "logicalType": "time-millis"}, 5, 5000),
        (["null", "long"], None, None),
        (["long", "null"], 7, 7),
        ({"type": "array", "items": DECIMAL}, ["\u0001"], [Decimal("0.01")]),
        ({"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]),
        (nested({"name": "x", "type": MILLIS}), {"x": 0}, {"x": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}),
    ],
)
def test_defaults_are_the_values_that_they_stand_for(tmp_path: Path, kind: Any, default: Any, value: Any) -> None:
    format_ = make(tmp_path, {"name": "f", "type": kind, "default": default}, {"name": "a", "type": "long"})
    record = container(schema_of({"name": "a", "type": "long"}), {"a": 1})
    assert format_.decode(record) == {"f": value, "a": 1}
    assert decoded(format_, record) == ([value], [])
    if not isinstance(kind, list):
        assert format_.decode(format_.encode({"a": 1})) == {"f": value, "a": 1}


@pytest.mark.parametrize(("kind", "default"), [("int", "x"), ("bytes", 5), ("int", 2**31), (MILLIS, True)])
def test_a_default_that_is_no_value_of_its_type_is_refused(tmp_path: Path, kind: Any, default: Any) -> None:
    with pytest.raises(ConfigError, match="default of field f"):
        make(tmp_path, {"name": "f", "type": kind, "default": default})
