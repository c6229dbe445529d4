"""msgpack runs the conformance suite; paths, and records without declared fields."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.plugins.formats.msgpack.codec import MsgpackFormat
from gauss.plugins.formats.msgpack.spec import MsgpackConfig
from helpers import format_values as v
from helpers.format_conformance import FormatCase, FormatConformance, assert_alike

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


FEW = ["symbol", "bid", "qty", "tiny", "big", "open", "raw"]


class TestMsgpackByColumn(FormatConformance):
    case = FormatCase(
        make=lambda: make({name: FIELDS[name] for name in FEW}),
        rows=ROWS.map(lambda row: {name: row[name] for name in FEW}),
        edges=[{name: EDGE[name] for name in FEW}, dict.fromkeys(FEW)],
        records=st.dictionaries(
            st.sampled_from(FEW), st.sampled_from([1, -1, 2**64 - 1, 1.5, "x", b"x", True, None, []])
        ).map(packed),
    )


def test_plain_rows_are_written_by_batch_as_one_by_one() -> None:
    kinds = {"symbol": "string", "bid": "double", "qty": "int64", "tiny": "uint8", "raw": "bytes"}
    format_ = make(kinds)
    rows = [{"symbol": "é", "bid": 1.5, "qty": -5, "tiny": 255, "raw": b"\xff"}, dict.fromkeys(kinds)]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(format_.schema().fields))  # type: ignore[union-attr]
    assert format_.encode_batch(batch).to_pylist() == [format_.encode(row) for row in rows]


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
