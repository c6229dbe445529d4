"""A config per format with the same fields, and random rows for it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gauss.contracts.format import Format

KINDS = {"symbol": "string", "bid": "double", "qty": "int64", "open": "bool", "day": "date", "at": "timestamp"}
PG = {"string": "text", "double": "float8", "int64": "int8", "timestamp": "timestamptz"}
AVRO: dict[str, Any] = {
    "string": "string",
    "double": ["null", "double"],
    "int64": "long",
    "bool": "boolean",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Quote { string symbol = 1; optional double bid = 2; int64 qty = 3; bool open = 4; int32 day = 5;
  google.protobuf.Timestamp at = 6; repeated int64 sizes = 7; map<string, int64> counts = 8; }"""


def config(name: str, folder: Path) -> dict[str, Any]:
    if name == "avro":
        fields = [{"name": field, "type": AVRO[kind]} for field, kind in KINDS.items()]
        (folder / "quote.avsc").write_text(json.dumps({"type": "record", "name": "Quote", "fields": fields}))
        return {"schema_file": str(folder / "quote.avsc")}
    if name == "protobuf":
        (folder / "quote.proto").write_text(PROTO)
        return {"proto": str(folder / "quote.proto"), "message": "Quote"}
    spelled = PG if name == "pg-binary" else {}
    return {"fields": [{"name": field, "type": spelled.get(kind, kind)} for field, kind in KINDS.items()]}


def row_of(format_: Format, chance: random.Random) -> dict[str, Any]:
    """A random row of the format's schema."""
    import datetime as dt

    schema = format_.schema()
    assert schema is not None
    made: dict[str, Callable[[], Any]] = {
        "symbol": lambda: "".join(chance.choices('abc"\\,é\n ', k=chance.randrange(6))),
        "bid": lambda: chance.choice([None, 0.0, 1.5, -1e300, chance.random()]) if chance.random() < 0.9 else -0.0,
        "qty": lambda: chance.choice([0, -1, 2**63 - 1, -(2**63), chance.randrange(1000)]),
        "open": lambda: chance.random() < 0.5,
        "day": lambda: dt.date.fromordinal(chance.randrange(1, 3_000_000)),
        "at": lambda: dt.datetime(2026, 1, 2, 3, 4, 5, chance.randrange(10**6), tzinfo=dt.UTC),
        "sizes": lambda: [chance.randrange(-5, 5) for _ in range(chance.randrange(3))],
        "counts": lambda: [("a", 1)] * chance.randrange(2),
    }
    row = {field.name: made[field.name]() for field in schema.fields}
    if "sizes" in row:  # in protobuf, dates and times are numbers
        row |= {"day": row["day"].toordinal(), "at": chance.randrange(-(2**63), 2**63)}
    return row
