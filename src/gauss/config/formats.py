"""Formats by name: a `[[formats]]` entry, or a format plugin that needs no settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gauss import registry
from gauss.config.spec import Pipeline
from gauss.contracts.format import FormatSpec
from gauss.model.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from gauss.contracts.format_guard import GuardedFormat


def build_format(plugin: str, config: Mapping[str, Any]) -> GuardedFormat:
    """A format by plugin and settings."""
    from gauss.contracts.format_batch import batched  # brings pyarrow

    spec = registry.spec(FormatSpec, plugin)
    return batched(registry.build(spec, spec.validate(dict(config))))


def named_format(pipeline: Pipeline, name: str) -> GuardedFormat:
    """The format that a pipeline calls by this name."""
    definition = pipeline.format(name)
    return build_format(definition.plugin, definition.config)


def requested_format(pipeline: Pipeline, name: str) -> GuardedFormat:
    """As `named_format`, for a name that comes from a request: `module:NAME` is refused. Raises ConfigError."""
    defined = any(entry.name == name for entry in pipeline.formats)
    try:
        if not defined:
            registry.installed(FormatSpec, name)
        return named_format(pipeline, name)
    except PluginError as error:
        known = ", ".join(sorted({*(entry.name for entry in pipeline.formats), *registry.names(FormatSpec)}))
        hint = error.hint if defined else f"there are: {known}"
        raise ConfigError(f'no format "{name}": {error.message}', hint=hint) from None
    except ValidationError:
        raise ConfigError(
            f'the format "{name}" needs settings', hint=f'add [[formats]] with plugin = "{name}" and its config'
        ) from None
