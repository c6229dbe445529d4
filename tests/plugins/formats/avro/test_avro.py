"""avro: the conformance suite, containers, other writers' schemas, and a comparison with fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import BadRecord, BadRows
from gauss.model.errors import ConfigError
from gauss.plugins.formats.avro import write
from gauss.plugins.formats.avro.codec import AvroFormat
from gauss.plugins.formats.avro.spec import AvroConfig
from helpers import format_values as v
from helpers.format_conformance import SETTINGS, FormatCase, FormatConformance, assert_alike, same

PLAIN: dict[str, Any] = {
    "text": "string",
    "whole": "long",
    "short": "int",
    "real": "double",
    "small": "float",
    "flag": ["null", "boolean"],
    "raw": "bytes",
    "four": {"type": "fixed", "name": "Four", "size": 4},
    "money": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 8},
    "fixed_money": {"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 30, "scale": 2},
    "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "us": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
    "ns": {"type": "long", "logicalType": "timestamp-nanos"},
    "day": {"type": "int", "logicalType": "date"},
    "clock": {"type": "long", "logicalType": "time-micros"},
    "side": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]},
    "list": {"type": "array", "items": ["null", "long"]},
    "inner": ["null", {"type": "record", "name": "N", "fields": [{"name": "x", "type": ["null", "string"]}]}],
    "again": {"type": "array", "items": "N"},
}
RICH: dict[str, Any] = {
    "labels": {"type": "map", "values": "long"},
    "either": ["null", "long", "string"],
    "text": "string",
}


def schema_of(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def make(fields: dict[str, Any]) -> AvroFormat:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.avsc"
        path.write_text(json.dumps(schema_of(fields)))
        return AvroFormat(AvroConfig(schema_file=path))


NESTED = st.fixed_dictionaries({"x": st.none() | v.TEXT})
ROWS = st.fixed_dictionaries(
    {
        "text": v.TEXT,
        "whole": v.INT64,
        "short": v.INT32,
        "real": v.DOUBLE,
        "small": v.FLOAT,
        "flag": st.none() | st.booleans(),
        "raw": st.binary(max_size=4),
        "four": st.binary(min_size=4, max_size=4),
        "money": v.DECIMAL_38_8,
        "fixed_money": st.decimals(1 - 10**28, 10**28 - 1, places=2),
        "ms": v.MILLIS,
        "us": st.none() | v.TIMES,
        "ns": v.INT64,
        "day": v.DATES,
        "clock": st.integers(0, 86_399_999_999),
        "side": st.sampled_from(["BUY", "SELL"]),
        "list": st.lists(st.none() | v.INT64, max_size=3),
        "inner": st.none() | NESTED,
        "again": st.lists(NESTED, max_size=2),
    }
)
EDGE: dict[str, Any] = {
    "text": "",
    "whole": -(2**63),
    "short": -(2**31),
    "real": -0.0,
    "small": float("nan"),
    "flag": None,
    "raw": b"",
    "four": b"\0\xff\0\xff",
    "money": v.BIG_DECIMAL,
    "fixed_money": Decimal("-0.01"),
    "ms": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "us": dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    "ns": 2**63 - 1,
    "day": dt.date(1, 1, 1),
    "clock": 0,
    "side": "SELL",
    "list": [],
    "inner": {"x": None},
    "again": [],
}
GOOD = make(PLAIN).encode(EDGE)


class TestAvro(FormatConformance):
    case = FormatCase(
        make=lambda: make(PLAIN),
        rows=ROWS,
        edges=[EDGE, {**EDGE, "text": v.MEGABYTE, "list": [None] * 1000}],
        bad=[
            (b"", "bad_avro"),
            (GOOD + b"\0", "bad_avro"),
            (GOOD[:-1], "bad_avro"),
            (b"\x02\xff" + GOOD[1:], "bad_utf8"),
        ],
        unfit=[
            *[{**EDGE, "short": 2**31}, {**EDGE, "text": None}, {**EDGE, "side": "HOLD"}, {**EDGE, "four": b"x"}],
            *[{**EDGE, "clock": -1}, {**EDGE, "fixed_money": Decimal("0.001")}],
        ],
    )


SIMPLE = [name for name in PLAIN if name not in ("list", "inner", "again")]
NEAR = st.integers(-(10**18), 10**18).map(lambda number: Decimal(number).scaleb(-8))


class TestAvroByColumn(FormatConformance):
    case = FormatCase(
        make=lambda: make({name: PLAIN[name] for name in SIMPLE}),
        rows=ROWS.map(lambda row: {name: row[name] for name in SIMPLE}),
        edges=[{name: EDGE[name] for name in SIMPLE}],
        unfit=[{**{name: EDGE[name] for name in SIMPLE}, "short": 2**31}],
    )


@SETTINGS
@given(st.lists(st.tuples(ROWS, NEAR, NEAR), min_size=1, max_size=6))
def test_plain_rows_are_written_by_batch_letter_by_letter_as_one_by_one(
    drawn: list[tuple[dict[str, Any], Decimal, Decimal]],
) -> None:
    format_ = make({name: PLAIN[name] for name in SIMPLE})
    rows = [
        {**{name: row[name] for name in SIMPLE}, "money": money, "fixed_money": round(other, 2)}
        for row, money, other in drawn
    ]
    schema = format_.schema()
    assert schema is not None
    found = write.encode(format_._writer().root, pa.RecordBatch.from_pylist(rows, arrow_schema(schema.fields)), b"")
    assert found is not None
    assert found.to_pylist() == [format_.encode(row) for row in rows]


class TestAvroWithMapsAndUnions(FormatConformance):
    case = FormatCase(
        make=lambda: make(RICH),
        rows=st.fixed_dictionaries(
            {
                "labels": st.dictionaries(v.TEXT, v.INT64, max_size=3).map(lambda found: list(found.items())),
                "either": st.none()
                | v.INT64.map(lambda n: {"long": n, "string": None})
                | v.TEXT.map(lambda t: {"long": None, "string": t}),
                "text": v.TEXT,
            }
        ),
        edges=[{"labels": [], "either": None, "text": ""}, {"labels": [("", -1)], "either": None, "text": "é"}],
        bad=[(b"\x01", "bad_avro")],
    )


def witness(row: dict[str, Any]) -> dict[str, Any]:
    """A row in the form that fastavro expects."""
    clock = (dt.datetime.min + dt.timedelta(microseconds=row["clock"])).time()
    return {**row, "clock": clock}


@SETTINGS
@given(ROWS)
def test_fastavro_writes_the_same_bytes(row: dict[str, Any]) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema_of(PLAIN)), witness(row))
    assert out.getvalue() == make(PLAIN).encode(row)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_container_gives_all_its_rows_beside_bare_datums(codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema_of(PLAIN)), [witness(EDGE)] * 3, codec=codec)
    format_ = make(PLAIN)
    records = [GOOD, out.getvalue(), GOOD, out.getvalue()[:-1], out.getvalue()]
    decoded = format_.decode_batch(pa.array(records, pa.binary()), arrow_schema(format_.schema().fields))  # type: ignore[union-attr]
    assert decoded.good.tolist() == [0, 1, 1, 1, 2, 4, 4, 4]
    assert decoded.spread
    assert [index for index, _, _ in decoded.bad] == [3]
    assert_alike(format_, records)
    with pytest.raises(BadRecord, match="3 rows"):
        format_.decode(out.getvalue())


def test_without_a_schema_containers_bring_their_own() -> None:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema_of({"a": "long"})), [{"a": 1}, {"a": 2}])
    format_ = AvroFormat(AvroConfig())
    assert format_.schema() is None
    decoded = format_.decode_batch(pa.array([out.getvalue(), b"\x02"], pa.binary()), pa.schema([("a", pa.int64())]))
    assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 2}]
    assert [(index, reason) for index, reason, _ in decoded.bad] == [(1, "bad_avro")]


def test_another_writers_schema_is_read_by_name_with_the_readers_defaults(tmp_path: Path) -> None:
    reader = schema_of({"b": "long", "c": ["null", "string"]})
    reader["fields"].append({"name": "d", "type": "string", "default": "none"})
    path = tmp_path / "reader.avsc"
    path.write_text(json.dumps(reader))
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema_of({"a": "string", "b": "int"})), [{"a": "x", "b": 7}])
    format_ = AvroFormat(AvroConfig(schema_file=path))
    assert format_.decode(out.getvalue()) == {"b": 7, "c": None, "d": "none"}
    assert_alike(format_, [out.getvalue()])


def test_records_that_compensate_each_others_faults_are_both_bad() -> None:
    format_ = make({"a": "long", "b": "string"})
    one, two = format_.encode({"a": 1, "b": "xy"}), format_.encode({"a": 2, "b": "z"})
    joined = one + two
    records = [joined[: len(one) - 2], joined[len(one) - 2 :]]
    assert len(format_.decode_batch(pa.array(records, pa.binary()), pa.schema([("a", pa.int64())])).bad) == 2
    assert_alike(format_, records)


def test_arrays_in_blocks_with_their_size_are_read() -> None:
    format_ = make({"a": {"type": "array", "items": "long"}, "b": "long"})
    assert_alike(format_, [b"\x03\x04\x02\x04\x00\x0a", b"\x04\x02\x04\x00\x0a"])
    assert format_.decode(b"\x03\x04\x02\x04\x00\x0a") == {"a": [1, 2], "b": 5}


ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}


@pytest.mark.parametrize(
    "kind",
    [
        ["null", ENUM],
        [ENUM, "null"],
        ENUM,
        {"type": "array", "items": ENUM},
        {"type": "array", "items": ["null", ENUM]},
    ],
)
def test_enums_that_may_be_null_or_stand_in_arrays_are_read_by_batch(kind: Any) -> None:
    format_ = make({"e": kind})
    values: list[Any] = [["a", "b"], []] if isinstance(kind, dict) and kind["type"] == "array" else ["b", "a"]
    values += [None] if isinstance(kind, list) else []
    records = [format_.encode({"e": value}) for value in values]
    decoded = format_.decode_batch(pa.array(records, pa.binary()), arrow_schema(format_.schema().fields))  # type: ignore[union-attr]
    assert decoded.rows.column("e").to_pylist() == values
    assert_alike(format_, [*records, b"\x08", b""])


@pytest.mark.parametrize(("size", "precision"), [(1, 2), (1, 1), (2, 1), (17, 38), (20, 18)])
def test_fixed_decimals_of_few_digits_and_of_many_bytes_are_weighed(size: int, precision: int) -> None:
    format_ = make(
        {"d": {"type": "fixed", "name": "D", "size": size, "logicalType": "decimal", "precision": precision}}
    )
    records = [value.to_bytes(size, "big", signed=True) for value in (9, -9, 10, 99, 100, -100, 127, -128)]
    decoded = format_.decode_batch(pa.array(records, pa.binary()), arrow_schema(format_.schema().fields))  # type: ignore[union-attr]
    decoded.rows.validate(full=True)
    assert len(decoded.bad) == {1: 6, 2: 4}.get(precision, 0)
    assert_alike(format_, records)


@pytest.mark.parametrize("schema", ['"long"', "{", '{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}'])
def test_schemas_that_give_no_columns_are_refused(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.avsc"
    path.write_text(schema)
    with pytest.raises(ConfigError):
        AvroFormat(AvroConfig(schema_file=path))


def test_a_null_where_none_is_allowed_is_refused_on_encoding() -> None:
    with pytest.raises(ValueError, match="text is null"):
        make(PLAIN).encode({**EDGE, "text": None})
    assert same(make(PLAIN).decode(GOOD)) == same(EDGE)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("string", pa.array([5])),
        ("bytes", pa.array([5])),
        ("long", pa.array([1.7])),
        ("long", pa.array(["12"])),
        ("long", pa.array([True])),
        ("boolean", pa.array(["false"])),
        ("int", pa.array([dt.date(2026, 1, 2)])),
        ("double", pa.array([Decimal("0.1")])),
        ("string", pa.array([b"\xff"])),
        (PLAIN["money"], pa.array(["1.5"])),
    ],
)
def test_a_value_of_another_kind_is_refused_on_encoding(kind: Any, column: pa.Array) -> None:
    with pytest.raises(BadRows):
        make({"f": kind}).encode_batch(pa.RecordBatch.from_arrays([column], ["f"]))
