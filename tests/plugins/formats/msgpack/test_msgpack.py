"""msgpack: the conformance suite, paths, and records without declared fields."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.plugins.formats.msgpack import write
from gauss.plugins.formats.msgpack.codec import MsgpackFormat
from gauss.plugins.formats.msgpack.spec import MsgpackConfig
from gauss.plugins.formats.msgpack.walk import WALK
from gauss.plugins.formats.msgpack.walk_decoder import MsgpackWalkDecoder, PlainRows
from helpers import format_values as v
from helpers.cases import cases
from helpers.format_conformance import SETTINGS, FormatCase, FormatConformance, assert_alike, mutated, same

FIELDS: dict[str, Any] = {
    "symbol": "string",
    "bid": "double",
    "small": "float",
    "qty": "int64",
    "tiny": "uint8",
    "big": "uint64",
    "open": "bool",
    "raw": "bytes",
    "any": {"name": "string", "attrs": {"utf8": False}},
    "price": {"name": "decimal", "attrs": {"precision": 38, "scale": 8}},
    "day": "date",
    "at": "timestamp",
    "ms": {"name": "timestamp", "attrs": {"unit": "ms", "precision": 3}},
    "ns": {"name": "timestamp", "attrs": {"unit": "ns", "precision": 9}},
    "tags": {"name": "array", "attrs": {"element": {"name": "array", "attrs": {"element": "string"}}}},
    "labels": {"name": "map", "attrs": {"key": "string", "value": "int64"}},
    "codes": {"name": "map", "attrs": {"key": "int32", "value": "string"}},
    "pair": {"name": "tuple", "attrs": {"fields": ["int32", "string"]}},
    "$.o.id": "int64",
    "$.items[*].sku": {"name": "array", "attrs": {"element": "string"}},
}


def make(fields: dict[str, Any] | None = FIELDS) -> MsgpackFormat:
    if fields is None:
        return MsgpackFormat(MsgpackConfig())
    return MsgpackFormat(
        MsgpackConfig.model_validate({"fields": [{"name": name, "type": kind} for name, kind in fields.items()]})
    )


PLAIN = {name: kind for name, kind in FIELDS.items() if "[*]" not in name}
ROWS = st.fixed_dictionaries(
    {
        "symbol": st.none() | v.TEXT,
        "bid": st.none() | v.DOUBLE,
        "small": st.none() | v.FLOAT,
        "qty": st.none() | v.INT64,
        "tiny": st.none() | st.integers(0, 255),
        "big": st.none() | v.UINT64,
        "open": st.none() | st.booleans(),
        "raw": st.none() | st.binary(max_size=4),
        "any": st.none() | st.binary(max_size=4),
        "price": st.none() | v.DECIMAL_38_8,
        "day": st.none() | v.DATES,
        "at": st.none() | v.TIMES,
        "ms": st.none() | v.MILLIS,
        "ns": st.none() | v.INT64,
        "tags": st.none() | st.lists(st.none() | st.lists(v.TEXT, max_size=2), max_size=2),
        "labels": st.none() | st.dictionaries(v.TEXT, v.INT64, max_size=2).map(lambda d: list(d.items())),
        "codes": st.none()
        | st.dictionaries(v.INT32, v.TEXT, max_size=2).map(lambda d: [{"key": k, "value": t} for k, t in d.items()]),
        "pair": st.none() | st.fixed_dictionaries({"f0": st.none() | v.INT32, "f1": v.TEXT}),
        "$.o.id": st.none() | v.INT64,
    }
)
EDGE: dict[str, Any] = {
    "symbol": "",
    "bid": -0.0,
    "small": float("nan"),
    "qty": -(2**63),
    "tiny": 255,
    "big": 2**64 - 1,
    "open": False,
    "raw": b"",
    "any": b"\xff",
    "price": v.BIG_DECIMAL,
    "day": dt.date(1, 1, 1),
    "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "ns": -(2**63),
    "ms": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
    "tags": [[], [""]],
    "labels": [],
    "codes": [{"key": -1, "value": ""}],
    "pair": {"f0": None, "f1": ""},
    "$.o.id": 0,
}


def packed(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


class TestMsgpack(FormatConformance):
    case = FormatCase(
        make=lambda: make(PLAIN),
        rows=ROWS,
        edges=[EDGE, dict.fromkeys(PLAIN), {**EDGE, "symbol": v.MEGABYTE}],
        records=st.dictionaries(
            st.sampled_from([*list(PLAIN)[:16], "o"]),
            st.none() | st.integers(-(2**63), 2**64 - 1) | st.floats() | v.TEXT | st.binary(max_size=3) | st.booleans(),
        ).map(packed),
        unfit=[{**EDGE, "tiny": 256}, {**EDGE, "price": Decimal("1E-9")}, {**EDGE, "big": 2**64}],
        bad=[
            *[(b"", "bad_msgpack"), (b"\xc1", "bad_msgpack"), (packed({}) + b"\0", "bad_msgpack")],
            *[(packed([1]), "not_object"), (packed(None), "not_object"), (packed({1: 2}), "not_object")],
            *[(packed({"qty": 1.0}), "wrong_type"), (packed({"qty": True}), "wrong_type")],
            *[(packed({"tiny": 256}), "out_of_range"), (packed({"qty": 2**63}), "out_of_range")],
            *[(packed({"pair": [1]}), "wrong_type"), (packed({"price": "1.123456789"}), "out_of_range")],
            (b"\x81\xa1\xff\x01", "bad_utf8"),
        ],
    )


WALKED = ["symbol", "bid", "small", "qty", "tiny", "big", "open", "raw", "any", "price", "day", "at", "ms"]
VALUES = st.sampled_from(
    [
        *(1, -1, 127, 128, -32, -33, 255, 256, 2**16, 2**32, -(2**31) - 1, 2**63, 2**64 - 1, 10**17, 10**18),
        *(1.5, 0.0, -0.0, 1e39, float("nan"), float("inf"), True, False, None, b"x", b"\xff"),
        *("x", "", "é", "1.5", "-0.25", "-0", "1e2", "01", "12345678901234567890.5", "2024-02-29", "2026-02-30"),
        *("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05+01:00", "2026-W01-1", "x" * 31, "x" * 32, "x" * 256),
        *([], [1, ["é"]], {}, {"a": {"b": [None]}}, {"a": "x" * 40}, {1: 2}, [{"k": b"\xff"}] * 20),
        *(dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC), dt.datetime(1969, 1, 1, tzinfo=dt.UTC)),
        msgspec.msgpack.Ext(5, b"abcd"),
    ]
)
MAPS = st.dictionaries(st.sampled_from([*WALKED, "other", "é"]), VALUES).map(packed)


@pytest.fixture
def compiled() -> None:
    """Compiles the walk, as after many records."""
    WALK.compile()


@pytest.mark.usefixtures("compiled")
class TestMsgpackWalked(FormatConformance):
    case = FormatCase(
        make=lambda: make({name: FIELDS[name] for name in WALKED}),
        rows=ROWS.map(lambda row: {name: row[name] for name in WALKED}),
        edges=[{name: EDGE[name] for name in WALKED}, dict.fromkeys(WALKED)],
        records=MAPS,
        bad=[
            (b"\x81\xa6symbol\xa1\xff", "bad_utf8"),
            (b"\x81\xa5other\x81\xa1\xff\x01", "bad_utf8"),
            (b"\x81\xa5other\x91\xa1\xff", "bad_utf8"),
            *[(packed({"small": 1e39}), "out_of_range"), (packed({"day": "2026-02-30"}), "wrong_type")],
            *[(b"\x82\xa3qty\x01", "bad_msgpack"), (b"\x81\xa3qty\xd3\x00", "bad_msgpack")],
            # 10⁹ nanoseconds, in a field that is not selected
            (b"\x81\xa5other\xd7\xff" + struct.pack(">Q", 10**9 << 34), "bad_msgpack"),
        ],
    )


def vouched(records: list[bytes]) -> PlainRows:
    fields = {name: FIELDS[name] for name in WALKED}
    schema = make(fields).schema()
    assert schema is not None
    types = {field.name: field.field_type for field in schema.fields}
    found = MsgpackWalkDecoder(types).decode(pa.array(records, pa.binary()), arrow_schema(schema.fields))
    assert found is not None
    return found


@pytest.mark.usefixtures("compiled")
@settings(SETTINGS, max_examples=cases(200))
@given(st.lists(mutated(MAPS), max_size=6))
def test_the_walk_alone_never_vouches_for_a_bad_record(records: list[bytes]) -> None:
    found, one = vouched(records), make({name: FIELDS[name] for name in WALKED})
    assert same(found.rows.to_pylist()) == same([one.decode(records[index]) for index in found.kept])


@pytest.mark.usefixtures("compiled")
def test_plain_records_are_vouched_for() -> None:
    plain: dict[str, Any] = {
        "symbol": "é" * 20,
        "bid": 1234.5678,
        "qty": -5,
        "tiny": 200,
        "big": 2**40,
        "open": True,
        "raw": b"\xff",
        "any": "text",
        "price": "-1.5",
        "day": "2024-02-29",
        "at": "2026-01-02T03:04:05.678Z",
        "ms": 1700000000123,
        "extra": {"x": [1, "y", None, False, 2.5, b""]},
    }
    own = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    small = b"\x81\xa5small\xca" + struct.pack(">f", -1.1)
    found = vouched([packed(plain), packed({}), packed({"qty": None, "at": own, "ms": own, "price": 7}), small])
    assert found.kept.tolist() == [0, 1, 2, 3]
    assert found.rows.column("price").to_pylist() == [Decimal("-1.5"), None, Decimal(7), None]
    assert found.rows.column("at")[2].as_py() == own
    assert found.rows.column("small")[3].as_py() == struct.unpack(">f", struct.pack(">f", -1.1))[0]


WRITTEN = [name for name in WALKED if name not in ("big", "price")]


@settings(SETTINGS, max_examples=cases(100))
@given(st.lists(ROWS.map(lambda row: {name: row[name] for name in WRITTEN}), min_size=1, max_size=6))
def test_plain_rows_are_written_by_batch_letter_by_letter_as_one_by_one(rows: list[dict[str, Any]]) -> None:
    format_ = make({name: FIELDS[name] for name in WRITTEN})
    schema = format_.schema()
    assert schema is not None
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema.fields))
    types = {field.name: field.field_type for field in schema.fields}
    found = write.encode(batch, types)
    assert found is not None
    assert found.to_pylist() == [format_.encode(row) for row in rows]


@pytest.mark.parametrize("value", ["x" * size for size in (0, 31, 32, 255, 256, 65_535, 65_536)])
def test_long_texts_and_bytes_have_the_shortest_head(value: str) -> None:
    batch = pa.RecordBatch.from_pydict({"text": [value, None], "raw": [value.encode(), b""], "n": [len(value), -1]})
    found = write.encode(batch, {})
    assert found is not None
    assert found.to_pylist() == [packed(row) for row in batch.to_pylist()]


def test_paths_lead_into_maps_and_arrays() -> None:
    format_ = make()
    record = packed({"o": {"id": 5}, "items": [{"sku": "a"}, {}, {"sku": None}]})
    row = format_.decode(record)
    assert (row["$.o.id"], row["$.items[*].sku"]) == (5, ["a", None, None])
    assert_alike(format_, [record, packed({"o": 5}), packed({"items": 5})])


def test_without_fields_a_map_decodes_by_its_own_kinds() -> None:
    format_ = make(None)
    assert format_.schema() is None
    assert format_.decode(packed({"a": 1, "b": [True, None], "c": {"d": 1.5}})) == {
        "a": 1,
        "b": [True, None],
        "c": {"d": 1.5},
    }
    decoded = format_.decode_batch(pa.array([packed({"a": 1}), packed({"a": "x"})]), pa.schema([("a", pa.int64())]))
    assert decoded.rows.to_pylist() == [{"a": 1}]
    assert [(index, reason) for index, reason, _ in decoded.bad] == [(1, "wrong_type")]


def test_messagepacks_own_timestamps_are_read() -> None:
    time = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    assert make({"at": "timestamp"}).decode(packed({"at": time})) == {"at": time}


def test_columns_marked_as_json_text_are_written_as_the_values_that_they_hold() -> None:
    marked = pa.field("o", pa.string(), metadata={"gauss": "json"})
    texts = pa.array(['{"k":[1]}', '"text"', None])
    batch = pa.RecordBatch.from_arrays([texts, texts], schema=pa.schema([marked, pa.field("s", pa.string())]))
    found = MsgpackFormat(MsgpackConfig()).encode_batch(batch).to_pylist()
    assert [msgspec.msgpack.decode(record)["o"] for record in found] == [{"k": [1]}, "text", None]
    assert [msgspec.msgpack.decode(record)["s"] for record in found] == texts.to_pylist()
