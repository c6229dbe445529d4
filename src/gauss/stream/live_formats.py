"""Formats that get their columns from a running server: its location, and where a run stores the columns."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.config.spec import FormatDef, Pipeline
from gauss.contracts.format import FormatSpec
from gauss.contracts.outside import LiveFormatSpec, PullSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.model.paths import DataDir


def schema_dir(paths: DataDir, name: str) -> Path:
    """The folder in which a run stores the columns of a format."""
    return paths.root / "schemas" / name


def forget_schemas(paths: DataDir) -> None:
    """Removes the stored columns: a new run asks again, as tables may have changed in between."""
    shutil.rmtree(paths.root / "schemas", ignore_errors=True)


def with_live_formats(pipeline: Pipeline, paths: DataDir, *, keep: bool) -> Pipeline:
    """The pipeline with the server of each such format, and the table or query of the source that names it, in its
    config; with `keep` also the folder of its columns."""
    formats = [_located(definition, pipeline, paths, keep=keep) for definition in pipeline.formats]
    return pipeline.model_copy(update={"formats": formats})


def asks_server(pipeline: Pipeline, name: str) -> bool:
    """Whether only a running server knows the columns of a format."""
    return any(entry.name == name and _is_live(entry) for entry in pipeline.formats)


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
        config |= _source_settings(definition.name, pipeline)
    return definition.model_copy(update={"config": {**config, **definition.config}})


def _source_settings(name: str, pipeline: Pipeline) -> dict[str, Any]:
    """The settings of the first source whose `input` names the format."""
    for processor in pipeline.processors:
        spec = registry.spec(ProcessorSpec, processor.plugin)
        side = processor.config.get("input")
        if isinstance(spec, PullSpec) and isinstance(side, dict) and side.get("format") == name:
            return spec.tells(spec.validate(processor.config))
    return {}
