"""Hostile records between two valid ones: the valid ones pass, and the others only become errors."""

from __future__ import annotations

import io
import json
import random
import resource
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gauss import registry
from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import FormatSpec
from gauss.contracts.format_batch import batched
from gauss.contracts.format_guard import GuardedFormat
from gauss.model.details import MOST_DETAIL_BYTES
from gauss.plugins.formats.avro.container import close_container
from gauss.plugins.formats.avro.datum import write_long
from helpers.format_records import config, row_of

NAMES = ["json", "csv", "avro", "protobuf", "msgpack", "pg-binary"]
HUGE = 4 << 20
ANY = [
    *[b"", b"\0", b"[" * 100_000, b"{" * 100_000, b'{"a":' * 50_000, b"\xff" * HUGE, b"\0" * HUGE, b"1" * HUGE],
    *[b'"' * 999_999, b'{"at": "' + b"x" * HUGE + b'"}', b'{"day": "' + b"\\u0001" * 500_000 + b'"}'],
    *[b'{"qty": ' + b"9" * 100_000 + b"}", b'{"qty": 1e' + b"9" * 1000 + b"}", b'{"bid": ' + b"9" * HUGE + b"}"],
    *[b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff" * 1000, b"\x93" * 100_000, b"\n" * 1000],
    *[b"," * HUGE, b'"' + b"," * HUGE, b"x,1,1,true,2026-01-01," + b"9" * HUGE],
]


def built(name: str, config: dict[str, Any]) -> GuardedFormat:
    spec = registry.spec(FormatSpec, name)
    return batched(registry.build(spec, spec.validate(config)))


def container(schema: Any, body: bytes = b"", count: int = 1, codec: str = "null") -> bytes:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    made = close_container(text, body, count)
    return made.replace(b"\x14avro.codec\x08null", b"\x14avro.codec" + bytes([2 * len(codec)]) + codec.encode())


def record_of(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def branching(levels: int) -> dict[str, Any]:
    """A few lines of schema that expand to 2 ** levels fields."""
    node: Any = "int"
    for level in range(levels):
        inner = {"type": "record", "name": f"L{level}", "fields": [{"name": "a", "type": node}]}
        node = {"type": "record", "name": f"M{level}", "fields": [{"name": "x", "type": inner}]}
        node["fields"].append({"name": "y", "type": f"L{level}"})
    return record_of({"name": "root", "type": node})


AVRO = {
    "no type": container(record_of({"name": "a"})),
    "no name": container(record_of({"type": "int"})),
    "a name that is a number": container(record_of({"name": 7, "type": "int"})),
    "a field that is a number": container(record_of(7)),
    "fields that are a number": container({"type": "record", "name": "R", "fields": 7}),
    "an enum without symbols": container(record_of({"name": "a", "type": {"type": "enum", "name": "E"}})),
    "a fixed of no number": container(record_of({"name": "a", "type": {"type": "fixed", "name": "F", "size": "x"}})),
    "a fixed of 2^40": container(record_of({"name": "a", "type": {"type": "fixed", "name": "F", "size": 2**40}})),
    "a fixed below 0": container(record_of({"name": "a", "type": {"type": "fixed", "name": "F", "size": -(2**70)}})),
    "a decimal of no number": container(
        record_of({"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": "x"}})
    ),
    "a union of numbers": container(record_of({"name": "a", "type": [1, 2]})),
    "brackets": container("[" * 100_000),
    "no JSON": container("\0"),
    "half a surrogate": container('{"type": "record", "name": "\\ud800", "fields": []}'),
    "a type in itself": container(record_of({"name": "a", "type": "R"})),
    "a tree of 2^40 types": container(branching(40)),
    "a schema of 3 MB": container(record_of(*({"name": f"f{i}", "type": "int"} for i in range(100_000)))),
    "2^40 rows of nothing": container(record_of(), count=2**40),
    "2^62 rows of null": container(record_of({"name": "a", "type": "null"}), count=2**62),
    "a block that inflates": container(
        record_of({"name": "a", "type": "string"}), zlib.compress(bytes(300 << 20), 9, wbits=-15), 1, "deflate"
    ),
    "an unknown codec": container(record_of({"name": "a", "type": "string"}), b"x", 1, "lzma"),
}


def stream(table: pa.Table | pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write(table)
    return sink.getvalue()


def file_of(table: pa.Table, compression: str | None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def columns(**arrays: pa.Array) -> pa.Table:
    return pa.table({"symbol": pa.array(["x"] * len(next(iter(arrays.values())))), **arrays})


def dictionary(entries: pa.Array, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), entries)


def views(size: int, count: int) -> pa.Array:
    """A text that `count` rows share."""
    valid, one, *data = pa.array(["x" * size], pa.string_view()).buffers()
    return pa.Array.from_buffers(pa.string_view(), count, [valid, pa.py_buffer(one.to_pybytes()[:16] * count), *data])


ZEROS = pa.array(np.zeros(32 << 20, np.int64))
ARROW: dict[str, Callable[[], bytes]] = {
    "a dictionary of nulls": lambda: stream(columns(d=dictionary(pa.nulls(1), 1))),
    "a dictionary of no text": lambda: stream(columns(d=dictionary(pa.array([[1]]), 1))),
    "buffers that inflate": lambda: stream(pa.table({"symbol": ZEROS}), "zstd"),
    "buffers of a file that inflate": lambda: file_of(pa.table({"symbol": ZEROS}), "lz4"),
    "a dictionary that inflates": lambda: stream(
        pa.table({"symbol": dictionary(pa.array(["x" * (1 << 20)], pa.large_string()), 100_000)})
    ),
    "a billion nulls": lambda: stream(pa.table({"symbol": pa.nulls(1 << 30)})),
    "views of one text": lambda: stream(pa.table({"symbol": views(1 << 20, 100_000)})),
    "a list of nulls": lambda: stream(
        pa.table({"l": pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30))})
    ),
    "many columns": lambda: stream(pa.table({f"c{index}": pa.nulls(1) for index in range(20_000)})),
    "a decimal of an absurd scale": lambda: stream(columns(d=pa.array([1]).cast(pa.decimal128(38, 0)))),
    "no stream": lambda: b"\xff\xff\xff\xff" + b"\x7f" * 1000,
}


def assert_good_ones_pass(format_: GuardedFormat, good: bytes, hostile: bytes, fields: pa.Schema) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    decoded = format_.decode_batch(pa.array([good, hostile, good], pa.binary()), fields)
    alone = format_.decode_batch(pa.array([good], pa.binary()), fields)
    kept = decoded.good.tolist()
    assert kept.count(0) == kept.count(2) == len(alone.rows)
    rows = decoded.rows.to_pylist() if len(decoded.rows) < 10_000 else []
    assert not rows or rows[0] == rows[-1] == alone.rows.to_pylist()[0]
    assert {index for index, _, _ in decoded.bad} <= {1}
    for _, reason, detail in decoded.bad:
        assert reason
        assert len(detail.encode()) <= MOST_DETAIL_BYTES + 40
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600 << 10, f"{grown >> 10} MiB for {len(hostile)} bytes"


@pytest.mark.parametrize("hostile", ANY, ids=lambda record: f"{record[:12]!r}…{len(record)}")
@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_record_of_any_format_costs_itself(name: str, hostile: bytes, tmp_path: Path) -> None:
    format_ = built(name, config(name, tmp_path))
    schema = format_.schema()
    assert schema is not None
    good = format_.encode(row_of(format_, random.Random(1)))
    assert_good_ones_pass(format_, good, hostile, arrow_schema(schema.fields))


@pytest.mark.parametrize("kind", AVRO)
@pytest.mark.parametrize("has_schema", [True, False])
def test_a_hostile_avro_container_costs_itself(kind: str, *, has_schema: bool, tmp_path: Path) -> None:
    schema = record_of({"name": "a", "type": "string"})
    (tmp_path / "own.avsc").write_text(json.dumps(schema))
    format_ = built("avro", {"schema_file": str(tmp_path / "own.avsc")} if has_schema else {})
    good = container(schema, b"\x02x", 1)
    assert_good_ones_pass(format_, good, AVRO[kind], pa.schema([("a", pa.string())]))


@pytest.mark.parametrize("kind", ARROW)
@pytest.mark.parametrize("has_schema", [True, False])
def test_a_hostile_arrow_record_costs_itself(kind: str, *, has_schema: bool, tmp_path: Path) -> None:
    good = stream(pa.table({"symbol": ["x"]}))
    (tmp_path / "own.arrow").write_bytes(good)
    format_ = built("arrow", {"schema_file": str(tmp_path / "own.arrow")} if has_schema else {})
    assert_good_ones_pass(format_, good, ARROW[kind](), pa.schema([("symbol", pa.string())]))


@pytest.mark.parametrize("kind", ["avro", "arrow", "gzip"])
def test_records_that_are_large_together_are_decoded_in_parts_and_none_is_lost(kind: str) -> None:
    size = 20 << 20
    match kind:
        case "avro":
            format_ = built("avro", {})
            body = bytearray()
            write_long(size, body)
            packed = zlib.compress(bytes(body) + b"x" * size, 9, wbits=-15)
            record = container(record_of({"name": "data", "type": "string"}), packed, 1, "deflate")
        case "arrow":
            format_ = built("arrow", {})
            record = stream(pa.table({"data": ["x" * size]}), "zstd")
        case _:
            compressed = "gauss.plugins.processors.decompress.spec:COMPRESSED"
            format_ = built(compressed, {"algo": "gzip", "max_record_bytes": size})
            record = zlib.compress(b"x" * size, 9, wbits=31)
    fields = pa.schema([("data", pa.binary() if kind == "gzip" else pa.string())])
    parts = list(format_.decode_parts(pa.array([record] * 10, pa.binary()), fields))
    assert len(parts) > 1
    assert sum(part.records for part in parts) == 10
    assert max(part.decoded.rows.nbytes for part in parts) <= 65 << 20
    assert [part.first + index for part in parts for index in part.decoded.good] == list(range(10))
    assert not [bad for part in parts for bad in part.decoded.bad]


def test_schemas_that_records_bring_are_forgotten_again() -> None:
    format_ = built("avro", {})
    own = {"name": "a", "type": "string"}
    other = [{"name": f"f{number}", "type": "string", "doc": "x" * 500_000} for number in range(40)]
    good = [container(record_of(own, field), b"\x02x\x02y") for field in other]
    assert len(format_.decode_batch(pa.array(good, pa.binary()), pa.schema([("a", pa.string())])).rows) == 40
    assert format_._schemas._bytes <= 5 << 20
