"""The name of a checkpoint's folder: a hash of everything that the checkpoint depends on."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import GaussError
from gauss.model.names import is_table_processor
from gauss.registry import spec
from gauss.stream.driver.planning.refs import format_ref, transform_ref

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline, ProcessorDef
    from gauss.contracts.format import SourceField

BESIDE_STATE = ("input", "output", "join_input", "late", "idle_timeout")
"""Keys of a processor's config that no state depends on: formats count by the fields that are decoded."""


def plan_hash(pipeline: Pipeline, processor: ProcessorDef, state: str = "") -> str:
    """A hash that changes when a checkpoint no longer fits: another plugin, config, topic or format. For a stateful
    processor (declared, or by `state` from its Spark plan), only the format's fields that the state uses count."""
    # The processor of a table has no plugin.
    found = None if is_table_processor(processor.name) else spec(ProcessorSpec, processor.plugin)
    config, formats = processor.config, _formats(pipeline, processor)
    depends = [state] if state else _decoded(pipeline, processor) if found is not None and found.stateful else None
    if depends is not None:
        config, formats = {key: value for key, value in config.items() if key not in BESIDE_STATE}, depends
    parts: list[Any] = [processor.plugin, config, formats]
    parts += [ref.topic if ref else None for ref in (processor.source, processor.target)]
    if found is not None and found.state_layout > 1:
        parts.append(found.state_layout)
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]


def _formats(pipeline: Pipeline, processor: ProcessorDef) -> list[Any]:
    """The plugins and full configs of its formats."""
    names = [(processor.config.get(side) or {}).get("format") for side in ("input", "output", "join_input")]
    return [[ref.plugin, ref.config] for name in names if (ref := format_ref(pipeline, name)) is not None]


def _decoded(pipeline: Pipeline, processor: ProcessorDef) -> list[Any] | None:
    """The formats' plugins and the fields that the transform takes from each; None if the transform can't be built,
    which its start reports."""
    try:
        ref = transform_ref(pipeline, processor)
        _, traits = ref.build()
    except (GaussError, RuntimeError):
        return None
    parts: list[Any] = [ref.input.plugin if ref.input else None, _types(traits.fields)]
    if ref.beside is not None and traits.beside is not None:
        parts += [ref.beside.format.plugin, _types(traits.beside.fields)]
    return parts


def _types(fields: list[SourceField]) -> list[Any]:
    return sorted([field.name, field.field_type.name, field.field_type.attrs] for field in fields)
