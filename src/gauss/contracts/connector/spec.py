"""How connectors are registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from gauss.contracts.plugin import PluginConfig, PluginSpec


@dataclass(frozen=True, kw_only=True)
class ConnectorSpec(PluginSpec):
    """A source or destination. `implementation(host)` returns it; it gets its config by `open`."""

    version: str = "1"
    system: str = ""
    """The embedded server to use if the config names none. Empty if there is no embedded one."""
    server: Callable[[PluginConfig], tuple[str, int] | None] = lambda _: None
    """Host and port of the server in the config (no host: unknown). `None`: the embedded one, or none at all."""


@dataclass(frozen=True, kw_only=True)
class SourceSpec(ConnectorSpec):
    KIND: ClassVar[str] = "source"

    own_cursor: bool = False
    """Incremental streams need no cursor field: the source has positions of its own, such as files or offsets."""


@dataclass(frozen=True, kw_only=True)
class DestinationSpec(ConnectorSpec):
    KIND: ClassVar[str] = "destination"

    writes: frozenset[str] = frozenset({"append"})
    """Supported write modes."""
    whole_names: bool = False
    """Whether a stream has its whole name at the destination by default, and not only the last part."""
    repeats: Callable[[PluginConfig], str] = lambda _: ""
    """Why a row may be duplicated. Empty if it cannot."""
