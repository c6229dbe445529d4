"""Imports and runs once what hosted tasks need, so that forked tasks share its memory pages. Nothing here may start a
thread."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import cast

import pyarrow as pa

from gauss import registry
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.transform import ArrowTransform
from gauss.model.names import DATA_COLUMN, TS_MS_COLUMN
from gauss.stream.driver.planning.refs import FormatRef, TransformRef

OWN = "gauss."


def _load_transforms() -> None:
    for entry in entry_points(group="gauss.processors"):
        if entry.value.startswith(OWN) and (found := registry.spec(ProcessorSpec, entry.name)).hosted:
            importlib.import_module(found.implementation.partition(":")[0])


def _run_once() -> None:
    """Runs records through a format, a filter and an expression as tasks do: builds the grammar and triggers lazy
    imports."""
    json = FormatRef("json", {"fields": [{"name": "n", "type": "int64"}]})
    data = pa.array([b'{"n":1}', b'{"n":0}'], pa.binary())
    for plugin, config in (("filter", {"where": ".n > 0"}), ("expression", {"add": {"m": ".n + 1"}})):
        transform, traits = TransformRef(plugin, {"input": {"format": "json"}, **config}, input=json).build()
        schema = pa.schema([pa.field(each.name, pa.int64()) for each in traits.fields])
        rows = json.build().decode_batch(data, schema).rows
        rows = rows.append_column(TS_MS_COLUMN, pa.array([0, 0])).append_column(DATA_COLUMN, data)
        cast("ArrowTransform", transform).arrow(rows)


_load_transforms()
_run_once()
