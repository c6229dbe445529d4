"""What every plugin kind has in common: a spec that is registered, checked and only then built.

A spec is light: `gauss check` loads it without pyarrow or Spark. The implementation stands in a module of
its own, named by `implementation` and imported when the plugin is constructed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

ABI_VERSION = 1
"""Raised when a contract changes in a way that an existing plugin would notice."""


class PluginConfig(BaseModel):
    """Base of every plugin's config: unknown keys are refused, values can't change after the check."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, kw_only=True)
class PluginSpec:
    """A plugin's name, config model and constructor; each kind adds its capabilities as data."""

    KIND: ClassVar[str]

    name: str
    summary: str
    config: type[PluginConfig]
    implementation: str
    """`package.module:Class`, called with what the kind's contract says."""
    abi: int = ABI_VERSION

    def validate(self, config: dict[str, Any]) -> PluginConfig:
        """The typed config; raises pydantic's ValidationError, which the check turns into faults."""
        return self.config.model_validate(config)
