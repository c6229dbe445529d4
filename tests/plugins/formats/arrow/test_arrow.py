"""arrow runs the conformance suite; records of many rows, dictionaries, files."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gauss.contracts.format import BadRecord
from gauss.model.errors import ConfigError
from gauss.plugins.formats.arrow.codec import ArrowFormat
from gauss.plugins.formats.arrow.spec import ArrowConfig
from helpers import format_values as v
from helpers.format_conformance import FormatCase, FormatConformance, assert_alike, same

SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "wide": pa.large_string(),
        "big": pa.uint64(),
        "tiny": pa.uint8(),
        "real": pa.float64(),
        "money": pa.decimal128(38, 8),
        "us": pa.timestamp("us", tz="UTC"),
        "ns": pa.timestamp("ns", tz="UTC"),
        "day": pa.date32(),
        "raw": pa.binary(),
        "coded": pa.dictionary(pa.int8(), pa.string()),
        "list": pa.list_(pa.uint64()),
        "map": pa.map_(pa.int32(), pa.string()),
        "inner": pa.struct([("x", pa.uint64()), ("y", pa.string())]),
    }
)


def make(schema: pa.Schema | None = SCHEMA) -> ArrowFormat:
    if schema is None:
        return ArrowFormat(ArrowConfig())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.arrow"
        path.write_bytes(schema.serialize().to_pybytes())
        return ArrowFormat(ArrowConfig(schema_file=path))


def stream(batch: pa.RecordBatch, *, file: bool = False) -> bytes:
    sink = pa.BufferOutputStream()
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


ROWS = st.fixed_dictionaries(
    {
        "text": st.none() | v.TEXT,
        "wide": st.none() | v.TEXT,
        "big": st.none() | v.UINT64,
        "tiny": st.none() | st.integers(0, 255),
        "real": st.none() | v.DOUBLE,
        "money": st.none() | v.DECIMAL_38_8,
        "us": st.none() | v.TIMES,
        "ns": st.none() | v.INT64,
        "day": st.none() | v.DATES,
        "raw": st.none() | st.binary(max_size=3),
        "coded": st.none() | v.TEXT,
        "list": st.none() | st.lists(st.none() | v.UINT64, max_size=3),
        "map": st.none()
        | st.dictionaries(v.INT32, v.TEXT, max_size=2).map(lambda d: [{"key": k, "value": t} for k, t in d.items()]),
        "inner": st.none() | st.fixed_dictionaries({"x": st.none() | v.UINT64, "y": st.none() | v.TEXT}),
    }
)
EDGE: dict[str, Any] = {
    "text": "",
    "wide": v.MEGABYTE,
    "big": 2**64 - 1,
    "tiny": 255,
    "real": -0.0,
    "money": v.BIG_DECIMAL,
    "ns": -1,
    "us": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "day": dt.date(1, 1, 1),
    "raw": b"",
    "coded": "",
    "list": [],
    "map": [],
    "inner": {"x": None, "y": None},
}
SMALL = make(pa.schema({"a": pa.int64()}))


class TestArrow(FormatConformance):
    case = FormatCase(
        make=make,
        rows=ROWS,
        edges=[EDGE, dict.fromkeys(SCHEMA.names)],
        unfit=[{**EDGE, "tiny": 256}, {**EDGE, "big": -1}],
        bad=[
            *[(b"", "bad_arrow"), (b"x" * 40, "bad_arrow"), (make().encode(EDGE)[:-300], "bad_arrow")],
            (SMALL.encode({"a": 1}), "missing_field"),
        ],
    )


def test_a_record_of_many_rows_gives_them_all() -> None:
    format_ = make()
    records = format_.encode_batch(pa.RecordBatch.from_pylist([EDGE] * 3, schema=_columns(format_)))
    assert len(records) == 1
    decoded = format_.decode_batch(pa.array([*records.to_pylist(), b"bad", *records.to_pylist()]), _columns(format_))
    assert decoded.good.tolist() == [0, 0, 0, 2, 2, 2]
    assert decoded.spread
    assert same(decoded.rows.to_pylist()) == same([EDGE] * 6)
    with pytest.raises(BadRecord, match="3 rows"):
        format_.decode(records[0].as_py())


def _columns(format_: ArrowFormat) -> pa.Schema:
    from gauss.contracts.field_types import arrow_schema

    schema = format_.schema()
    assert schema is not None
    return arrow_schema(schema.fields)


def test_without_a_schema_records_bring_their_own() -> None:
    format_ = make(None)
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1, 2], pa.uint64()), "b": ["x", None]})
    for record in (stream(batch), stream(batch, file=True)):
        assert format_.decode_rows(record) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
        decoded = format_.decode_batch(pa.array([record]), pa.schema([("a", pa.decimal128(20, 0))]))
        assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 2}]


def test_a_column_of_a_type_that_fits_is_taken_and_one_that_does_not_is_refused() -> None:
    records = [stream(pa.RecordBatch.from_pydict({"a": pa.array([7], pa.int32())}))]
    records.append(stream(pa.RecordBatch.from_pydict({"a": ["text"]})))
    assert SMALL.decode(records[0]) == {"a": 7}
    with pytest.raises(BadRecord) as caught:
        SMALL.decode(records[1])
    assert caught.value.reason == "wrong_type"
    assert_alike(SMALL, records)


def test_a_schema_file_without_a_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.arrow"
    path.write_bytes(b"no schema here")
    with pytest.raises(ConfigError, match="no Arrow schema"):
        ArrowFormat(ArrowConfig(schema_file=path))


@pytest.mark.parametrize("scale", [-1, 39, 2_000_000_000])
@pytest.mark.parametrize("wrap", [lambda kind: kind, pa.list_, lambda kind: pa.struct([("x", kind)])])
def test_a_decimal_of_an_absurd_scale_is_refused_before_anything_casts_it(scale: int, wrap: Any) -> None:
    record = stream(pa.RecordBatch.from_arrays([pa.nulls(1, wrap(pa.decimal128(38, scale)))], names=["money"]))
    with pytest.raises(BadRecord, match="with scale"):
        make(None).decode(record)
