"""What the engine and its clients (driver, Spark's workers, control) say to each other over Arrow Flight.

Actions carry one msgspec struct as JSON and answer one; ranges are `do_get` with a `Read` as ticket, writes are
`do_put` with a `Stage` as descriptor, and a cursor is one `do_exchange` with an `Open` as descriptor. A failed call
carries the error shape of `model.errors` in its message.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from gauss.contracts.cursor import Code

MAX_ACTION_BYTES = 16 << 20


class At(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in a topic: an offset counts only within its incarnation. In a batch's end it also carries time, if its
    processor goes by time: there it is logged, so that a replay takes the same records for late."""

    inc: int
    off: int
    seen: int = 0
    """The largest event time of all earlier epochs."""
    beat: int = 0
    """How far time went on without records."""


Ends = dict[str, At]
"""Topic → place; a processor's source ends."""

TABLE_MARK = "table:"
"""Before a topic's name in Ends: the version of a table in which the batch looks rows up, no place of a reader."""


def places(ends: Ends) -> Ends:
    """Where the readers of records stand."""
    return {name: at for name, at in ends.items() if not name.startswith(TABLE_MARK)}


def versions(ends: Ends) -> Ends:
    """The tables in which a batch looks rows up, by topic."""
    return {name.removeprefix(TABLE_MARK): at for name, at in ends.items() if name.startswith(TABLE_MARK)}


def time_basis(ends: Ends) -> int:
    """The time from which the watermark of a batch with these ends is counted back."""
    return max((max(at.seen, at.beat) for at in ends.values()), default=0)


class Timing(msgspec.Struct, frozen=True):
    """What the engine must know of a processor's time to let it pass where no records come."""

    watermark_ms: int
    span_ms: int
    """The longest that a record's effect waits for later ones: its largest window."""
    step_ms: int
    """Something can close only at multiples of this."""
    arrival: bool = True
    """Event time is the records' own `ts_ms`."""
    idle_ms: int | None = None
    """Of another event time: how long the source must be silent before time goes on; None: it never does."""


class Claim(msgspec.Struct, tag=True):
    """Start a processor: raises its generation; what carries a lower one is refused from now on."""

    processor: str
    checkpoint: str
    """Identity of the checkpoint, new when it was lost or its plan changed."""
    sources: list[str]
    targets: list[str]
    stateful: bool = False
    state: str = ""
    """The topic that holds its state too: as long as that is there, a lost checkpoint is no loss."""
    drop_state: bool = False
    """A stateful processor whose checkpoint was lost goes on at the ledger's ends without its state; else refused."""
    members: list[str] = []
    """Of a chain: the processors behind its head, which read what it writes, step by step. They are claimed with it."""
    job: int = 0
    """Of a task of a standing job: the job's number, as the command `job` gave it. Tasks of a job share a generation,
    and there is no checkpoint: every generation begins at the ledger's ends."""
    task: int = 0
    attempt: int = 0
    """How often the task was tried before: of two attempts the later one counts."""


class Claimed(msgspec.Struct):
    generation: int
    start: Ends
    """Where this checkpoint begins: the ledger's ends, else the readers' start; fixed per checkpoint. It holds the
    retry inlet `_retry.<processor>` too: every key is a source of the query."""
    epoch: int
    """The last published epoch of this checkpoint, -1 if none."""
    known: bool
    """False: the ledger's last claim named another checkpoint (or there was none). What this one holds of epochs
    and offsets is out of date and must go: the query begins with epoch 0 at `start`."""
    members: dict[str, int] = {}
    """Of a chain: the generation of each member."""
    empties: Ends = {}
    """Of a table's query after a rebuild: rows of records below these places must go before anything is inserted."""
    rewound: Ends = {}
    """Of a table's query: rows of records below these places may be in the table already, in other blocks."""
    joined: bool = False
    """Whether another task of the same job had begun this generation."""
    behind: list[str] = []
    """Of a chain: members that have yet to read records of their topic, and so can't be part of it. If there are any,
    nothing was claimed."""


class Latest(msgspec.Struct, tag=True):
    """How far may the next batch go? `start` is also the reader's position: all before it is committed."""

    processor: str
    generation: int
    start: Ends
    max_rows: int
    max_bytes: int
    wait_ms: int = 50
    timing: Timing | None = None


class LatestReply(msgspec.Struct):
    """`end` equals `start` when nothing is new. Where an `inc` of `end` differs from that of `start`, the incarnation
    of `start` is dead: the batch is `Read(inc of end, 0, off of end)`. With `read = "latest"` it is the one record
    before `end`."""

    end: Ends
    rows: int
    lag: int
    """Records between `start` and the visible end."""


class Next(msgspec.Struct, tag=True):
    """What may a standing task do next? Answered when there is something, or after `wait_ms`. Several processors read
    the same topic in one task: those that stand at the same place are given the same range of it."""

    processors: dict[str, int]
    """With their generations."""
    max_rows: int
    max_bytes: int
    wait_ms: int = 0
    min_rows: int = 0
    """Fewer records wait for more of them, but no longer than `flush_ms`."""
    flush_ms: int = 0
    job: int = 0
    task: int = 0
    report: TaskReport | None = None
    """What the task did since it last asked."""


class TaskReport(msgspec.Struct):
    """An epoch of a standing task, and where its time went."""

    rows: int
    wait_ms: float
    """For records, and for the engine to grant them."""
    read_ms: float
    work_ms: float
    publish_ms: float
    """Staging included."""
    attempt: int
    where: str
    """Host and process."""


class Grant(msgspec.Struct):
    """An epoch of a processor, given to one task. Epochs are published in the order in which they were granted."""

    epoch: int
    start: Ends
    end: Ends
    settled: Ends = {}
    """Where the last published epoch ended."""
    again: bool = False
    """It was granted before, to a task that may have begun with it."""
    stays: bool = False
    """What it reads stays in its topics until it is published: stages may name records instead of sending them."""
    narrowed: bool = False
    """A skip is looking for the record at which it fails: a failure is told, and the task goes on."""
    skip: str = ""
    """Its records are to be passed over, for this reason."""


class Granted(msgspec.Struct):
    grants: dict[str, Grant] = {}
    """By processor; nothing when there was nothing to do."""
    rows: int = 0
    lag: int = 0
    """Records from the start of the range to the visible end."""
    apart: dict[str, str] = {}
    """Processors that can't go on with the others, and why: they need a task of their own."""
    stop: bool = False
    """The job is asked to end."""


class Trouble(msgspec.Struct, tag=True):
    """A processor failed in a task that goes on without it, or tries less."""

    processor: str
    generation: int
    why: str
    apart: bool = False
    """It needs a task of its own."""


class Busy(msgspec.Struct, tag=True):
    """A task of several processors has been at work on one of them for some time."""

    processor: str
    generation: int
    seconds: float


class Emptied(msgspec.Struct, tag=True):
    """The rows that a rebuild makes anew are gone: the table may be filled again."""

    processor: str
    generation: int


class Read(msgspec.Struct, tag=True):
    """Ticket of `do_get`: records [start, stop) of one incarnation. Those behind the floor are left out, and counted as
    lost for `processor`. So are those of a dead incarnation, which without a processor is rejected."""

    topic: str
    inc: int
    start: int
    stop: int
    processor: str = ""
    generation: int = 0
    program: bytes = b""
    """A scan program over the range instead of its records: only what it makes of them travels."""


class Open(msgspec.Struct, tag=True):
    """Descriptor of `do_exchange`: one cursor in a reader task of its own. The answer is `Opened`, then a `State` for
    every `Ask`, until either side ends; whoever asks nothing for `LEASE_S` loses the cursor."""

    topic: str
    program: bytes
    """As `docs/scan-programs.md` lays it out."""
    inc: int | None = None
    """None: the incarnation that lives."""
    name: str = ""
    """Who reads, for people."""
    held: int | None = None
    """A version of a table that `Pinned` holds for the reader."""
    returns: bool = False
    """Whether its reader will come back with the position it had, which only a table must be told."""


class Opened(msgspec.Struct):
    """A cursor stands."""

    scan: int
    """Its number among the engine's scans."""
    inc: int
    pinned_version: int
    position: int


LEASE_S = 30.0
MOST_WAIT_MS = 10_000
"""Of one wait: less than a lease, so that who waits is not taken for gone."""


class Ask(Enum):
    """The first byte of what a cursor's client sends; the rest is its argument."""

    STEP = b"S"  # a step blob: next and, when that succeeds, read: rows and scalars as an Arrow batch, as they lie
    NEXT = b"N"  # a step blob
    READ = b"R"  # the prepared batch as a blob
    WAIT = b"W"  # milliseconds as four bytes: UNSET once the topic has moved beyond the cursor, INVALID if not by then


_STATE = struct.Struct("<Bqq")


class State(NamedTuple):
    """The metadata of every answer of a cursor; a blob may follow it."""

    code: Code
    position: int
    hold: int

    def encode(self, blob: bytes = b"") -> bytes:
        return _STATE.pack(*self) + blob

    @classmethod
    def decode(cls, data: bytes) -> tuple[State, bytes]:
        code, position, hold = _STATE.unpack_from(data)
        return cls(Code(code), position, hold), data[_STATE.size :]


class Pinned(msgspec.Struct, tag=True):
    """Which version of a table stands for the one that a batch was planned with? Answered by an `At` that is held
    until the batch is committed: the same, unless the engine died meanwhile; then the newest, the same for all who
    ask for that batch."""

    processor: str
    generation: int
    topic: str
    at: At


class Append(msgspec.Struct, tag=True):
    """Descriptor of `do_put`: records to append now, stamped with their arrival (`gauss send`, HTTP) unless they have
    a column `ts_ms` (tests of flows)."""

    topic: str


class Passed(msgspec.Struct, frozen=True):
    """Records [start, stop) of a topic that a task passes on unchanged, all of them or some."""

    topic: str
    inc: int
    start: int
    stop: int


class Stage(msgspec.Struct, tag=True):
    """Descriptor of `do_put`: records (ts_ms, data) kept aside until a publish names `stage`."""

    stage: str
    processor: str
    generation: int
    topic: str
    partition: int = 0
    parent: str = ""
    """A stage of the same task that holds the same bytes already: the records are then (ts_ms, row), rows of that."""
    passed: Passed | None = None
    """The records lie in a topic that the task reads: what is sent are the offsets of those that pass (offset)."""
    whole: bool = False
    """They are just the records of the parent, or all that passed names, times included: nothing is sent."""


class StageDead(msgspec.Struct, tag=True):
    """Dead letters found while reading [start, stop) of `topic`; published with the epoch that holds the range.
    The same range staged again replaces them."""

    processor: str
    generation: int
    topic: str
    inc: int
    start: int
    stop: int
    letters: list[dict[str, Any]]


class StageTime(msgspec.Struct, tag=True):
    """What a task learnt of time while reading [start, stop) of `topic`; counts with the epoch that holds the range."""

    processor: str
    generation: int
    topic: str
    inc: int
    start: int
    stop: int
    seen: int
    """The largest event time of its records that were not late, 0 if there was none."""
    late: int = 0
    """How many were."""


class Member(msgspec.Struct, frozen=True):
    """A processor behind a chain's head: what it wrote is published with the epoch, and its position moves with it."""

    processor: str
    generation: int
    targets: list[str]


class Publish(msgspec.Struct, tag=True):
    """All that an epoch wrote, to every target, in one journal entry."""

    processor: str
    generation: int
    checkpoint: str
    """Empty for a standing job, which has none."""
    epoch: int
    ends: Ends
    targets: dict[str, list[str]]
    """Topic → stages in partition order; targets that got nothing are named too."""
    skip: bool = False
    """An operator passes this epoch over: its records become dead letters instead."""
    why: str = ""
    """What the epoch failed with, for those letters."""
    members: list[Member] = []
    """Of a chain: everybody behind its head."""


class InlineStage(msgspec.Struct):
    """A stage that is small enough to travel with the publish that names it."""

    head: Stage
    data: bytes
    """Its records as an Arrow stream; empty if there are none to send."""


class PublishAll(msgspec.Struct, tag=True):
    """The epochs of several processors that one task has done, each by itself: one that fails costs no other."""

    publishes: list[Publish]
    stages: list[InlineStage] = []
    patience_ms: int = 0
    """How long one may wait for room in a full target while others stand behind it; 0: as long as it takes."""


class Outcome(msgspec.Struct):
    """What became of one publish: `error` has the error shape, empty if it is published."""

    error: dict[str, Any] = {}


class Published(msgspec.Struct):
    repeated: bool
    """The ledger had this epoch already: nothing was done."""
    ends: dict[str, int]


class Abort(msgspec.Struct, tag=True):
    """Removes stages that no publish has named."""

    processor: str
    generation: int
    stages: list[str]


class QueryStatus(msgspec.Struct):
    """What the driver knows of a processor's query."""

    processor: str
    state: str
    """starting, running, waiting, failed, done"""
    detail: str = ""
    epoch: int = -1
    batch_rows: int = 0
    batch_ms: int = 0
    rows_per_second: float = 0.0
    failures: int = 0
    runs: str = ""
    """hosted (standing tasks do the work) or columns (Spark does it between codecs)"""
    trace: str = ""
    """Path of the log that holds the Java trace."""


class DriverSync(msgspec.Struct, tag=True):
    """The driver's heartbeat: what it runs, and what it is told to do."""

    queries: list[QueryStatus]


class DriverCommand(msgspec.Struct):
    processor: str
    action: str
    """retry, skip, stop"""


class News(msgspec.Struct):
    """How a processor of a standing job gets on."""

    job: int
    """The number of the job that has claimed it."""
    published: int
    """Epochs since the engine started."""
    behind: int
    """Records that wait for it."""
    rows: int = 0
    """Of its last epoch."""
    under_way_s: float = 0.0
    """How long its oldest epoch has been under way; 0 while that waits for room in a full target."""
    busy_s: float = 0.0
    """How long the task has been at work on this processor alone, as it says itself."""


class DriverSynced(msgspec.Struct):
    commands: list[DriverCommand]
    news: dict[str, News] = {}
    apart: dict[str, str] = {}
    """Processors that need a task of their own, and why; told once."""


class Command(msgspec.Struct, tag=True):
    """Everything the CLI and the HTTP API ask of the engine: `name` and its arguments, see `engine/commands.py`."""

    name: str
    args: dict[str, Any] = {}


OfTask = Claim | Next | Trouble | Busy | Emptied | Pinned | StageDead | Publish | PublishAll | Abort
Action = OfTask | Latest | StageTime | DriverSync | Command
