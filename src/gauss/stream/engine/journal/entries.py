"""The entries of the commit journal, and the state that results from them."""

from __future__ import annotations

from typing import Any

import msgspec

from gauss.clients.engine.positions import Ends

KEPT_EPOCHS = 3
"""Spark's checkpoint files are not fsynced: after a power loss it may ask for its last two epochs again."""

DeadKey = tuple[str, int, int]
"""Place key, incarnation and offset of a record that became a dead letter."""


class RunOpened(msgspec.Struct, tag="Opened"):
    """The start of an engine; publish numbers of different runs are disjoint."""

    run: int


class Incarnated(msgspec.Struct, tag=True):
    topic: str
    inc: int


class Bounds(msgspec.Struct, frozen=True):
    """The times of a bounded read, fixed when it first started."""

    asked: str
    """The times as the config had them; if it has others, the read starts over."""
    from_ms: int
    to_ms: int


class ClaimMade(msgspec.Struct, tag=True):
    processor: str
    checkpoint: str
    generation: int
    start: Ends
    bounds: Bounds | None = None
    rewound: Ends = {}
    """For a table that is read again from an earlier position: where its topics ended before."""
    granted: bool = False
    """Whether unpublished epochs of the last generation are granted again."""


class GrantMade(msgspec.Struct, tag=True):
    """An epoch that a task may have started, of a processor that must repeat its epochs with the same ends."""

    processor: str
    generation: int
    ends: Ends
    lane: int = 0
    """The lane in which its task writes to outside systems."""


class Rebuilt(msgspec.Struct, tag=True):
    """A rebuild: a processor starts over at its oldest record, into emptied targets."""

    claims: list[ClaimMade]
    """Of the processor and of the tables among its targets; each fences the running one."""
    emptied: Ends
    """The positions before which target topics and their tables are emptied."""


class EpochPublished(msgspec.Struct, tag=True):
    number: int
    processor: str
    checkpoint: str
    epoch: int
    ends: Ends
    topics: Ends
    """The end of each target after it."""
    seen: dict[str, int] = {}
    """The largest event time of its records, by the keys of `ends`, if its processor goes by event time."""
    moved: dict[str, Ends] = {}
    """The new positions of the other processors of its chain."""


class Moved(msgspec.Struct, tag=True):
    """Positions of readers that outlive their connection: topic → reader → position."""

    positions: dict[str, Ends]


class Dropped(msgspec.Struct, tag=True):
    """Readers and processors that are no longer in the config: their positions are forgotten."""

    readers: list[tuple[str, str]]
    processors: list[str]


class Pulled(msgspec.Struct, tag=True):
    """Records of a source that pulls them, and the position behind them."""

    number: int
    processor: str
    position: Any
    """A JSON value; its meaning is the source's own."""
    topics: Ends


class Pushed(msgspec.Struct, tag=True):
    """Records that a pushing sink has written to its outside system, and the sink's state behind them."""

    processor: str
    state: Any
    """A JSON value; its meaning is the sink's own."""
    positions: Ends


class RetryOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a replayed record came from, and how often it has been refused."""

    topic: str
    inc: int
    offset: int
    attempts: int
    partition: int = 0


class LettersReplayed(msgspec.Struct, tag=True):
    """Dead letters that were sent to the retry topic of their processor, in this order."""

    number: int
    processor: str
    keys: list[DeadKey]
    topics: Ends
    origins: list[RetryOrigin] = []


class LettersKept(msgspec.Struct, tag=True):
    """A discard of dead letters: those to keep were appended again, and all before them are deleted."""

    number: int
    emptied: Ends
    topics: Ends


class ProcessorRow(msgspec.Struct):
    """The progress of a processor; authoritative over Spark's batch ids."""

    checkpoint: str
    generation: int
    start: Ends
    """Where the current checkpoint started."""
    epoch: int = -1
    ends: Ends = {}
    """Source ends of the last publish, of any checkpoint."""
    recent: list[tuple[int, Ends]] = []
    """The last epochs of the current checkpoint and their source ends."""
    bounds: Bounds | None = None
    """The times of a bounded read."""
    seen: dict[str, int] = {}
    """The largest event time that the current checkpoint has seen, by the keys of `ends`."""
    empties: Ends = {}
    """For a table: rows of records before these positions must be deleted before the next insert."""
    rewound: Ends = {}
    """For a table: rows of records before these positions may be in the table already, in other blocks."""
    granted: list[Ends] = []
    """Ends of the granted, unpublished epochs, in order, of a processor whose grants are journalled."""
    lanes: list[int] = []
    """The lanes of these epochs; none in a journal of a version without lanes."""

    def start_of(self, epoch: int) -> Ends | None:
        """Where an epoch starts; None if that is no longer known."""
        if epoch == 0:
            return self.start
        return next((ends for number, ends in self.recent if number == epoch - 1), None)


class LedgerState(msgspec.Struct, tag="State"):
    """The sum of all entries; itself the first entry after a compaction."""

    run: int = 0
    processors: dict[str, ProcessorRow] = {}
    positions: dict[str, Ends] = {}
    incs: dict[str, int] = {}
    published: Ends = {}
    committed: list[list[int]] = []
    """Numbers of journalled publishes as sorted [first, last] ranges."""
    replayed: dict[str, set[DeadKey]] = {}
    outside: dict[str, Any] = msgspec.field(default_factory=dict, name="pulled")
    """What each source or sink of an outside system has committed with its records: a source its position, a sink its
    state."""
    retried: dict[str, dict[int, RetryOrigin]] = {}
    """Retry topic → offset → origin of the record, until it is read."""
    emptied: Ends = {}
    """The positions before which rebuilds have emptied topics."""


Entry = (
    LedgerState
    | RunOpened
    | Incarnated
    | ClaimMade
    | GrantMade
    | Rebuilt
    | EpochPublished
    | Moved
    | Dropped
    | Pulled
    | Pushed
    | LettersReplayed
    | LettersKept
)
