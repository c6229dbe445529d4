"""csv: the conformance suite and the settings."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import SourceField
from gauss.contracts.format_batch import encode_good
from gauss.plugins.formats.csv.codec import CsvFormat
from gauss.plugins.formats.csv.line import LineCodec
from gauss.plugins.formats.csv.spec import CsvConfig
from gauss.plugins.formats.csv.walk import WALK
from gauss.plugins.formats.csv.walk_decoder import CsvWalkDecoder
from helpers import format_values as v
from helpers.format_conformance import FormatCase, FormatConformance, assert_alike

FIELDS: dict[str, Any] = {
    "symbol": "string",
    "bid": "double",
    "small": "float",
    "qty": "int64",
    "tiny": "int8",
    "big": "uint64",
    "open": "bool",
    "price": {"name": "decimal", "attrs": {"precision": 38, "scale": 8}},
    "at": "timestamp",
    "ns": {"name": "timestamp", "attrs": {"precision": 9}},
    "ms": {"name": "timestamp", "attrs": {"precision": 3, "unit": "ms"}},
    "day": "date",
    "clock": "time",
    "raw": "bytes",
    "any": {"name": "string", "attrs": {"utf8": False}},
}


def make(fields: dict[str, Any] = FIELDS, **settings: Any) -> CsvFormat:
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    return CsvFormat(CsvConfig.model_validate({"fields": columns, **settings}))


ROWS = st.fixed_dictionaries(
    {
        "symbol": st.none() | v.TEXT,
        "bid": st.none() | v.DOUBLE,
        "small": st.none() | v.FLOAT,
        "qty": st.none() | v.INT64,
        "tiny": st.none() | v.INT8,
        "big": st.none() | v.UINT64,
        "open": st.none() | st.booleans(),
        "price": st.none() | v.DECIMAL_38_8,
        "at": st.none() | v.TIMES,
        "ns": st.none() | v.INT64,
        "ms": st.none() | v.MILLIS,
        "day": st.none() | v.DATES,
        "clock": st.none() | st.integers(0, 86_399_999_999),
        "raw": st.none() | st.binary(min_size=1, max_size=5),
        "any": st.none() | st.binary(max_size=5),
    }
)
EDGE = {
    "symbol": "",
    "bid": -0.0,
    "small": float("nan"),
    "qty": -(2**63),
    "tiny": -128,
    "big": 2**64 - 1,
    "open": False,
    "price": v.BIG_DECIMAL,
    "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "ns": -1,
    "ms": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
    "day": dt.date(9999, 12, 31),
    "clock": 86_399_999_999,
    "raw": b"\0\xff",
    "any": b'\xff,"\n',
}
CELLS = st.sampled_from(
    [
        *("", "1", "-1", "1.5", "x", '"a"', '"a""b"', '"', '"a"x', "true", "1e400", "9223372036854775808", "+1", " 1"),
        *("NaN", "2026-01-02T03:04:05Z", "2026-13-02T03:04:05Z", "2026-01-02", "000000000000000000001", "1_0", "٣"),
    ]
)


@pytest.fixture
def compiled() -> None:
    """Compiles the walk, as after many records."""
    WALK.compile()


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WALK, "_compiled", None)


@pytest.mark.usefixtures("uncompiled")
class TestCsvLineByLine(FormatConformance):
    case = FormatCase(make=make, rows=ROWS, edges=[EDGE])


@pytest.mark.usefixtures("compiled")
class TestCsv(FormatConformance):
    case = FormatCase(
        make=make,
        rows=ROWS,
        edges=[EDGE, dict.fromkeys(FIELDS), {**EDGE, "symbol": v.MEGABYTE, "bid": 5e-324}],
        records=st.lists(CELLS, min_size=14, max_size=16).map(lambda cells: ",".join(cells).encode()),
        bad=[
            *[(b"", "bad_csv"), (b"a,b", "bad_csv"), (b"x,1,1,1.0" + b"," * 11, "wrong_type")],
            *[(b",,,,128" + b"," * 10, "out_of_range"), (b"\xff" + b"," * 14, "bad_utf8")],
            *[(b'"a' + b"," * 14, "bad_csv"), (b'a"b' + b"," * 14, "bad_csv")],
            (b"," * 7 + b"1.123456789" + b"," * 7, "out_of_range"),
        ],
        unfit=[{**EDGE, "tiny": 128}, {**EDGE, "big": -1}, {**EDGE, "price": Decimal("1E-9")}],
    )


PLAIN = ["symbol", "bid", "qty", "tiny", "big", "open", "at", "ms", "day", "small", "price", "any"]


@pytest.mark.usefixtures("compiled")
class TestCsvPlain(FormatConformance):
    """The types for which whole batches are read and written at once."""

    case = FormatCase(
        make=lambda: make({name: FIELDS[name] for name in PLAIN}),
        rows=ROWS.map(lambda row: {name: row[name] for name in PLAIN}),
        edges=[{name: EDGE[name] for name in PLAIN}, dict.fromkeys(PLAIN)],
        records=st.lists(CELLS, min_size=11, max_size=13).map(lambda cells: ",".join(cells).encode()),
        unfit=[{**{name: EDGE[name] for name in PLAIN}, "big": -1}],
    )


@pytest.mark.usefixtures("compiled")
def test_plain_lines_are_vouched_for() -> None:
    fields = [SourceField(each.name, each.field_type) for each in make().schema().fields if each.name in PLAIN]
    config = CsvConfig.model_validate({"fields": [{"name": f.name, "type": FIELDS[f.name]} for f in fields]})
    decoder = CsvWalkDecoder(fields, LineCodec(config, fields))
    line = 'é,1.5,-0.25,-5,7,99,true,"12.5",2026-01-02T03:04:05.678Z,1700000000123,2024-02-29,"x,y"'
    lines = [line, line + "\r\n", "," * 11, line.replace("99", "9e9"), line + ",", '"é""",' + "," * 10]
    found = decoder.decode(pa.array([each.encode() for each in lines], pa.binary()))
    assert found is not None
    assert found[0].tolist() == [True, True, True, False, False, False]
    assert found[1]["price"].to_pylist() == [Decimal("12.5"), Decimal("12.5"), None]
    assert found[1]["any"].to_pylist() == [b"x,y", b"x,y", None]


def test_a_row_beyond_the_years_that_can_be_read_costs_itself() -> None:
    days = pa.array([0, 4_000_000, 1], pa.int32()).cast(pa.date32())
    found = encode_good(make({"day": "date"}), pa.RecordBatch.from_arrays([days], ["day"]))
    assert found.records.to_pylist() == [b"1970-01-01", b"1970-01-02"]
    assert [index for index, _, _ in found.bad] == [1]


def test_an_empty_cell_is_null_and_an_empty_quoted_cell_is_empty_text() -> None:
    format_ = make({"a": "string", "b": "string"})
    assert format_.decode(b',""') == {"a": None, "b": ""}
    assert format_.encode({"a": None, "b": ""}) == b',""'


def test_null_may_be_spelled_otherwise() -> None:
    format_ = make({"a": "string", "b": "int64"}, null="\\N")
    assert format_.decode(b",\\N") == {"a": "", "b": None}
    assert_alike(format_, [b",\\N", b"\\N,1", b'"\\N",1', b","])


def test_a_header_line_gives_no_row() -> None:
    format_ = make({"a": "string", "b": "int64"}, header=True, delimiter=";")
    records = [b"a;b", b"x;1", b'"a";b', b"a;2"]
    decoded = format_.decode_batch(pa.array(records, pa.binary()), arrow_schema(format_.schema().fields))
    assert decoded.good.tolist() == [1, 3]
    assert decoded.spread
    assert_alike(format_, records)


def test_without_a_quote_character_quotes_are_text() -> None:
    format_ = make({"a": "string", "b": "string"}, quote="", delimiter="\t")
    assert format_.decode(b'"x\t5" "') == {"a": '"x', "b": '5" "'}
    with pytest.raises(ValueError, match="needs quoting"):
        format_.encode({"a": "x\ty", "b": ""})


def test_a_quoted_cell_may_hold_line_breaks() -> None:
    format_ = make({"a": "string", "b": "int64"})
    assert format_.decode(b'"x\ny",1\r\n') == {"a": "x\ny", "b": 1}
    assert_alike(format_, [b'"x\ny",1\r\n', b"x\ny,1", b"x,1\n"])


@pytest.mark.parametrize("settings", [{"delimiter": ""}, {"delimiter": ",,"}, {"delimiter": '"'}, {"null": "a,b"}])
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make({"a": "string"}, **settings)
