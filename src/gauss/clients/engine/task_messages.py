"""What tasks on Spark ask of the engine: claims, grants, stages and publishes."""

from __future__ import annotations

from typing import Any

import msgspec

from gauss.clients.engine.positions import Ends, Timing
from gauss.contracts.letter import Letter


class Claim(msgspec.Struct, tag=True):
    """Starts a processor: raises its generation. Calls with a lower one are refused as fenced from now on."""

    processor: str
    checkpoint: str
    """Identity of the checkpoint; another one after the checkpoint was lost or its plan changed."""
    sources: list[str]
    targets: list[str]
    stateful: bool = False
    state: str = ""
    """The topic that also holds its state, from which the state is restored if the checkpoint is lost."""
    drop_state: bool = False
    """Whether a stateful processor that lost its checkpoint continues at the ledger's ends without its state; if not,
    the claim is refused."""
    members: list[str] = []
    """The other processors of its chain, in order, each of which reads the output of an earlier one. They are claimed
    with it."""
    job: int = 0
    """The number of the standing job, from the command `standing.job`; 0 for a streaming query. Tasks of a job share a
    generation. A job has no checkpoint: every generation starts at the ledger's ends."""
    task: int = 0
    attempt: int = 0
    """The attempt of the task, counted from 0. A later attempt fences an earlier one."""


class Claimed(msgspec.Struct):
    """The answer to a claim."""

    generation: int
    start: Ends
    """Where this checkpoint starts: at the ledger's ends, else where the readers start; fixed per checkpoint. Every key
    is a source, the retry topic `_retry.<processor>` included."""
    epoch: int
    """The last published epoch of this checkpoint, -1 if there is none."""
    known: bool
    """Whether the ledger's last claim named this checkpoint. If not, the epochs and offsets in the checkpoint are
    outdated and must be deleted: the query starts with epoch 0 at `start`."""
    members: dict[str, int] = {}
    """The generation of each other processor of the chain."""
    empties: Ends = {}
    """For a table after a rebuild: rows of records before these positions must be deleted before the first insert."""
    rewound: Ends = {}
    """For a table: rows of records before these positions may be in the table already, in other blocks."""
    joined: bool = False
    """Whether another task of the same job has already claimed this generation."""
    times: tuple[int, int | None] | None = None
    """For a query of a topic whose times vary: only records of [from, to) are wanted."""
    behind: list[str] = []
    """Chain members that still have unread input and therefore cannot join the chain. If there are any, nothing was
    claimed."""


class Latest(msgspec.Struct, tag=True):
    """Asks where the next batch ends. `start` is also the reader's position: everything before it is committed."""

    processor: str
    generation: int
    start: Ends
    max_rows: int
    max_bytes: int
    wait_ms: int = 50
    timing: Timing | None = None


class LatestReply(msgspec.Struct):
    """The end of a batch; equal to `start` if there are no new records. If the `inc` of an end differs from that of its
    start, the incarnation of the start is gone and the batch holds the records [0, off) of the new one. With
    `read = "latest"` the batch is the one record before `end`."""

    end: Ends
    rows: int
    lag: int
    """Records between `start` and the visible end."""


class Next(msgspec.Struct, tag=True):
    """Asks for the next epochs of a standing task; waits up to `wait_ms` for records. Processors of one task that read
    the same topic from the same position are granted the same range."""

    processors: dict[str, int]
    """Processors and their generations."""
    max_rows: int
    max_bytes: int
    wait_ms: int = 0
    min_rows: int = 0
    """Fewer records than this are granted only after `flush_ms`."""
    flush_ms: int = 0
    job: int = 0
    task: int = 0
    report: TaskReport | None = None
    """The last epoch of the task."""


class TaskReport(msgspec.Struct):
    """How many records an epoch of a standing task had, and where its time went."""

    rows: int
    wait_ms: float
    """Waiting for a grant."""
    read_ms: float
    work_ms: float
    publish_ms: float
    """Staging and publishing."""
    attempt: int
    where: str
    """Host and process."""


class Grant(msgspec.Struct):
    """An epoch of a processor, assigned to one task. Epochs are published in the order in which they were granted."""

    epoch: int
    start: Ends
    end: Ends
    settled: Ends = {}
    """Where the last published epoch ended."""
    again: bool = False
    """Whether it was granted before, to a task that may have started it."""
    stays: bool = False
    """Whether its records stay in their topics until it is published: stages may then name records instead of sending
    them."""
    narrowed: bool = False
    """Whether a skip is searching for the failing record: the task reports a failure and continues."""
    skip: str = ""
    """Why its records are to be skipped; empty if they are not."""
    lane: int = 0
    """The lane in which the task writes to topics in outside systems."""


class Granted(msgspec.Struct):
    """The answer to `Next`."""

    grants: dict[str, Grant] = {}
    """By processor; empty if there are no records."""
    rows: int = 0
    lag: int = 0
    """Records from the start of the range to the visible end."""
    apart: dict[str, str] = {}
    """Processors that need a task of their own, and why."""
    stop: bool = False
    """Whether the job must stop."""


class ProcessorFailure(msgspec.Struct, tag=True):
    """A processor failed; its task continues without it, or with fewer records."""

    processor: str
    generation: int
    why: str
    apart: bool = False
    """Whether it needs a task of its own."""


class Busy(msgspec.Struct, tag=True):
    """How long a task of several processors has been working on one of them."""

    processor: str
    generation: int
    seconds: float


class Missed(msgspec.Struct, tag=True):
    """Records [start, stop) of a partition that were deleted before a task has read them."""

    processor: str
    generation: int
    place: str
    """The key of the partition in Ends."""
    inc: int
    start: int
    stop: int


class StillClaimed(msgspec.Struct, tag=True):
    """Asks whether a generation is that of the last claim: an earlier one is refused as fenced."""

    processor: str
    generation: int


class Emptied(msgspec.Struct, tag=True):
    """The rows that a rebuild makes again are deleted: the table may be filled."""

    processor: str
    generation: int


class Append(msgspec.Struct, tag=True):
    """Descriptor of `do_put`: records to append now (`gauss send`, HTTP). Their time is the arrival, unless they have a
    column `ts_ms` (`gauss test`)."""

    topic: str


class Feed(msgspec.Struct, tag=True):
    """Descriptor of `do_put`: records of a writer outside the engine, committed with its position. Repeating a number
    of a generation changes nothing; a generation below the last one that `feed.claim` named is fenced."""

    writer: str
    generation: int
    number: int
    """Of the commit in its generation, ascending from 1."""
    topic: str
    position: Any
    """A JSON value; its meaning is the writer's own."""
    records: int = 0
    """How many there are: a stream that ends because its writer was killed looks like a complete one."""


class Passed(msgspec.Struct, frozen=True):
    """Records [start, stop) of a topic, all or some of which a task passes on unchanged."""

    topic: str
    inc: int
    start: int
    stop: int


class Stage(msgspec.Struct, tag=True):
    """Descriptor of `do_put`: records (ts_ms, data) that become visible when a publish names `stage`."""

    stage: str
    processor: str
    generation: int
    topic: str
    parent: str = ""
    """A stage of the same task that has the bytes: what is sent is (ts_ms, row), with row numbers of that stage."""
    passed: Passed | None = None
    """Records of a source topic that have the bytes: what is sent is the column `offset` of those that pass."""
    whole: bool = False
    """Whether it holds all records of `parent` or `passed`, with their times: nothing is sent."""


class StageDead(msgspec.Struct, tag=True, omit_defaults=True):
    """Dead letters of the records [start, stop) of a topic, published with the epoch that contains the range. They
    replace those staged before for the same range."""

    processor: str
    generation: int
    topic: str
    inc: int
    start: int
    stop: int
    letters: list[Letter]
    partition: int = 0


class StageTime(msgspec.Struct, tag=True, omit_defaults=True):
    """The event time of the records [start, stop) of a topic, published with the epoch that contains the range."""

    processor: str
    generation: int
    topic: str
    inc: int
    start: int
    stop: int
    seen: int
    """The largest event time of its records that were not late, 0 if there was none."""
    late: int = 0
    """The number of late records."""
    partition: int = 0


class Member(msgspec.Struct, frozen=True):
    """A processor of a chain other than the first: its output and its position are part of the chain's epoch."""

    processor: str
    generation: int
    targets: list[str]


class Publish(msgspec.Struct, tag=True):
    """Makes the stages of an epoch visible in every target, by one journal entry."""

    processor: str
    generation: int
    checkpoint: str
    """Empty for a standing job, which has none."""
    epoch: int
    ends: Ends
    targets: dict[str, list[str]]
    """Topic → stages, in the order of their records; targets without records are named too."""
    skip: bool = False
    """Whether an operator skips the epoch: its records become dead letters."""
    why: str = ""
    """The failure of a skipped epoch, for its dead letters."""
    members: list[Member] = []
    """The other processors of the chain."""
    written: dict[str, int] = {}
    """Bytes that the task has written to topics in outside systems itself, by topic."""


class InlineStage(msgspec.Struct):
    """A stage that is small enough to travel with the publish that names it."""

    head: Stage
    data: bytes
    """Its records as an Arrow stream; empty if there are none to send."""


class PublishAll(msgspec.Struct, tag=True):
    """The epochs of several processors of one task. Each is published by itself: one that fails does not affect the
    others."""

    publishes: list[Publish]
    stages: list[InlineStage] = []
    patience_ms: int = 0
    """How long one may wait for room in a full target while others wait behind it; 0: without a limit."""


class Outcome(msgspec.Struct):
    """The result of one publish: `error` has the error shape, and is empty if the epoch is published."""

    error: dict[str, Any] = {}


class Published(msgspec.Struct):
    """The answer to `Publish`."""

    repeated: bool
    """Whether the epoch had been published before: nothing was done."""
    ends: dict[str, int]
    """The visible end of each target."""


class Abort(msgspec.Struct, tag=True):
    """Deletes those of the stages that no publish has named."""

    processor: str
    generation: int
    stages: list[str]
