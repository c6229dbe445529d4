"""Captures: byte streams stored unchanged, one file per connection, and the edges that move them."""

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
    """The file of one open connection. Its owner writes to the descriptor."""

    path: Path
    fd: int

    def grew(self, size: int) -> None:
        """Counts bytes written to the file."""
        ...

    def end(self, *, whole: bool) -> None:
        """Ends the file. `whole`: the sender closed the stream; else it was cut off."""
        ...


class CaptureStore(Store, Protocol):
    """The folder of a topic's captures."""

    @property
    def bytes(self) -> int: ...

    @property
    def count(self) -> int: ...

    def begin(self, peer: str) -> Capture: ...

    def finished(self) -> list[Path]:
        """The finished captures, oldest first."""
        ...

    def has_room(self) -> bool:
        """Whether there is room to write. Removes the oldest captures first if the config allows it."""
        ...

    def maintain(self) -> None:
        """Syncs by interval and removes captures by age. Called about every second."""
        ...


class CaptureHandle(Protocol):
    """A topic of captures, as seen by an edge."""

    name: str

    def begin(self, peer: str) -> Capture: ...

    def finished(self) -> list[Path]: ...

    def has_room(self) -> bool: ...


@dataclass(frozen=True)
class RawContext:
    """Arguments of an edge in passthrough mode."""

    name: str
    config: PluginConfig
    captures: CaptureHandle | None
    """The topic that stores the streams. `None`: they are only forwarded."""
    transport: Transport
    may_read: Callable[[], bool]
    """False while the disk is below `min_free_bytes`: the source then stops reading from its socket."""
    status: EdgeStatus
    stopping: threading.Event
