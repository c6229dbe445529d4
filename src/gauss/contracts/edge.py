"""Edges (sockets ↔ topics) and transforms on whole chunks, which run inside the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    from gauss.contracts.chunk import Chunk
    from gauss.contracts.cursor import Program, ReaderCursor
    from gauss.contracts.format import Format
    from gauss.contracts.framing import Framing
    from gauss.contracts.letter import Letter
    from gauss.contracts.plugin import PluginConfig
    from gauss.contracts.transport import Transport


class Appended(NamedTuple):
    """Result of an append: number of visible records, and of records dropped by `write_full = "drop"`."""

    accepted: int
    dropped: int
    end: int


class ReaderHandle(Protocol):
    """A registered offset reader. While it is open, a blocking topic retains the records it has not passed."""

    position: int
    peer: str
    """The client's address, for display. Set by the edge."""

    def take_seek(self) -> int | None:
        """The new position if the reader was moved (`seek`) since the last call."""
        ...

    def move(self, offset: int) -> None:
        """Marks everything below `offset` as passed. Wakes writers that wait for room. Does nothing between a seek and
        `take_seek`."""
        ...

    def missed(self, count: int) -> None:
        """Counts records that were overwritten before this reader read them."""
        ...

    def close(self) -> None: ...


class BlockedBy(Protocol):
    """The reader that blocks writers of a full topic."""

    @property
    def reader(self) -> str: ...

    @property
    def peer(self) -> str: ...


class TopicHandle(Protocol):
    """A topic, as seen by edges and transforms in the engine."""

    name: str
    inc: int

    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:
        """Appends records. Blocks while the topic is full with `write_full = "block"`, until `cancel`. Records that the
        topic's framing cannot hold become dead letters."""
        ...

    def open(self, program: Program) -> ReaderCursor: ...

    def version(self) -> int: ...

    def floor(self) -> int: ...

    def wait(self, version: int, timeout: float) -> int: ...

    def blocked(self) -> BlockedBy | None:
        """The reader that blocks writers. `None` if no writer waits."""
        ...

    def bytes_from(self, offset: int) -> int:
        """Bytes from `offset` to the end: the lag of a reader at `offset`."""
        ...

    def reader(self, name: str, start: str | int, *, keep: bool) -> ReaderHandle:
        """Registers an offset reader. `start`: `earliest`, `end`, `resume` or an offset. `keep`: its position survives
        the connection and the process."""
        ...


HANDSHAKE = "handshake"
GREETED = "greeted"


@dataclass
class EdgeStatus:
    """Status of an edge, for `top`, health and metrics."""

    state: str = "starting"
    address: str = ""
    """The address it listens on or connects to."""
    detail: str = ""
    """The last error."""
    connections: int = 0
    accepted: int = 0
    refused: int = 0
    records: int = 0
    bytes: int = 0
    dead: int = 0
    clients: dict[str, dict[str, object]] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    """Phase of connections that pass no records yet, by peer address: `handshake` (not counted as a connection), then
    for example `detecting encoding`."""

    def shown(self) -> str:
        """The state, or the phase if all connections are in one."""
        begun = [phase for phase in list(self.phases.values()) if phase != HANDSHAKE]
        if self.state != "running" or not self.phases or self.connections > len(begun):
            return self.state
        return next(iter(begun), HANDSHAKE)

    def set_running(self) -> None:
        """Sets the state to running. Clears the detail of a `waiting` state."""
        if self.state == "waiting":
            self.detail = ""
        self.state = "running"

    def report(self, what: str, why: str) -> None:
        """Reports an event of the transport: a refused connection, the start or end of a handshake, or a state."""
        if what == HANDSHAKE:
            self.phases[why] = HANDSHAKE
            return
        if what == GREETED:
            self.phases.pop(why, None)
            return
        self.detail = why
        if what == "refused":
            self.refused += 1
        else:
            self.state = what


def _no_format(name: str) -> Format:
    raise ConfigError(f'no format "{name}" here', hint="define it in [[formats]]")


@dataclass(frozen=True)
class EdgeContext:
    """Arguments of an edge."""

    name: str
    config: PluginConfig
    topic: TopicHandle
    framing: Framing | None
    """`None` for a plugin with its own protocol, which has no framed side."""
    transport: Transport
    dead: Callable[[Letter], None]
    may_read: Callable[[], bool]
    """False while the disk is below `min_free_bytes`: the source then stops reading from its socket."""
    status: EdgeStatus
    stopping: threading.Event
    read: str = "offset"
    """The read mode of a sink's source."""
    subscribe: str = "snapshots"
    """With `subscribe`: "snapshots" or "changes"."""
    format: Callable[[str], Format] = _no_format
    """A format of the config, by name."""
    formats: tuple[str, str] | None = None
    """For a sink: the formats of the topic's records and of the output, if they differ."""


class Edge(Protocol):
    """A running source or sink. `start` returns when it listens, or when the first connection attempt has begun."""

    def start(self) -> None: ...

    def drain(self, seconds: float) -> None:
        """A source stops reading and appends its buffer; a sink sends the rest of the topic. Takes up to `seconds`."""
        ...

    def close(self) -> None: ...


class Changed(NamedTuple):
    """Result of an engine transform on a chunk. `None`: no records remain."""

    chunk: Chunk | None
    dead: list[Letter]


class EngineTransform(Protocol):
    """A transform on whole chunks: passthrough, reframe."""

    def apply(self, chunk: Chunk, offset: int) -> Changed: ...
