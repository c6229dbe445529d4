"""Formats that ask a running system for their columns: whom they ask, and where a run keeps the answer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.config.spec import FormatDef, Pipeline
from gauss.contracts.format import FormatSpec
from gauss.contracts.live import LiveFormatSpec, PullSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.model.paths import DataDir


def schema_dir(paths: DataDir, name: str) -> Path:
    """Where a run keeps the columns of a format."""
    return paths.root / "schemas" / name


def forget_schemas(paths: DataDir) -> None:
    """A new run asks again: tables change while nothing runs."""
    shutil.rmtree(paths.root / "schemas", ignore_errors=True)


def with_live_formats(pipeline: Pipeline, paths: DataDir, *, keep: bool) -> Pipeline:
    """The pipeline with such formats told where their server is and what the source that names them reads; with `keep`
    also where the columns are kept."""
    formats = [_located(definition, pipeline, paths, keep=keep) for definition in pipeline.formats]
    return pipeline.model_copy(update={"formats": formats})


def asks_server(pipeline: Pipeline, name: str) -> bool:
    """Whether the columns of a format are known to a running system alone."""
    definition = pipeline.format(name)
    return definition is not None and _is_live(definition)


def _is_live(definition: FormatDef) -> bool:
    live = isinstance(registry.spec(FormatSpec, definition.plugin), LiveFormatSpec)
    return live and "fields" not in definition.config


def _located(definition: FormatDef, pipeline: Pipeline, paths: DataDir, *, keep: bool) -> FormatDef:
    if not _is_live(definition):
        return definition
    spec = registry.spec(LiveFormatSpec, definition.plugin)
    config: dict[str, Any] = {"embedded_dir": str(paths.server(spec.system))}
    if keep:
        config["schema_dir"] = str(schema_dir(paths, definition.name))
    if not {"table", "query"} & definition.config.keys():
        config |= _told(definition.name, pipeline)
    return definition.model_copy(update={"config": {**config, **definition.config}})


def _told(name: str, pipeline: Pipeline) -> dict[str, Any]:
    """By the first source whose `input` names the format."""
    for processor in pipeline.processors:
        spec = registry.spec(ProcessorSpec, processor.plugin)
        side = processor.config.get("input")
        if isinstance(spec, PullSpec) and isinstance(side, dict) and side.get("format") == name:
            return spec.tells(spec.validate(processor.config))
    return {}
