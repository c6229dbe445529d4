"""What every plugin kind has in common: a spec that is registered, checked and only then built.

A spec is light: `gauss check` loads it without pyarrow or Spark. The implementation stands in a module of
its own, named by `implementation` and imported when the plugin is constructed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from gauss.model.units import duration_ms, size_bytes

ABI_VERSION = 1
"""Raised when a contract changes in a way that an existing plugin would notice."""

# Written to JSON with its unit, so that what was dumped can be read again: a bare number is refused.
Millis = Annotated[int, BeforeValidator(duration_ms), PlainSerializer(lambda ms: f"{ms}ms", when_used="json")]
"""Milliseconds, written as `"250ms"`, `"10s"`, `"1m"`."""
Bytes = Annotated[int, BeforeValidator(size_bytes)]
"""Bytes, written as a number or as `"64MiB"`."""


class PluginConfig(BaseModel):
    """Base of every plugin's config: unknown keys are refused, values can't change after the check.

    A `Path` field names a file that must be there, unless its name ends in `_dir`: a folder that may be made. A rule
    about the whole table raises `PydanticCustomError` with the key it means as `key` in its context.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    ABSENT: ClassVar[dict[str, str]] = {}
    """Keys that other plugins of the kind have and this one has not: what to do instead."""


@dataclass(frozen=True, kw_only=True)
class PluginSpec:
    """A plugin's name, config model and constructor; each kind adds its capabilities as data."""

    KIND: ClassVar[str]

    name: str
    summary: str
    config: type[PluginConfig]
    implementation: str
    """`package.module:Class`, called with what the kind's contract says. If what it gives has a `close`, that is called
    once."""
    abi: int = ABI_VERSION

    def validate(self, config: dict[str, Any]) -> PluginConfig:
        """The typed config; raises pydantic's ValidationError, which the check turns into faults."""
        return self.config.model_validate(config)
