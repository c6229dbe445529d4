"""What hosted tasks need, loaded and used once: in those that are forked from a process which imported this it lies on
shared pages. Nothing here may start a thread."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

import pyarrow as pa

from gauss import registry
from gauss.contracts.format import FormatSpec
from gauss.contracts.processor import ProcessorSpec

OWN = "gauss."


def _load_transforms() -> None:
    for entry in entry_points(group="gauss.processors"):
        if entry.value.startswith(OWN) and (found := registry.spec(ProcessorSpec, entry.name)).hosted:
            importlib.import_module(found.implementation.partition(":")[0])


def _run_once() -> None:
    """A record through a format and a program: the grammar is built, and what loads late is there."""
    json, filter_ = registry.spec(FormatSpec, "json"), registry.spec(ProcessorSpec, "filter")
    format_ = registry.build(json, json.validate({"fields": [{"name": "n", "type": "int64"}]}))
    transform = registry.build(filter_, filter_.validate({"input": {"format": "json"}, "where": ".n > 0"}))
    fields = transform.bind(format_.schema(), None)
    schema = pa.schema([pa.field(each.name, pa.int64()) for each in fields])
    data = pa.array([b'{"n":1}', b'{"n":0}'], pa.binary())
    rows = format_.decode_batch(data, schema).rows
    transform.arrow(rows.append_column("_ts_ms", pa.array([0, 0])).append_column("_data", data))


_load_transforms()
_run_once()
