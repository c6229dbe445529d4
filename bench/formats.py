"""Decoding and encoding alone, by batch, beside the Python library of each format called per record and, for JSON,
Spark's from_json."""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What is measured is one core's work; polars reads this when it is loaded.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import pyarrow as pa

from gauss import registry
from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.format_batch import batched

RECORDS = 100_000
BY_RECORD = 20_000
TIMES = 10
"""So often Spark gets the same records: a job of its own costs some time."""
FIELDS = {"symbol": "string", "bid": "double", "qty": "int64", "open": "bool"}
PG = {"string": "text", "double": "float8", "int64": "int8", "bool": "bool"}
AVRO = {"string": "string", "double": "double", "int64": "long", "bool": "boolean"}
SPARK = {"string": "string", "double": "double", "int64": "bigint", "bool": "boolean"}
PROTO = 'syntax = "proto3"; message Quote { string symbol = 1; double bid = 2; int64 qty = 3; bool open = 4; }'


def rows() -> pa.RecordBatch:
    """Quotes of 500 symbols."""
    random = np.random.default_rng(1)
    symbols = pa.array([f"SYM{number}" for number in range(500)])
    return pa.RecordBatch.from_pydict(
        {
            "symbol": symbols.take(pa.array(random.integers(0, 500, RECORDS))),
            "bid": np.round(random.random(RECORDS) * 1000, 4),
            "qty": random.integers(0, 10**6, RECORDS),
            "open": random.random(RECORDS) > 0.5,
        }
    )


def configs(folder: Path) -> dict[str, dict[str, Any]]:
    """Each format with the same four fields."""
    schema = {"type": "record", "name": "Quote", "fields": [{"name": n, "type": AVRO[t]} for n, t in FIELDS.items()]}
    (folder / "quote.avsc").write_text(json.dumps(schema))
    (folder / "quote.proto").write_text(PROTO)
    fields = [{"name": name, "type": kind} for name, kind in FIELDS.items()]
    return {
        "json": {"fields": fields},
        "csv": {"fields": fields},
        "avro": {"schema_file": str(folder / "quote.avsc")},
        "protobuf": {"proto": str(folder / "quote.proto"), "message": "Quote"},
        "msgpack": {"fields": fields},
        "pg-binary": {"fields": [{"name": name, "type": PG[kind]} for name, kind in FIELDS.items()]},
        "arrow": {},
    }


def libraries(folder: Path) -> dict[str, Callable[[bytes], Any]]:
    """What one would call by hand for one record."""
    import csv

    import fastavro
    import msgspec
    from google.protobuf.message_factory import GetMessageClass

    from gauss.plugins.formats.protobuf.descriptor import MessageTypes, compile_proto

    schema = fastavro.parse_schema(json.loads((folder / "quote.avsc").read_text()))
    quote = GetMessageClass(MessageTypes(compile_proto({"quote.proto": PROTO}, "quote.proto", [])).find("Quote"))
    return {
        "json": json.loads,
        "csv": lambda record: next(csv.reader([record.decode()])),
        "avro": lambda record: fastavro.schemaless_reader(io.BytesIO(record), schema),
        "protobuf": quote.FromString,
        "msgpack": msgspec.msgpack.decode,
    }


def rate(work: Callable[[], object], count: int, runs: int = 3) -> float:
    """Records per second of CPU, in the fastest run: the others were disturbed."""
    work()
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return count / best


def build(name: str, config: dict[str, Any]) -> Format:
    spec = registry.spec(FormatSpec, name)
    return batched(registry.build(spec, spec.validate(config)))


def compile_walks() -> None:
    """Measures the compiled walks, as a busy stream has them after its first seconds."""
    from gauss.plugins.formats.csv import walk as csv_walk
    from gauss.plugins.formats.json import walk as json_walk
    from gauss.plugins.formats.msgpack import walk as msgpack_walk

    for each in (csv_walk, json_walk, msgpack_walk):
        each.WALK.compile()


def millions(value: float) -> str:
    return f"{value / 1e6:.2f}"


def run() -> list[dict[str, object]]:
    """A row per format; rates in million records per second of one core."""
    compile_walks()
    table = rows()
    with tempfile.TemporaryDirectory() as folder:
        given = configs(Path(folder))
        by_hand = libraries(Path(folder))
        found = [measure(name, build(name, config), table, by_hand.get(name)) for name, config in given.items()]
    found[0]["from_json"] = millions(from_json(build("json", given["json"]).encode_batch(table)))
    return found


def from_json(data: pa.BinaryArray) -> float:
    """Records per second of the same four fields by Spark, on one core, with Java's optimising compiler."""
    from bench.spark_json import plain_java
    from pyspark.sql import functions as F

    from gauss.config.spec import SparkSection
    from gauss.model.paths import DataDir
    from gauss.spark import session
    from gauss.stream.driver.preload import PRELOAD

    ddl = ", ".join(f"{name} {SPARK[kind]}" for name, kind in FIELDS.items())
    with tempfile.TemporaryDirectory() as folder, plain_java():
        data_dir = DataDir(Path(folder))
        started = session.start(SparkSection(master="local[1]"), data_dir, preload=PRELOAD)
        spark = started.session
        try:
            texts = pa.table({"data": pa.chunked_array([data.cast(pa.string())] * TIMES)})
            records = spark.createDataFrame(texts).coalesce(1).cache()
            assert records.count() == TIMES * RECORDS
            parsed = records.select(F.from_json("data", ddl).alias("row")).select("row.*")
            best = float("inf")
            for _ in range(4):
                began = time.perf_counter()
                parsed.write.format("noop").mode("overwrite").save()
                best = min(best, time.perf_counter() - began)
        finally:
            started.stop()
    return TIMES * RECORDS / best


def measure(
    name: str, format_: Format, table: pa.RecordBatch, library: Callable[[bytes], Any] | None
) -> dict[str, object]:
    data = format_.encode_batch(table)
    schema = format_.schema()
    fields = arrow_schema(schema.fields) if schema else table.schema
    decoded = format_.decode_batch(data, fields)
    assert not decoded.bad, decoded.bad[:3]
    assert decoded.rows.num_rows == RECORDS
    decode = rate(lambda: format_.decode_batch(data, fields), RECORDS)
    row = {
        "format": name,
        "bytes": round(data.nbytes / RECORDS),
        "decode": millions(decode),
        "encode": millions(rate(lambda: format_.encode_batch(table), RECORDS, 1)),
        "library, decode per record": "",
        "decode / library": "",
        "from_json": "",
    }
    if library is not None:
        some = data.slice(0, BY_RECORD).to_pylist()
        one = rate(lambda: [library(record) for record in some], len(some))
        row |= {"library, decode per record": millions(one), "decode / library": f"{decode / one:.1f}"}
    return row


if __name__ == "__main__":
    for row in run():
        print(row)
