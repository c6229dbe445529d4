"""Base of all plugin kinds: a spec that is registered and checked before the plugin is built.

A spec is light: `gauss check` loads it without pyarrow or Spark. The implementation is in its own module, named by
`implementation` and imported when the plugin is constructed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from gauss.model.units import duration_ms, size_bytes

ABI_VERSION = 2
"""Incremented by incompatible changes of the contracts."""

# Serialized with its unit, since a bare number is refused on load.
Millis = Annotated[int, BeforeValidator(duration_ms), PlainSerializer(lambda ms: f"{ms}ms", when_used="json")]
"""Milliseconds, written as `"250ms"`, `"10s"`, `"1m"`."""
Bytes = Annotated[int, BeforeValidator(size_bytes)]
"""Bytes, written as a number or as `"64MiB"`."""


class PluginConfig(BaseModel):
    """Base of every plugin's config. Rejects unknown keys and is immutable.

    A `Path` field names an existing file, unless its name ends in `_dir`: a folder that is created if necessary. A
    validator of the whole model raises `PydanticCustomError` with the key at fault as `key` in its context.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    ABSENT: ClassVar[dict[str, str]] = {}
    """Hints for keys that other plugins of the kind have and this one lacks."""


@dataclass(frozen=True, kw_only=True)
class PluginSpec:
    """A plugin's name, config model and constructor. Each kind adds its capabilities as data."""

    KIND: ClassVar[str]

    name: str
    summary: str
    config: type[PluginConfig]
    implementation: str
    """`package.module:Class`, called with the arguments of the kind's contract. If the result has a `close`, it is
    called once."""
    abi: int = ABI_VERSION

    def validate(self, config: dict[str, Any]) -> PluginConfig:
        """The typed config. Raises pydantic's ValidationError, which the check reports as faults."""
        return self.config.model_validate(config)
