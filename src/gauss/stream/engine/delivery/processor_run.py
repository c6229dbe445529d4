"""A processor that reads topics by epochs, on Spark or in the engine, as it stands in this run."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from gauss.clients.engine.positions import At, Timing
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
    """Its readers, its lock and what is counted of it."""

    name: str
    sources: tuple[str, ...]
    """Its source topics, then its retry topics."""
    ratio: DeadRatio
    read: str = "offset"
    bounded: Bounded | None = None
    """The range of a query reader."""
    tables: tuple[str, ...] = ()
    """Where it looks rows up."""
    on_restart: str = "continue"
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while it publishes or is claimed."""
    turn: threading.Condition = field(default_factory=threading.Condition)
    """Where epochs wait for those that were granted before them."""
    cancel: threading.Event = field(default_factory=threading.Event)
    """Set by a newer claim and at shutdown: a publish that waits for room gives up."""
    readers: dict[str, OffsetReader] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    """Those in whose query it runs or that run in its query, itself included; empty: it runs alone."""
    members: dict[str, int] = field(default_factory=dict)
    """Of a chain's head: the generations of those behind it."""
    job: Job | None = None
    """The standing job that reads for it, or did so last."""
    tracked: bool = False
    """Whether grants are journalled, so that after a kill they are granted again as they were: what a table holds of
    one is told by its block."""
    skip: Skip | None = None
    """What it failed at is being passed over."""
    failure: str = ""
    """What a task last failed at."""
    stateful: bool = False
    """Whether a claim of this run said that it keeps state: of a function only its Spark plan tells."""
    drop_state: bool = False
    """Its next claim may begin without the state of its lost checkpoint."""
    stopped: str = ""
    """Why it was stopped; cleared by a retry."""
    waits_room: bool = False
    """Whether a publish of it waits for room in a full target."""
    published: int = 0
    """Epochs of standing tasks since the engine started."""
    records: int = 0
    """Taken in; `bytes` are what was written."""
    bytes: int = 0
    dead: int = 0
    late: int = 0
    """Records that came behind the watermark."""
    vain: int = 0
    """How often it asked for a next batch and there was none: twice in a row, and nothing of it is under way."""
    timing: Timing | None = None
    """How it goes by time, as its last question said."""
    silent_since: dict[str, int] = field(default_factory=dict)
    """When it last had records of a topic to read, by the engine's clock."""
    lost: set[tuple[str, int, int, int]] = field(default_factory=set)
    """Ranges that were counted as lost: a task's retry asks for them again."""

    def range_in(self, topic: str) -> Bounded | None:
        """The range of a topic that it reads. `None`: unbounded, as for its retry topic."""
        return self.bounded if topic == self.sources[0] else None

    def behind(self, topic: Topic, at: At) -> int:
        """How many records it may read behind a place."""
        bounded = self.range_in(topic.name)
        return behind(topic, at) if bounded is None else bounded.behind(topic, at)


def retry_topics(node: ProcessorNode) -> list[str]:
    """The retry topics that a processor reads."""
    return [retry_topic(node.name, beside) for beside in ("", *node.beside)]
