"""A ledger, memory topics, stages and a publisher, connected as in the engine; can be reopened."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.clients.engine.positions import At, Ends, place_key
from gauss.clients.engine.task_messages import (
    Claim,
    Claimed,
    Latest,
    LatestReply,
    Publish,
    Published,
    Stage,
)
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Program, Step
from gauss.contracts.storage import Capacity, StorageContext, WriteFull
from gauss.model.names import DEAD_TOPIC, retry_topic
from gauss.plugins.storages.memory.ring import Ring
from gauss.stream.engine.delivery.batch_planning import Sources
from gauss.stream.engine.delivery.dead_letters import DeadRatio
from gauss.stream.engine.delivery.grants import Grants
from gauss.stream.engine.delivery.heartbeat import Heartbeat
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.delivery.publish import Publisher
from gauss.stream.engine.delivery.stages import Stages
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.bounded_reads import Bounded
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.engine.topics.volatile_ends import keep_ends, read_ends
from gauss.stream.graph import Graph

INLET = retry_topic("p")


class Delivery:
    """Processor `p` reads topic `in` (and its inlet) and writes topic `out`."""

    def __init__(
        self,
        directory: Path,
        *,
        size: int | None = None,
        on_restart: str = "continue",
        read: str = "offset",
        bounded: Bounded | None = None,
        synced: frozenset[str] = frozenset(),
        durable: frozenset[str] = frozenset(),
        tracked: bool = False,
        others: tuple[str, ...] = (),
        partitions: int = 1,
    ) -> None:
        """`others`: processors that read the same topic and write `other`. With several `partitions` of `in`, tasks
        write to an outside system themselves."""
        self.directory = directory
        self.ledger = Ledger(directory / "journal")
        self.stages = Stages(directory / "stages", 1 << 20)
        keys = tuple(place_key("in", number) for number in range(partitions))
        names = (*keys, "out", "other", INLET, DEAD_TOPIC, *map(retry_topic, others))
        ended = read_ends(directory / "memory.ends")
        self.topics = {name: self._topic(name, size if name in ("in", "out") else None) for name in names}
        keep_ends(directory / "memory.ends", self.topics.values())
        self.stopped: list[str] = []
        self.publisher = Publisher(
            self.topics,
            self.ledger,
            self.stages,
            synced=synced,
            on_stop=lambda _, reason: self.stopped.append(reason),
        )
        self.now = 1000
        self.graph = Graph({}, {})
        heartbeat = Heartbeat(self.graph, self.topics, self.ledger, self.publisher.running, lambda: self.now)
        self.sources = Sources(self.topics, self.ledger, self.publisher, durable, heartbeat, ended=ended)
        self.grants = Grants(self.topics, self.ledger, self.publisher, self.sources)
        self.running = ProcessorRun(
            "p", (*keys, INLET), DeadRatio(0.5), read=read, bounded=bounded, on_restart=on_restart
        )
        self.running.tracked, self.running.lanes = tracked or partitions > 1, partitions > 1
        self.publisher.add(self.running)
        for name in others:
            self.publisher.add(ProcessorRun(name, ("in", retry_topic(name)), DeadRatio(0.5)))
        self.generation = 0
        self._numbers = itertools.count()

    def _topic(self, name: str, size: int | None) -> Topic:
        context: Any = StorageContext(
            name,
            self.directory / name,
            self.directory,
            lambda stored: self.ledger.incarnation(name, stored),
            self.ledger.committed,
            lambda *_: None,  # type: ignore[arg-type]
        )
        ring = Ring(None, context)
        return LogTopic(name, ring, Capacity(size, None, WriteFull.BLOCK), at_least=self.ledger.highest(name, ring.inc))

    def add_partition(self, key: str) -> None:
        """A partition that is added to `in` during the run."""
        self.topics[key] = self._topic(key, None)
        self.publisher.add_partition(self.running, key)

    def feed(self, *records: bytes, ts_ms: int = 1000, topic: str = "in") -> None:
        self.topics[topic].append(Chunk(pa.array(records, pa.binary()), len(records), ts_ms))

    def claim(self, checkpoint: str = "c", **given: Any) -> Claimed:
        claimed = self.publisher.claim(Claim("p", checkpoint, ["in"], ["out"], **given))
        self.generation = claimed.generation
        return claimed

    def stage(self, *records: bytes, ts_ms: int | None = None, topic: str = "out") -> str:
        name = f"stage-{next(self._numbers)}"
        times = pa.array([ts_ms] * len(records), pa.int64())
        batch = pa.record_batch({"ts_ms": times, "data": pa.array(records, pa.binary())})
        self.stages.put(Stage(name, "p", self.generation, topic), [batch])
        return name

    def ends(self, offset: int) -> Ends:
        return {"in": At(self.topics["in"].inc, offset), INLET: At(self.topics[INLET].inc, 0)}

    def publish(self, epoch: int, offset: int, *stages: str, **given: Any) -> Published:
        targets, ends = given.pop("targets", {"out": list(stages)}), given.pop("ends", None) or self.ends(offset)
        facts = {"processor": "p", "generation": self.generation, "checkpoint": "c", **given}
        return self.publisher.publish(Publish(epoch=epoch, ends=ends, targets=targets, **facts))

    def latest(self, start: Ends, rows: int = 1000, size: int = 1 << 30, wait_ms: int = 0) -> LatestReply:
        return self.sources.latest(Latest("p", self.generation, start, rows, size, wait_ms))

    def rows(self, topic: str = "out") -> list[dict[str, Any]]:
        cursor = self.topics[topic].open(Program())
        found: list[dict[str, Any]] = []
        while cursor.next(Step()) is Code.OK:
            batch = cursor.read()[1]
            assert isinstance(batch, pa.RecordBatch)
            found += batch.to_pylist()
        return found

    def data(self, topic: str = "out") -> list[bytes]:
        return [row["data"] for row in self.rows(topic)]
