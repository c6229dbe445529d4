"""The same fields as a config of every format that can have a schema, for tests that cross formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.stream.driver.planning.refs import FormatRef

_AVRO = {"string": "string", "double": "double", "int64": "long"}
_ARROW = {"string": pa.string(), "double": pa.float64(), "int64": pa.int64()}
_POSTGRES = {"string": "text", "double": "float8", "int64": "int8"}

WITH_SCHEMA = ("json", "msgpack", "csv", "avro", "protobuf", "arrow", "pg-binary")
"""Formats that can have a fixed schema."""


def format_config(plugin: str, folder: Path, fields: dict[str, str]) -> dict[str, Any]:
    """The config of a format plugin for these fields, each `string`, `double` or `int64`."""
    stem = folder / "-".join(fields)
    if plugin == "avro":
        path = stem.with_suffix(".avsc")
        columns = [{"name": name, "type": _AVRO[kind]} for name, kind in fields.items()]
        path.write_text(json.dumps({"type": "record", "name": "R", "fields": columns}))
        return {"schema_file": str(path)}
    if plugin == "protobuf":
        path = stem.with_suffix(".proto")
        lines = [f"{kind} {name} = {place};" for place, (name, kind) in enumerate(fields.items(), 1)]
        path.write_text('syntax = "proto3"; message R { ' + " ".join(lines) + " }")
        return {"proto": str(path), "message": "R"}
    if plugin == "arrow":
        path = stem.with_suffix(".arrow")
        path.write_bytes(pa.schema([(name, _ARROW[kind]) for name, kind in fields.items()]).serialize().to_pybytes())
        return {"schema_file": str(path)}
    if plugin == "pg-binary":
        return {"fields": [{"name": name, "type": _POSTGRES[kind]} for name, kind in fields.items()]}
    return {"fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def format_ref(plugin: str, folder: Path, fields: dict[str, str]) -> FormatRef:
    """The format reference that the driver makes of such a config."""
    return FormatRef(plugin, format_config(plugin, folder, fields))
