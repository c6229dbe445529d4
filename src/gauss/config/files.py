"""Checks that the files named in a config exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from gauss import registry
from gauss.config.faults import Scope
from gauss.config.spec import FormatDef, Pipeline, ProcessorDef, TopicDef
from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import TableSpec

D = TypeVar("D", FormatDef, ProcessorDef)


def check_files(config: BaseModel, base_dir: Path, scope: Scope) -> None:
    """Reports missing files: every `Path` is a file to read, unless its key ends in `_dir`."""
    for key in type(config).model_fields:
        value = getattr(config, key)
        if isinstance(value, BaseModel):
            check_files(value, base_dir, scope.inside(key))
        elif isinstance(value, Path) and not key.endswith("_dir"):
            check_file(value, key, base_dir, scope)


def check_file(file: Path, key: str, base_dir: Path, scope: Scope) -> None:
    """Reports a missing file. Relative paths start at the folder of the config file."""
    if not (base_dir / file).is_file():
        scope.add(
            (key,),
            f'"{key}" names a file that does not exist',
            expected="a file",
            found=str(base_dir / file),
            hint="" if file.is_absolute() else "relative paths start at the folder of the config file",
        )


def with_absolute_files(pipeline: Pipeline, base_dir: Path) -> Pipeline:
    """The pipeline with absolute file paths, for processes that run in another folder."""
    formats = [_with_files(definition, FormatSpec, base_dir) for definition in pipeline.formats]
    processors = [_with_files(definition, ProcessorSpec, base_dir) for definition in pipeline.processors]
    topics = [_with_table_files(topic, base_dir) for topic in pipeline.topics]
    return pipeline.model_copy(update={"formats": formats, "processors": processors, "topics": topics})


def _with_table_files(topic: TopicDef, base_dir: Path) -> TopicDef:
    spec = registry.spec(StorageSpec, topic.storage)
    if not isinstance(spec, TableSpec):
        return topic
    made = _absolute(spec.validate(topic.storage_config), topic.storage_config, base_dir)
    return topic.model_copy(update={"storage_config": made})


def _with_files(definition: D, kind: type[PluginSpec], base_dir: Path) -> D:
    model = registry.spec(kind, definition.plugin).validate(definition.config)
    return definition.model_copy(update={"config": _absolute(model, definition.config, base_dir)})


def _absolute(model: BaseModel, raw: dict[str, Any], base_dir: Path) -> dict[str, Any]:
    made = dict(raw)
    for key, value in raw.items():
        found = getattr(model, key, None)
        if isinstance(found, Path):
            made[key] = str(base_dir / found)
        elif isinstance(found, list) and found and all(isinstance(item, Path) for item in found):
            made[key] = [str(base_dir / item) for item in found]
        elif isinstance(found, BaseModel) and isinstance(value, dict):
            made[key] = _absolute(found, value, base_dir)
    return made
