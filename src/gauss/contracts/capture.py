"""Captures: byte streams kept as they came, one file per connection, and the edges that move them uncut."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gauss.contracts.storage import Store

if TYPE_CHECKING:
    from gauss.contracts.edge import EdgeStatus
    from gauss.contracts.plugin import PluginConfig
    from gauss.contracts.transport import Transport


class Capture(Protocol):
    """One connection's file while it is written; its owner writes to the descriptor, from the start on."""

    path: Path
    fd: int

    def grew(self, size: int) -> None:
        """So many more bytes are in the file."""
        ...

    def end(self, *, whole: bool) -> None:
        """The stream is over: `whole` when its sender ended it, else it was cut off."""
        ...


class CaptureStore(Store, Protocol):
    """A storage's folder of captures."""

    @property
    def bytes(self) -> int: ...

    @property
    def count(self) -> int: ...

    def begin(self, peer: str) -> Capture: ...

    def finished(self) -> list[Path]:
        """The captures that are over, oldest first."""
        ...

    def has_room(self) -> bool:
        """Whether more may be written; makes room first where the config lets the oldest go."""
        ...

    def maintain(self) -> None:
        """Called every second or so: sync by interval, retention by age."""
        ...


class CaptureHandle(Protocol):
    """A topic of captures, as an edge sees it."""

    name: str

    def begin(self, peer: str) -> Capture: ...

    def finished(self) -> list[Path]: ...

    def has_room(self) -> bool: ...


@dataclass(frozen=True)
class RawContext:
    """Everything that an edge in passthrough mode is given."""

    name: str
    config: PluginConfig
    captures: CaptureHandle | None
    """The topic that keeps its streams; None: it only forwards them."""
    transport: Transport
    may_read: Callable[[], bool]
    """False while the disk is below `min_free_bytes`: a source then leaves bytes in the socket."""
    status: EdgeStatus
    stopping: threading.Event
