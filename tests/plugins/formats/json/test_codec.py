"""json: the fast path, the slow path and `decode` give the same result for every record, valid or not."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.json import polars_decoder
from gauss.plugins.formats.json.codec import JsonFormat
from gauss.plugins.formats.json.plan import column
from gauss.plugins.formats.json.spec import JsonConfig, JsonType
from helpers.cases import cases

FIELDS = {
    "symbol": "string",
    "bid": "double",
    "qty": "int64",
    "tiny": "int8",
    "big": "uint64",
    "open": "bool",
    "$.o.id": "int64",
    "$.o.name": "string",
}


def make(fields: dict[str, Any]) -> JsonFormat:
    return JsonFormat(JsonConfig.model_validate({"fields": [{"name": n, "type": t} for n, t in fields.items()]}))


def arrow_schema(fields: dict[str, Any]) -> pa.Schema:
    return pa.schema([pa.field(n, column(n, JsonType.model_validate(t)).arrow) for n, t in fields.items()])


def one_by_one(format_: JsonFormat, records: list[bytes]) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    rows, bad = [], []
    for index, record in enumerate(records):
        try:
            rows.append(format_.decode(record))
        except BadRecord as verdict:
            bad.append((index, verdict.reason))
    return rows, bad


def assert_same(records: list[bytes], fields: dict[str, Any] = FIELDS) -> None:
    format_ = make(fields)
    decoded = format_.decode_batch(pa.array(records, pa.binary()), arrow_schema(fields))
    rows, bad = one_by_one(format_, records)
    assert [(index, reason) for index, reason, _ in decoded.bad] == bad
    assert decoded.good.tolist() == [i for i in range(len(records)) if i not in dict(bad)]
    assert decoded.rows.to_pylist() == rows


JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-200, 200).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1.0", "1e2", "-0", "-0.0", "1e400", "1e-400", "01", "+1", "9223372036854775808", ".5", "1."]),
    st.decimals(allow_nan=False, allow_infinity=False, places=25).map(lambda d: format(d, "f")),
)
ESCAPES = st.sampled_from(
    ['"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"', '"\\u0041"', '"a\\nb"', '"\\x"', '"\t"', '"5"', '"true"', '"[1]"']
)
VALUES = st.one_of(
    NUMBERS,
    ESCAPES,
    JSON_TEXT.map(json.dumps),
    JSON_TEXT.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        ["null", "true", "false", "{}", "[]", "[1]", '{"id":1}', '{"id":"x","id":2}', "NaN", "nul", '"\\"']
    ),
)
NAMES = st.sampled_from(["symbol", "bid", "qty", "tiny", "big", "open", "o", "extra", "\\u0062id"])
SPACES = st.sampled_from(["", " ", "\n", "\t", "\r\n"])


@st.composite
def any_object(draw: st.DrawFn) -> bytes:
    members = draw(st.lists(st.tuples(NAMES, VALUES, SPACES), max_size=5))
    space = draw(SPACES)
    text = "{" + ",".join(f'{space}"{name}"{after}:{space}{value}' for name, value, after in members) + "}"
    return text.encode()


TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 1, 1)).map(lambda time: time.replace(tzinfo=dt.UTC))
GOOD = st.fixed_dictionaries(
    {
        "symbol": JSON_TEXT,
        "bid": st.floats(allow_nan=False, allow_infinity=False),
        "qty": st.integers(-(2**63), 2**63 - 1),
        "tiny": st.integers(-128, 127),
        "big": st.integers(0, 2**64 - 1),
        "open": st.booleans(),
        "o": st.one_of(st.none(), st.fixed_dictionaries({"id": st.integers(0, 9), "name": JSON_TEXT})),
    }
).map(lambda row: json.dumps(row, ensure_ascii=False).encode())
ODD = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"", b" ", b"null", b"[]", b"1", b'{"symbol":"\xff"}', b'{"extra":"\xff"}', b'\xef\xbb\xbf{"qty":1}']
    ),
    st.sampled_from([b'{"qty":1}\n{"qty":2}', b'{"qty":1}{"qty":2}', b'{"qty":1,}', b'{"extra":1e999}', b"{" * 2000]),
)


@settings(deadline=None)
@given(st.lists(GOOD, max_size=20))
def test_good_records_decode_alike_by_batch_and_one_by_one(records: list[bytes]) -> None:
    assert_same(records)
    _, bad = one_by_one(make(FIELDS), records)
    assert not bad


@settings(max_examples=cases(150), deadline=None)
@given(st.lists(st.one_of(any_object(), GOOD), max_size=8))
def test_any_objects_decode_alike_by_batch_and_one_by_one(records: list[bytes]) -> None:
    assert_same(records)


@settings(max_examples=cases(100), deadline=None)
@given(st.lists(st.one_of(GOOD, any_object(), ODD), max_size=8))
def test_bad_records_have_the_same_verdict_by_batch_and_one_by_one(records: list[bytes]) -> None:
    assert_same(records)


@settings(deadline=None)
@given(any_object())
def test_fast_path_alone_never_vouches_for_a_bad_record(record: bytes) -> None:
    columns = [column(name, JsonType.model_validate(kind)) for name, kind in FIELDS.items()]
    found = polars_decoder.decode(pa.array([record], pa.binary()), columns)
    if found is not None and found.suspects is None:
        row = make(FIELDS).decode(record)
        assert [values[0].as_py() for values in found.columns] == list(row.values())


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "bad_json"),
        (b"  ", "bad_json"),
        (b'{"symbol":"a"', "bad_json"),
        (b'{"symbol":"a"}{}', "bad_json"),
        (b'{"symbol":"\xff"}', "bad_utf8"),
        (b'{"extra":"\xff"}', "bad_utf8"),
        (b'{"extra":"\\ud800"}', "bad_json"),
        (b"[1]", "not_object"),
        (b"null", "not_object"),
        (b'"text"', "not_object"),
        (b'{"qty":1.0}', "wrong_type"),
        (b'{"qty":9223372036854775808}', "out_of_range"),
        (b'{"tiny":128}', "out_of_range"),
        (b'{"big":-1}', "out_of_range"),
        (b'{"symbol":5}', "wrong_type"),
        (b'{"bid":"5"}', "wrong_type"),
        (b'{"open":1}', "wrong_type"),
        (b'{"o":5}', "wrong_type"),
        (b'{"bid":1e400}', "out_of_range"),
    ],
)
def test_each_documented_case_has_its_verdict_in_both_paths(record: bytes, reason: str) -> None:
    good = b'{"symbol":"a","bid":1,"qty":1}'
    decoded = make(FIELDS).decode_batch(pa.array([good, record, good], pa.binary()), arrow_schema(FIELDS))
    assert [(index, found) for index, found, _ in decoded.bad] == [(1, reason)]
    assert decoded.rows.num_rows == 2


def test_the_last_of_duplicate_names_counts() -> None:
    row = make(FIELDS).decode(b'{"qty":1,"symbol":"a","qty":2}')
    assert row["qty"] == 2
    assert_same([b'{"qty":1,"symbol":"a","qty":2}', b'{"symbol":"a"}'])


def test_a_newline_between_tokens_is_white_space() -> None:
    assert make(FIELDS).decode(b'{\n"qty":\n1\n}')["qty"] == 1
    assert_same([b'{\n"qty":\n1\n}', b'{"qty":2}'])


RICH = {
    "price": {"name": "decimal", "attrs": {"precision": 18, "scale": 8}},
    "at": {"name": "timestamp", "attrs": {"precision": 3}},
    "ms": {"name": "timestamp", "attrs": {"unit": "ms"}},
    "day": "date",
    "raw": "bytes",
    "small": "float",
    "tags": {"name": "array", "attrs": {"element": "string"}},
    "$.items[*].sku": {"name": "array", "attrs": {"element": "string"}},
    "any": "json",
}


def test_rich_types_decode_exactly() -> None:
    record = (
        b'{"price":1234567890.12345678,"at":"2026-01-02T03:04:05.678901+01:00","ms":1700000000123,"day":"2026-01-02",'
        b'"raw":"AAE=","small":0.1,"tags":["a",null],"items":[{"sku":"x"},{"sku":null},{}],"any":{"k": [1]}}'
    )
    row = make(RICH).decode(record)
    assert row["price"] == Decimal("1234567890.12345678")
    assert row["at"] == dt.datetime(2026, 1, 2, 2, 4, 5, 678000, tzinfo=dt.UTC)
    assert row["ms"] == dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=dt.UTC)
    assert row["day"] == dt.date(2026, 1, 2)
    assert row["raw"] == b"\x00\x01"
    assert row["tags"] == ["a", None]
    assert row["$.items[*].sku"] == ["x", None, None]
    assert row["any"] == '{"k": [1]}'
    decoded = make(RICH).decode_batch(pa.array([record], pa.binary()), arrow_schema(RICH))
    assert decoded.bad == []
    assert decoded.rows.to_pylist()[0]["price"] == row["price"]


@pytest.mark.parametrize("text", ["0.123456789", "12345678901.1", '"abc"', "1e30"])
def test_a_decimal_that_does_not_fit_is_refused_and_never_rounded(text: str) -> None:
    with pytest.raises(BadRecord):
        make(RICH).decode(b'{"price":' + text.encode() + b"}")


def test_without_fields_an_object_decodes_by_its_own_kinds() -> None:
    format_ = JsonFormat(JsonConfig())
    assert format_.schema() is None
    assert format_.decode(b'{"a":1,"b":[true,null],"c":{"d":1.5}}') == {"a": 1, "b": [True, None], "c": {"d": 1.5}}
    with pytest.raises(BadRecord, match="expected an object"):
        format_.decode(b"[1]")


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "text": st.none() | JSON_TEXT,
                "real": st.none() | st.floats(),
                "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
                "flag": st.none() | st.booleans(),
                "money": st.none() | st.decimals(-(10**9), 10**9, places=8),
                "at": st.none() | TIMES,
                "list": st.none() | st.lists(st.integers(-5, 5), max_size=3),
            }
        ),
        min_size=1,
        max_size=10,
    )
)
def test_encoding_by_batch_says_what_encoding_one_row_says(rows: list[dict[str, Any]]) -> None:
    schema = pa.schema(
        {
            "text": pa.string(),
            "real": pa.float64(),
            "whole": pa.int64(),
            "flag": pa.bool_(),
            "money": pa.decimal128(20, 8),
            "at": pa.timestamp("us", tz="UTC"),
            "list": pa.list_(pa.int64()),
        }
    )
    format_ = JsonFormat(JsonConfig())
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    for names in (schema.names, ["text", "real", "whole", "flag", "list"]):
        chosen = batch.select(names)
        by_batch = [json.loads(record, parse_float=Decimal) for record in format_.encode_batch(chosen).to_pylist()]
        one = [json.loads(format_.encode(row), parse_float=Decimal) for row in chosen.to_pylist()]
        assert by_batch == one


def test_what_was_encoded_decodes_to_the_same_values() -> None:
    fields = {k: RICH[k] for k in ("price", "at", "ms", "day")}
    record = b'{"price":1.10000000,"at":"2026-01-02T02:04:05.678Z","ms":1700000000123,"day":"2026-01-02"}'
    format_ = make(fields)
    decoded = format_.decode_batch(pa.array([record], pa.binary()), arrow_schema(fields))
    assert format_.encode_batch(decoded.rows).to_pylist() == [record]


def test_paths_are_encoded_as_nested_objects() -> None:
    format_ = make({"$.o.id": "int64", "$.o.name": "string", "x": "int64"})
    row = {"$.o.id": 1, "$.o.name": "a", "x": None}
    assert json.loads(format_.encode(row)) == {"o": {"id": 1, "name": "a"}, "x": None}
    batch = pa.RecordBatch.from_pylist([row])
    assert format_.encode_batch(batch).to_pylist() == [format_.encode(row)]


def test_columns_marked_as_json_text_are_written_as_the_values_that_they_hold() -> None:
    """Only the column that is marked as JSON text is written as JSON; plain text stays text."""
    texts = ['{"k":[1,2.50]}', '"text"', "7", None]
    one, many = pa.field("o", pa.string()), pa.field("l", pa.list_(pa.string()))
    fields = [one.with_metadata({"gauss": "json"}), many.with_metadata({"gauss": "json array"}), one.with_name("s")]
    arrays = [pa.array(texts), pa.array([[text] for text in texts]), pa.array(texts)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    assert [json.loads(record) for record in make({}).encode_batch(batch).to_pylist()] == [
        {"o": value, "l": [value], "s": text}
        for text, value in zip(texts, [{"k": [1, 2.5]}, "text", 7, None], strict=True)
    ]
    merged = make({}).merge_batch(pa.array([b'{"a":1}'] * 4, pa.binary()), batch.select(["o"])).to_pylist()
    assert merged == [b'{"a":1,"o":{"k":[1,2.50]}}', b'{"a":1,"o":"text"}', b'{"a":1,"o":7}', b'{"a":1}']


@pytest.mark.parametrize("count", [1, 3, 200])
@pytest.mark.parametrize("name", ["a\nb", "a\\b", "a\tb", "a\0b", 'a"b', "\x7f", "a[b", "é\u2028"])
def test_a_name_that_is_written_with_escapes_is_found_as_any_other(name: str, count: int) -> None:
    format_ = JsonFormat(JsonConfig())
    records = [json.dumps({"n": index, name: f"v{index}", "o": {name: [index]}}).encode() for index in range(count)]
    text, any_value = pa.field(name, pa.string()), pa.field(f"$.o.{name}", pa.string(), metadata={"gauss": "json"})
    fields = pa.schema([text, pa.field("n", pa.int64()), any_value])
    decoded = format_.decode_batch(pa.array([*records, b"{}", b"{"], pa.binary()), fields)
    assert decoded.rows.column(0).to_pylist() == [*(f"v{index}" for index in range(count)), None]
    assert decoded.rows.column(1).to_pylist() == [*range(count), None]
    assert decoded.rows.column(2).to_pylist() == [*(f"[{index}]" for index in range(count)), None]
    assert [(index, reason) for index, reason, _ in decoded.bad] == [(count + 1, "bad_json")]
    assert json.loads(format_.encode_batch(decoded.rows.select([name])).to_pylist()[0]) == {name: "v0"}
