"""The name of a checkpoint's folder: a hash of everything that the checkpoint depends on, and of nothing else."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, cast

import msgspec

from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import GaussError
from gauss.registry import spec
from gauss.stream.driver.plan import format_ref, transform_ref
from gauss.stream.graph import TABLE_PREFIX

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline, ProcessorDef
    from gauss.contracts.format import SourceField
    from gauss.contracts.two_sided import TwoSided

BESIDE_STATE = ("input", "output", "join_input", "late", "idle_timeout")
"""Keys of a processor's config that no state depends on: formats count by the fields that are decoded."""


def plan_hash(pipeline: Pipeline, processor: ProcessorDef, state: str = "") -> str:
    """Changes when a checkpoint no longer fits: another plugin, config, topic or format. Of a processor with state,
    declared or (`state`) found in its Spark plan, a format counts only by what the state takes from it."""
    # The query of a table is no plugin's.
    found = None if processor.name.startswith(TABLE_PREFIX) else spec(ProcessorSpec, processor.plugin)
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
    """Its formats, whole."""
    names = [(processor.config.get(side) or {}).get("format") for side in ("input", "output", "join_input")]
    return [[ref.plugin, ref.config] for name in names if (ref := format_ref(pipeline, name)) is not None]


def _decoded(pipeline: Pipeline, processor: ProcessorDef) -> list[Any] | None:
    """The formats' plugins and the fields that the transform takes from each; None if the transform can't be built,
    which its start reports."""
    try:
        ref = transform_ref(pipeline, processor)
        transform, fields = ref.build()
    except (GaussError, RuntimeError):
        return None
    parts: list[Any] = [ref.input.plugin if ref.input else None, _types(fields)]
    if ref.beside is not None:
        parts += [ref.beside.format.plugin, _types(cast("TwoSided", transform).beside_fields)]
    return parts


def _types(fields: list[SourceField]) -> list[Any]:
    return sorted([field.name, field.field_type.name, field.field_type.attrs] for field in fields)
