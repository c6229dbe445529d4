"""pg-binary: the conformance suite, and the row of the Postgres → ClickHouse flow."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.plugins.formats.pg_binary.codec import PgBinaryFormat
from gauss.plugins.formats.pg_binary.spec import PgBinaryConfig
from helpers import format_values as v
from helpers.format_conformance import FormatCase, FormatConformance

FIELDS: dict[str, Any] = {
    "id": "int8",
    "two": "int2",
    "four": "int4",
    "real": "float8",
    "small": "float4",
    "bid": {"name": "numeric", "attrs": {"precision": 38, "scale": 8}},
    "narrow": {"name": "numeric", "attrs": {"precision": 18, "scale": 8}},
    "free": "numeric",
    "ok": "bool",
    "symbol": "text",
    "odd": {"name": "text", "attrs": {"utf8": False}},
    "raw": "bytea",
    "at": "timestamptz",
    "local": "timestamp",
    "day": "date",
    "clock": "time",
    "key": "uuid",
    "doc": "jsonb",
    "tags": {"name": "array", "attrs": {"element": "text"}},
}


def make(fields: dict[str, Any] = FIELDS, **settings: Any) -> PgBinaryFormat:
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    return PgBinaryFormat(PgBinaryConfig.model_validate({"fields": columns, **settings}))


ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | v.INT64,
        "two": st.none() | v.INT16,
        "four": st.none() | v.INT32,
        "real": st.none() | v.DOUBLE,
        "small": st.none() | v.FLOAT,
        "bid": st.none() | v.DECIMAL_38_8,
        "narrow": st.none() | st.integers(1 - 10**18, 10**18 - 1).map(lambda whole: Decimal(whole).scaleb(-8)),
        "free": st.none() | v.DECIMAL_38_8.map(lambda value: format(value, "f")),
        "ok": st.none() | st.booleans(),
        "symbol": st.none() | v.TEXT,
        "odd": st.none() | st.binary(max_size=4),
        "raw": st.none() | st.binary(max_size=4),
        "at": st.none() | v.TIMES,
        "local": st.none() | v.TIMES,
        "day": st.none() | v.DATES,
        "clock": st.none() | st.integers(0, 86_400_000_000),
        "key": st.none() | st.binary(min_size=16, max_size=16),
        "doc": st.none() | v.TEXT,
        "tags": st.none() | st.lists(st.none() | v.TEXT, max_size=3),
    }
)
EDGE: dict[str, Any] = {
    "id": -(2**63),
    "two": -(2**15),
    "four": 2**31 - 1,
    "real": -0.0,
    "small": float("nan"),
    "bid": v.BIG_DECIMAL,
    "narrow": Decimal("-9999999999.99999999"),
    "free": "-0.00012300",
    "ok": False,
    "symbol": "",
    "odd": b"\xff",
    "raw": b"",
    "doc": "{}",
    "tags": [],
    "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "local": dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    "day": dt.date(9999, 12, 31),
    "clock": 0,
    "key": b"\0" * 16,
}
ONE = {"n": "numeric", "t": "timestamp", "s": "text"}


class TestPgBinary(FormatConformance):
    case = FormatCase(
        make=make,
        rows=ROWS,
        edges=[EDGE, dict.fromkeys(FIELDS), {**EDGE, "symbol": v.MEGABYTE, "tags": [None, "", v.MEGABYTE]}],
        bad=[(b"", "bad_pg"), (b"\0\x01\xff\xff\xff\xff", "bad_pg"), (b"\0\x12" + b"\xff" * 71, "bad_pg")],
        unfit=[{**EDGE, "two": 2**15}, {**EDGE, "key": b"x"}, {**EDGE, "bid": Decimal("1E31")}, {**EDGE, "free": "x"}],
    )


def tuple_of(*pieces: bytes | None) -> bytes:
    parts = [struct.pack(">i", -1) if p is None else struct.pack(">i", len(p)) + p for p in pieces]
    return struct.pack(">h", len(pieces)) + b"".join(parts)


PLAIN = [name for name in FIELDS if name not in ("bid", "free", "key", "doc", "tags")]


class TestPgBinaryPlain(FormatConformance):
    """The types for which whole batches are written at once."""

    case = FormatCase(
        make=lambda: make({name: FIELDS[name] for name in PLAIN}),
        rows=ROWS.map(lambda row: {name: row[name] for name in PLAIN}),
        edges=[{name: EDGE[name] for name in PLAIN}, dict.fromkeys(PLAIN)],
        unfit=[{**{name: EDGE[name] for name in PLAIN}, "two": 2**15}],
    )


def test_whole_batches_are_written_as_rows_are() -> None:
    format_ = make({name: FIELDS[name] for name in PLAIN})
    rows = [{name: EDGE[name] for name in PLAIN}, dict.fromkeys(PLAIN)]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(format_.schema().fields))
    assert format_.encode_batch(batch).to_pylist() == [format_.encode(row) for row in rows]


class TestPgBinaryOdd(FormatConformance):
    case = FormatCase(
        make=lambda: make(ONE),
        rows=st.fixed_dictionaries({"n": st.just("1.5"), "t": st.none() | v.TIMES, "s": st.none() | v.TEXT}),
        edges=[{"n": "0", "t": None, "s": None}],
        bad=[
            (tuple_of(struct.pack(">HhHH", 0, 0, 0xC000, 0), None, None), "out_of_range"),
            (tuple_of(b"\0", None, None), "wrong_type"),
            (tuple_of(None, struct.pack(">q", 2**63 - 1), None), "out_of_range"),
            (tuple_of(None, b"\0\0", None), "wrong_type"),
            (tuple_of(None, None, b"\xff"), "bad_utf8"),
            (tuple_of(None, None), "bad_pg"),
            (tuple_of(None, None, None) + b"\0", "bad_pg"),
        ],
    )


def test_the_row_of_the_flow_to_clickhouse_decodes_as_described() -> None:
    fields = {
        "id": "bigint",
        "bid": {"name": "numeric", "attrs": {"precision": 18, "scale": 8}},
        "symbol": "text",
        "tags": {"name": "array", "attrs": {"element": "text"}},
    }
    format_ = make(fields, database="mydb", schema="public", table="quotes")
    assert format_.schema().attrs == {"database": "mydb", "schema": "public", "table": "quotes"}
    names = [field.field_type.name for field in format_.schema().fields]
    assert names == ["int8", "numeric", "text", "array"]
    numeric = struct.pack(">HhHH3H", 3, 0, 0, 8, 123, 4567, 8901)
    tags = struct.pack(">iiiii", 1, 0, 25, 2, 1) + struct.pack(">i", 3) + b"vip" + struct.pack(">i", 1) + b"x"
    record = tuple_of(struct.pack(">q", 123), numeric, b"BTC", tags)
    assert format_.decode(record) == {"id": 123, "bid": Decimal("123.45678901"), "symbol": "BTC", "tags": ["vip", "x"]}
    assert format_.encode(format_.decode(record)) == record


@pytest.mark.parametrize("text", ["0", "1", "10000", "0.0001", "-123456789.00010", "0.1", "99999999.99999999", "1e3"])
def test_numerics_of_any_scale_come_back(text: str) -> None:
    format_ = make({"n": "numeric"})
    expected = format(Decimal(text), "f")
    assert format_.decode(format_.encode({"n": text})) == {"n": expected}
