"""What the commit journal holds, entry by entry, and the state they add up to."""

from __future__ import annotations

import msgspec

from gauss.stream.protocol import Ends

KEPT_EPOCHS = 3
"""Spark's checkpoint files are not fsynced: after a power loss it may ask for its last two epochs again."""

DeadKey = tuple[str, int, int]
"""Topic, incarnation and offset of a record that became a dead letter."""


class Opened(msgspec.Struct, tag=True):
    """A run of the engine begins; publish numbers of different runs never meet."""

    run: int


class Incarnated(msgspec.Struct, tag=True):
    topic: str
    inc: int


class Bounds(msgspec.Struct, frozen=True):
    """The times of a bounded read, as they were fixed when it first began."""

    asked: str
    """What the config said then; when it says something else, the read begins anew."""
    from_ms: int
    to_ms: int


class ClaimMade(msgspec.Struct, tag=True):
    processor: str
    checkpoint: str
    generation: int
    start: Ends
    bounds: Bounds | None = None
    rewound: Ends = {}
    """Of a table's query that begins before its end: where the topics ended then."""
    granted: bool = False
    """Whether what was granted before and not published is to be granted again."""


class GrantMade(msgspec.Struct, tag=True):
    """An epoch that a task may have begun with, of a processor whose epochs must come again as they were."""

    processor: str
    generation: int
    ends: Ends


class Rebuilt(msgspec.Struct, tag=True):
    """A processor begins anew at its oldest records, and its targets are empty."""

    claims: list[ClaimMade]
    """Of the processor, and of the queries of tables among its targets: each fences the query that runs."""
    emptied: Ends
    """Topics that hold nothing below these places any more, and so do their tables."""


class EpochPublished(msgspec.Struct, tag=True):
    number: int
    processor: str
    checkpoint: str
    epoch: int
    ends: Ends
    topics: Ends
    """Where each target ended behind it."""
    seen: dict[str, int] = {}
    """The largest event time of its records, by topic, if its processor goes by time."""
    moved: dict[str, Ends] = {}
    """Of a chain: where the processors behind its head stand from now on."""


class Moved(msgspec.Struct, tag=True):
    """Positions of readers that outlive their connection: topic → reader → place."""

    positions: dict[str, Ends]


class Dropped(msgspec.Struct, tag=True):
    """Readers and processors that are no longer in the config: their positions hold nothing back any more."""

    readers: list[tuple[str, str]]
    processors: list[str]


class Pulled(msgspec.Struct, tag=True):
    """Records of a source that asks for them, and where it then stood."""

    number: int
    processor: str
    position: str
    topics: Ends


class Origin(msgspec.Struct, frozen=True):
    """Where a replayed record came from, and how often it has been refused."""

    topic: str
    inc: int
    offset: int
    attempts: int


class LettersReplayed(msgspec.Struct, tag=True):
    """Dead letters that went to their processor's retry inlet, in this order."""

    number: int
    processor: str
    keys: list[DeadKey]
    topics: Ends
    origins: list[Origin] = []


class LettersKept(msgspec.Struct, tag=True):
    """The dead letters that are kept were written again at the end of their topic; those before them are gone, the
    replayed ones among them."""

    number: int
    emptied: Ends
    topics: Ends


class ProcessorRow(msgspec.Struct):
    """The ledger's row of a processor: this, not Spark's batch id, is the truth."""

    checkpoint: str
    generation: int
    start: Ends
    """Where the current checkpoint began."""
    epoch: int = -1
    ends: Ends = {}
    """Source ends of the last publish, of whichever checkpoint."""
    recent: list[tuple[int, Ends]] = []
    """The last epochs of the current checkpoint and their source ends."""
    bounds: Bounds | None = None
    """Of a bounded read."""
    seen: dict[str, int] = {}
    """The largest event time that the current checkpoint has seen in each topic."""
    empties: Ends = {}
    """Of a table's query: rows of records below these places are to be removed before anything is inserted."""
    rewound: Ends = {}
    """Of a table's query: rows of records below these places may be in the table already, in other blocks."""
    granted: list[Ends] = []
    """Ends of epochs that were granted and are not published, in order; if they are journalled."""

    def start_of(self, epoch: int) -> Ends | None:
        """Where an epoch begins; None when that is not known any more."""
        if epoch == 0:
            return self.start
        return next((ends for number, ends in self.recent if number == epoch - 1), None)


class State(msgspec.Struct, tag=True):
    """Everything the journal adds up to; itself an entry, the first after a compaction."""

    run: int = 0
    processors: dict[str, ProcessorRow] = {}
    positions: dict[str, Ends] = {}
    incs: dict[str, int] = {}
    published: Ends = {}
    committed: list[list[int]] = []
    """Numbers of journalled publishes as sorted [first, last] ranges."""
    replayed: dict[str, set[DeadKey]] = {}
    pulled: dict[str, str] = {}
    """Where each source stands that asks for its records, in its own words."""
    retried: dict[str, dict[int, Origin]] = {}
    """Retry inlet → offset → what the record there was; until it has been read."""
    emptied: Ends = {}
    """Where topics were emptied by a rebuild: records below these places are made again."""


Entry = (
    State
    | Opened
    | Incarnated
    | ClaimMade
    | GrantMade
    | Rebuilt
    | EpochPublished
    | Moved
    | Dropped
    | Pulled
    | LettersReplayed
    | LettersKept
)
