"""What runs inside the engine: edges (sockets ↔ topics) and transforms that look at no record."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    from gauss.contracts.chunk import Chunk
    from gauss.contracts.cursor import Program, ReaderCursor
    from gauss.contracts.format import Format
    from gauss.contracts.framing import Framing
    from gauss.contracts.plugin import PluginConfig
    from gauss.contracts.transport import Transport


class Appended(NamedTuple):
    """What became of a chunk: how many records are visible now, how many `write_full = "drop"` refused."""

    accepted: int
    dropped: int
    end: int


class ReaderHandle(Protocol):
    """A registered offset reader: while it lives, a blocking topic keeps what it has not passed."""

    position: int
    peer: str
    """Who reads, for people: the client's address; set by the edge."""

    def sought(self) -> int | None:
        """Where somebody has put this reader since the last ask; its owner goes on there."""
        ...

    def move(self, offset: int) -> None:
        """Everything below `offset` has been passed; wakes writers that wait for room."""
        ...

    def missed(self, count: int) -> None:
        """Counts records that were overwritten before this reader came to them."""
        ...

    def close(self) -> None: ...


class BlockedBy(Protocol):
    """The reader that writers wait for."""

    @property
    def reader(self) -> str: ...

    @property
    def peer(self) -> str: ...


class TopicHandle(Protocol):
    """A topic, as edges and transforms in the engine see it."""

    name: str
    inc: int

    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:
        """Adds records; waits while the topic is full and blocks (until `cancel`). Records that the topic's own
        framing can't hold go to the dead letters."""
        ...

    def open(self, program: Program) -> ReaderCursor: ...

    def version(self) -> int: ...

    def floor(self) -> int: ...

    def wait(self, version: int, timeout: float) -> int: ...

    def blocked(self) -> BlockedBy | None:
        """Who holds writers back; None while none waits."""
        ...

    def bytes_from(self, offset: int) -> int:
        """Bytes held from `offset` on: how far a reader there is behind."""
        ...

    def reader(self, name: str, start: str | int, *, keep: bool) -> ReaderHandle:
        """Registers an offset reader. `start`: `earliest`, `end`, `resume` or an offset; `keep`: its position
        outlives the connection and the process."""
        ...


class DeadLetter(NamedTuple):
    """What can't be framed, decoded, mapped or stored, with where it came from."""

    reason: str
    """A fixed code: `too_long`, `truncated`, `bad_frame`, `bad_json`, `wrong_type`, …"""
    detail: str
    stage: str
    """`frame`, `decode`, `map`, `store`, `encode`"""
    processor: str
    data: bytes
    topic: str = ""
    inc: int = 0
    offset: int = -1
    ts_ms: int = 0
    column: str = ""


HANDSHAKE = "handshake"
GREETED = "greeted"


@dataclass
class EdgeStatus:
    """What an edge shows of itself; written by the edge, read by `top`, health and metrics."""

    state: str = "starting"
    address: str = ""
    """What it listens on or speaks to."""
    detail: str = ""
    """What went wrong last."""
    connections: int = 0
    accepted: int = 0
    refused: int = 0
    records: int = 0
    bytes: int = 0
    dead: int = 0
    clients: dict[str, dict[str, object]] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    """What peers are waited for, by their addresses: `handshake`, before it counts as a connection, then what must be
    known before the first record passes, such as `detecting encoding`."""

    def shown(self) -> str:
        """The state, or the phase in which every connection still is."""
        begun = [phase for phase in list(self.phases.values()) if phase != HANDSHAKE]
        if self.state != "running" or not self.phases or self.connections > len(begun):
            return self.state
        return next(iter(begun), HANDSHAKE)

    def go_on(self) -> None:
        """It runs; what was said while it could not is over."""
        if self.state == "waiting":
            self.detail = ""
        self.state = "running"

    def told(self, what: str, why: str) -> None:
        """What the transport says of itself: a connection refused, a peer that begins or ends its handshake, or a
        state."""
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
    """Everything an edge is given."""

    name: str
    config: PluginConfig
    topic: TopicHandle
    framing: Framing | None
    """None where its plugin names no framed side: it has a protocol of its own."""
    transport: Transport
    dead: Callable[[DeadLetter], None]
    may_read: Callable[[], bool]
    """False while the disk is below `min_free_bytes`: a source then leaves bytes in the socket."""
    status: EdgeStatus
    stopping: threading.Event
    read: str = "offset"
    """The read mode that a sink's source names."""
    subscribe: str = "snapshots"
    """With `subscribe`: "snapshots" or "changes"."""
    format: Callable[[str], Format] = _no_format
    """A format of the config, by name."""
    formats: tuple[str, str] | None = None
    """Of a sink: the format of the topic's records and the output's, if they differ."""


class EdgeConfig(Protocol):
    """What the runtime asks of a source's or sink's config in order to build its transport."""

    def transport_config(self) -> tuple[str, dict[str, Any]]:
        """The transport plugin's name, and its config as that plugin's own model takes it."""
        ...


class Edge(Protocol):
    """`start` returns when the listener is up or the first connection is being tried."""

    def start(self) -> None: ...

    def drain(self, seconds: float) -> None:
        """A source stops reading and appends what it holds; a sink sends what the topic holds, up to `seconds`."""
        ...

    def close(self) -> None: ...


class Changed(NamedTuple):
    """What an engine transform made of a chunk; None: nothing is left of it."""

    chunk: Chunk | None
    dead: list[DeadLetter]


class EngineTransform(Protocol):
    """A transform on whole chunks: passthrough, reframe."""

    def apply(self, chunk: Chunk, offset: int) -> Changed: ...
