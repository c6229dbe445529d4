"""The state, in this run, of a processor that reads topics by epochs, on Spark or in the engine."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from gauss.clients.engine.positions import At, Timing, topic_of
from gauss.model.names import retry_topic
from gauss.stream.engine.delivery.dead_letters import DeadRatio
from gauss.stream.engine.delivery.epochs import behind
from gauss.stream.engine.delivery.job_claims import Job
from gauss.stream.engine.delivery.skips import Skip
from gauss.stream.engine.topics.bounded_reads import Bounded
from gauss.stream.engine.topics.readers import OffsetReader
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.graph import ProcessorNode


@dataclass
class ProcessorRun:
    """The readers, lock and counters of a processor."""

    name: str
    sources: tuple[str, ...]
    """Its source topics, with a key for each partition, then its retry topics."""
    ratio: DeadRatio
    read: str = "offset"
    bounded: Bounded | None = None
    """The range of a bounded read."""
    tables: tuple[str, ...] = ()
    """The tables in which it looks up rows."""
    on_restart: str = "continue"
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while it publishes or is claimed."""
    turn: threading.Condition = field(default_factory=threading.Condition)
    """Notified when an epoch is published; later ones wait for it."""
    cancel: threading.Event = field(default_factory=threading.Event)
    """Set by a newer claim and at shutdown: a publish that waits for space gives up."""
    readers: dict[str, OffsetReader] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    """The processors of its query or chain, itself included; empty if it runs alone."""
    members: dict[str, int] = field(default_factory=dict)
    """For the head of a chain: the generations of the other members."""
    job: Job | None = None
    """The current or last standing job that reads for it."""
    tracked: bool = False
    """Whether grants are journalled, so that they are repeated unchanged after a kill: an outside system identifies
    what was written by its range."""
    lanes: bool = False
    """Whether its tasks write to topics in outside systems themselves. Grants in progress then have no partition in
    common, so that the order of each is kept."""
    skip: Skip | None = None
    """The skip in progress."""
    failure: str = ""
    """The last failure of a task."""
    stateful: bool = False
    """Whether a claim of this run declared state; for a function only its Spark plan shows it."""
    drop_state: bool = False
    """Whether its next claim may start without the state of its lost checkpoint."""
    stopped: str = ""
    """Why it was stopped; cleared by a retry."""
    waits_room: bool = False
    """Whether a publish waits for space in a full target."""
    published: int = 0
    """Epochs of standing tasks since the engine started."""
    records: int = 0
    """Records read and bytes written."""
    bytes: int = 0
    dead: int = 0
    late: int = 0
    """Records behind the watermark."""
    vain: int = 0
    """Number of requests in a row that found no next batch. At two, no batch is in progress."""
    timing: Timing | None = None
    """Its event-time settings, from its last request."""
    silent_since: dict[str, int] = field(default_factory=dict)
    """When it last had records of a topic to read, by the engine's clock."""
    lost: set[tuple[str, int, int, int]] = field(default_factory=set)
    """Ranges that were counted as lost: a retry of the task requests them again."""

    def is_main(self, key: str) -> bool:
        """Whether it is its first source, or a partition of it."""
        return topic_of(key) == topic_of(self.sources[0])

    def range_in(self, topic: str) -> Bounded | None:
        """The range of a topic that it reads. `None`: unbounded, as for its retry topic."""
        return self.bounded if self.is_main(topic) else None

    def behind(self, topic: Topic, at: At) -> int:
        """Number of records that it may read from a position on."""
        bounded = self.range_in(topic.name)
        return behind(topic, at) if bounded is None else bounded.behind(topic, at)


def retry_topics(node: ProcessorNode) -> list[str]:
    """The retry topics that a processor reads."""
    return [retry_topic(node.name, beside) for beside in ("", *node.beside)]
