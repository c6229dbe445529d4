"""Outside systems that a pipeline reads: sources that pull from one, and formats whose schema one of them knows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec

if TYPE_CHECKING:
    from gauss.contracts.chunk import Chunk
    from gauss.contracts.edge import EdgeStatus


@dataclass(frozen=True, kw_only=True)
class PullSpec(ProcessorSpec):
    """A source that asks for its records; `implementation(PullContext)` gives an `Edge`."""

    system: str
    """Whose embedded server it is when the config names none."""
    server: Callable[[PluginConfig], tuple[str, int] | None]
    """Host and port of the server that the config names (no host: it can't be told); None: the embedded one."""
    repeats: Callable[[PluginConfig], str]
    """Why a record may come twice, empty when it can't."""
    losses: Callable[[PluginConfig], str]
    """How a record may be missed, empty when it can't."""
    tells: Callable[[PluginConfig], dict[str, Any]]
    """What the format that its `input` names is told of the records' origin, as keys of the format's config."""


@dataclass(frozen=True, kw_only=True)
class LiveFormatSpec(FormatSpec):
    """Without `fields` in its config the schema is asked of a running system. A run fills in the keys `embedded_dir`
    (the folder of the embedded server) and `schema_dir` (where the schema is kept, so that it is one for the run)."""

    system: str


@dataclass(frozen=True)
class PullContext:
    """Everything a pulling source is given."""

    name: str
    config: PluginConfig
    embedded_dir: Path
    """Folder of the embedded server of its system."""
    schema_dir: Path | None
    """Where the schema of the format that its `input` names is kept."""
    position: str
    """What was published with the last records; empty before the first."""
    publish: Callable[[Chunk | None, str, threading.Event], None]
    """Adds records and keeps the position, both or neither; waits while the topic is full, until the event is set,
    and then raises Unavailable."""
    may_read: Callable[[], bool]
    """False while the disk is below `min_free_bytes`."""
    status: EdgeStatus
