"""protobuf: the conformance suite, descriptors, sources, and cases that the fast path leaves to the parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.model.errors import ConfigError
from gauss.plugins.formats.protobuf.codec import ProtobufFormat
from gauss.plugins.formats.protobuf.descriptor import compile_proto
from gauss.plugins.formats.protobuf.spec import ProtobufConfig
from helpers import format_values as v
from helpers.format_conformance import FormatCase, FormatConformance, assert_alike

PROTO = Path(__file__).parent / "quote.proto"


def make() -> ProtobufFormat:
    return ProtobufFormat(ProtobufConfig(proto=PROTO, message="Quote"))


def pairs(keys: st.SearchStrategy[Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.dictionaries(keys, values, max_size=3).map(lambda found: sorted(found.items()))


LEG = st.fixed_dictionaries({"sku": v.TEXT, "qty": v.INT64, "note": st.none() | v.TEXT, "tags": pairs(v.TEXT, v.INT32)})
ROWS = st.fixed_dictionaries(
    {
        "symbol": v.TEXT,
        "bid": v.DOUBLE,
        "total": v.UINT64,
        "volume": v.INT64,
        "raw": st.binary(max_size=4),
        "depth": st.none() | v.INT32,
        "levels": st.lists(v.INT32, max_size=3),
        "counts": pairs(v.TEXT, v.INT64),
        "names": pairs(v.INT32, v.TEXT).map(lambda found: [{"key": k, "value": t} for k, t in found]),
        "side": st.sampled_from([0, 1, 7]),
        "at": st.none() | v.INT64,
        "leg": st.none() | LEG,
        "legs": st.lists(LEG, max_size=2),
        "text": st.none(),
        "code": st.none() | v.INT64,
        "small": v.UINT32,
        "fixed": v.UINT64,
        "signed": v.INT32,
        "rate": v.FLOAT,
        "open": st.booleans(),
        "delta": v.INT64,
        "maybe": st.none() | v.INT64,
        "took": st.none() | st.integers(-(10**18), 10**18),
    }
)
ZERO: dict[str, Any] = {
    "symbol": "",
    "bid": 0.0,
    "total": 0,
    "volume": 0,
    "raw": b"",
    "depth": None,
    "levels": [],
    "counts": [],
    "names": [],
    "side": 0,
    "at": None,
    "leg": None,
    "legs": [],
    "text": None,
    "code": None,
    "small": 0,
    "fixed": 0,
    "signed": 0,
    "rate": 0.0,
    "open": False,
    "delta": 0,
    "maybe": None,
    "took": None,
}
EDGE = {
    **ZERO,
    "symbol": v.MEGABYTE,
    "bid": -0.0,
    "total": 2**64 - 1,
    "volume": -(2**63),
    "depth": 0,
    "code": 0,
    "maybe": 0,
    "small": 2**32 - 1,
    "fixed": 2**64 - 1,
    "signed": -(2**31),
    "rate": float("nan"),
    "at": -1,
    "took": -1,
}


class TestProtobuf(FormatConformance):
    case = FormatCase(
        make=make,
        rows=ROWS,
        edges=[ZERO, EDGE],
        records=st.lists(
            st.sampled_from(
                [
                    *(b"\x72\x01a", b"\x78\x05", b"\x42\x05\x0a\x01k\x10\x01", b"\x42\x05\x0a\x01k\x10\x02"),
                    *(b"\x42\x07\x0a\x01k\x10\x01\x18\x05", b"\x42\x00", b"\x62\x03\x0a\x01a", b"\x62\x02\x10\x05"),
                    *(b"\x08\x05", b"\x22\x01a", b"\xf8\x07\x05", b"\x0b\x0c", b"\xfb\x07\xfc\x07", b"\x50\x63"),
                    *(b"\x38\x01", b"\x3a\x02\x01\x02", b"\xa0\x80\x80\x80\x80\x01\x05", b"\x0a\x01\xff"),
                    *(b"\x5a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x5a\x06\x10\xff\xff\xff\xff\x07"),
                    *(b"\x62\x0e\x22\x05\x0a\x01k\x10\x01\x22\x05\x0a\x01k\x10\x02", b"\xa0\x01\x02", b"\x5a\x00"),
                ]
            ),
            max_size=4,
        ).map(b"".join),
        unfit=[{**ZERO, "small": -1}, {**ZERO, "total": 2**64}, {**ZERO, "signed": 2**31}],
        bad=[
            *[(b"\x0a\x05", "bad_protobuf"), (b"\x0a\x01\xff", "bad_utf8"), (b"\x00\x01", "bad_protobuf")],
            *[(b"\x5a\x0a\x08" + b"\xff" * 8 + b"\x7f", "out_of_range"), (b"\xfb\x07", "bad_protobuf")],
        ],
    )


def test_the_fast_way_is_taken() -> None:
    assert make()._handler is not None


def test_the_schema_names_package_and_message() -> None:
    schema = make().schema()
    assert schema.attrs == {"package": "market.data", "message": "Quote"}
    assert [(f.name, f.field_type.name) for f in schema.fields[:4]] == [
        *[("symbol", "string"), ("bid", "double"), ("total", "uint64"), ("volume", "int64")]
    ]


def test_a_descriptor_set_describes_what_its_source_does(tmp_path: Path) -> None:
    path = tmp_path / "quote.bin"
    path.write_bytes(compile_proto({"quote.proto": PROTO.read_text()}, "quote.proto", []))
    format_ = ProtobufFormat(ProtobufConfig(descriptor=path, message="market.data.Quote"))
    assert format_.schema() == make().schema()


def test_paths_lead_into_messages() -> None:
    format_ = make()
    row = {**ZERO, "leg": {"sku": "a", "qty": 1, "note": None, "tags": []}}
    row["legs"] = [row["leg"], {"sku": "b", "qty": 2, "note": "n", "tags": []}]
    fields = pa.schema([("$.leg.sku", pa.string()), ("$.legs[*].qty", pa.list_(pa.field("element", pa.int64())))])
    records = pa.array([format_.encode(row), format_.encode(ZERO)], pa.binary())
    assert format_.decode_batch(records, fields).rows.to_pylist() == [
        {"$.leg.sku": "a", "$.legs[*].qty": [1, 2]},
        {"$.leg.sku": None, "$.legs[*].qty": []},
    ]


def test_messages_of_proto2_are_decoded_too(tmp_path: Path) -> None:
    path = tmp_path / "old.proto"
    path.write_text('syntax = "proto2"; message Old { required string a = 1; optional int32 b = 2; }')
    format_ = ProtobufFormat(ProtobufConfig(proto=path, message="Old"))
    assert_alike(format_, [b"\x0a\x01x", b"\x10\x05", b"\x0a\x01\xff", b"\x0a\x01x\x10\x05"])


def test_a_message_that_holds_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tree.proto"
    path.write_text('syntax = "proto3"; message Tree { Tree left = 1; }')
    with pytest.raises(ConfigError, match="holds itself"):
        ProtobufFormat(ProtobufConfig(proto=path, message="Tree"))


def test_an_unknown_message_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        ProtobufFormat(ProtobufConfig(proto=PROTO, message="Trade"))
    assert "market.data.Quote" in caught.value.hint


def test_source_that_does_not_compile_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.proto"
    path.write_text('syntax = "proto3";\nmessage Q { strin a = 1; }')
    with pytest.raises(ConfigError, match=r"broken\.proto:2"):
        ProtobufFormat(ProtobufConfig(proto=path, message="Q"))


def test_encoding_a_column_that_is_no_field_is_refused() -> None:
    with pytest.raises(ConfigError, match="no field other"):
        make().encode_batch(pa.RecordBatch.from_pydict({"other": [1]}))


def test_columns_left_out_are_zero() -> None:
    format_ = make()
    records = format_.encode_batch(pa.RecordBatch.from_pydict({"symbol": ["a"]}))
    assert format_.decode(records[0].as_py()) == {**ZERO, "symbol": "a"}
    assert arrow_schema(format_.schema().fields).field("total").type == pa.decimal128(20, 0)
