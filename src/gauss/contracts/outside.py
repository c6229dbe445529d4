"""External systems that a pipeline connects to without a transport: sources that pull from one, sinks that push to
one, and formats that read their schema from one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gauss.contracts.format import FormatSpec
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec

if TYPE_CHECKING:
    from gauss.contracts.chunk import Chunk
    from gauss.contracts.edge import EdgeStatus
    from gauss.contracts.letter import Letter


@dataclass(frozen=True, kw_only=True)
class OutsideSpec(ProcessorSpec):
    """Spec of a source or sink of an external system."""

    system: str
    """The embedded server to use if the config names none. Empty if there is no embedded one."""
    server: Callable[[PluginConfig], tuple[str, int] | None]
    """Host and port of the server in the config (no host: unknown). `None`: the embedded one."""
    repeats: Callable[[PluginConfig], str]
    """Why a record may be duplicated. Empty if it cannot."""
    losses: Callable[[PluginConfig], str]
    """How a record may be lost. Empty if it cannot."""


@dataclass(frozen=True, kw_only=True)
class PullSpec(OutsideSpec):
    """Spec of a pulling source. `implementation(PullContext)` returns an `Edge`."""

    tells: Callable[[PluginConfig], dict[str, Any]]
    """Keys added to the config of the format of its `input`: the origin of the records."""


@dataclass(frozen=True, kw_only=True)
class PushSpec(OutsideSpec):
    """Spec of a pushing sink. `implementation(PushContext)` returns an `Edge`."""


@dataclass(frozen=True, kw_only=True)
class LiveFormatSpec(FormatSpec):
    """Spec of a format that reads its schema from a running system unless its config has `fields`. A run sets the keys
    `embedded_dir` (the folder of the embedded server) and `schema_dir` (where the schema is stored for the run)."""

    system: str


@dataclass(frozen=True)
class PullContext:
    """Arguments of a pulling source.

    Records and position are committed in one journal entry: after a crash the position matches the records in the
    topics exactly. A source whose system can be read again from a position therefore delivers exactly once.
    """

    name: str
    config: PluginConfig
    topics: tuple[str, ...]
    """The topics that it can publish to."""
    embedded_dir: Path
    """Folder of the embedded server of its system."""
    schema_dir: Path | None
    """Where the schema of the format that its `input` names is stored."""
    position: Any
    """The position of the last publish, a JSON value. `None` before the first."""
    publish: Callable[[Mapping[str, Chunk], Any, threading.Event], None]
    """Appends records by topic and commits the position, all or nothing; without records it commits the position alone.
    Waits while one of the topics is full; raises Unavailable if the event is set meanwhile."""
    may_read: Callable[[], bool]
    """False while the disk is below `min_free_bytes`."""
    status: EdgeStatus


class PushPart(NamedTuple):
    """Consecutive records of one topic."""

    topic: str
    inc: int
    offset: int
    """Offset of the first record."""
    chunk: Chunk


@dataclass(frozen=True)
class PushBatch:
    """Records for the external system, in offset order per topic."""

    parts: tuple[PushPart, ...]
    ends: Mapping[str, int]
    """Per topic of the sink: the next offset after this batch."""
    turn: int
    """Incremented by `rewind` and by a seek, which invalidate earlier batches."""


class PushInput(Protocol):
    """Reads a sink's topics from its committed positions. `next` and `rewind` are called by one thread; `commit` may be
    called by another."""

    def next(self, limit: int = 65_536, max_bytes: int = 4 << 20, wait_s: float = 0.0) -> PushBatch | None:
        """The next records: at most `limit`, and about `max_bytes`. None if there are none within `wait_s`. A batch may
        be asked for before earlier ones are committed."""
        ...

    def commit(self, batch: PushBatch, state: Any) -> None:
        """Commits the positions behind a batch, and so behind all batches before it, together with the sink's state, a
        JSON value. A batch from before a `rewind` or seek is ignored."""
        ...

    def rewind(self) -> None:
        """Restarts `next` at the committed positions."""
        ...

    def close(self) -> None:
        """Ends reading. Called by the sink's `close`."""
        ...


@dataclass(frozen=True)
class PushContext:
    """Arguments of a pushing sink.

    A sink commits a batch only after the external system has acknowledged it. Until then its topics retain the records,
    as for any reader, and after a crash `next` starts at the committed positions: no retained record is lost.

    Records that were sent but not committed when the engine died are repeated: the same records at the same offsets,
    in the same order per topic, but possibly in other batches. A sink avoids duplicates in one of two ways. It stores
    the batch's `ends` in the external system in one transaction with the data, and skips what that system already has.
    Or it commits a state with which it can undo what was sent after the commit, such as the length of a file.

    A request of a killed engine may still reach the external system after the next engine has begun to write. Where
    that matters, the sink writes its `generation` with the data, and the external system refuses lower ones (fencing).
    """

    name: str
    config: PluginConfig
    embedded_dir: Path
    """Folder of the embedded server of its system."""
    input: PushInput
    state: Any
    """The state of the last commit. `None` before the first."""
    generation: int
    """Incremented by every start of the engine on a data directory."""
    dead: Callable[[Letter], None]
    """Adds a record that the external system refuses to the dead letters. Call it before the commit."""
    status: EdgeStatus
