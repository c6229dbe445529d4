"""The engine: topics, edges, transforms and the Flight server of one run, opened together and closed in order."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from gauss import registry
from gauss.clients.engine.cursor_messages import Pinned
from gauss.clients.engine.driver_messages import DriverSync
from gauss.clients.engine.protocol import Action
from gauss.clients.engine.task_messages import (
    Abort,
    Busy,
    Claim,
    Emptied,
    Latest,
    Missed,
    Next,
    ProcessorFailure,
    Publish,
    PublishAll,
    StageDead,
    StageTime,
    StillClaimed,
)
from gauss.contracts.letter import Letter
from gauss.contracts.outside import PullSpec, PushSpec
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.model.closing import Closing, scope
from gauss.model.errors import GaussError, NotFound, StorageError, Unavailable
from gauss.model.names import DEAD_TOPIC, is_internal, orders_topic
from gauss.model.paths import DataDir
from gauss.stream.child import assignment
from gauss.stream.engine import building
from gauss.stream.engine.clock import clock_of
from gauss.stream.engine.delivery.batch_planning import Sources
from gauss.stream.engine.delivery.dead_letters import DeadLetters
from gauss.stream.engine.delivery.feeds import Feeds
from gauss.stream.engine.delivery.grants import Grants
from gauss.stream.engine.delivery.heartbeat import Heartbeat
from gauss.stream.engine.delivery.partition_readers import PartitionReaders, keys_read_by
from gauss.stream.engine.delivery.publish import Publisher
from gauss.stream.engine.delivery.replay import LetterReplay
from gauss.stream.engine.delivery.stages import Stages
from gauss.stream.engine.edges import listening
from gauss.stream.engine.edges.listening import Listening
from gauss.stream.engine.edges.pull_sources import pull_source
from gauss.stream.engine.edges.pump import Pump
from gauss.stream.engine.edges.push_sinks import push_sink
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.journal.opening import open_ledger
from gauss.stream.engine.observe.driver_board import DriverBoard
from gauss.stream.engine.observe.progress import Progress
from gauss.stream.engine.server import commands
from gauss.stream.engine.server.flight import FlightServer
from gauss.stream.engine.server.scan_sources import pipeline_formats, register, scan_engine
from gauss.stream.engine.topics.captured_streams import CapturedStreams
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.refill import refill
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.engine.topics.topic_state import TopicState
from gauss.stream.engine.topics.volatile_ends import keep_ends, read_ends
from gauss.stream.formats import sink_formats
from gauss.stream.graph import ProcessorNode, build_graph, table_queries

MAINTAIN_S = 1.0
SAVE_S = 0.1
"""Maximum age of a kept reader's position when the engine is killed: records since then may be sent again."""
BIND_TRIES = 40
CALLS_S = 2.0

log = logging.getLogger(__name__)


class Engine:
    """One run. `open` opens what is on disk, `start` starts everything that runs."""

    def __init__(self, data_dir: Path) -> None:
        self.paths = DataDir(data_dir)
        given = assignment(self.paths)
        self.pipeline, self.base_dir, self.started_ms = given.pipeline, given.base_dir, given.started_ms
        self.graph = build_graph(self.pipeline)
        self._flight_file = json.loads(self.paths.flight_json.read_text())
        self.lock_path: str = self._flight_file.get("lock", "")
        self.clock = clock_of(self.paths)
        self.stopping = threading.Event()
        self.began = time.monotonic()
        self.free_bytes = 0
        self.draining = False
        self._closed = False
        self.built = Closing()
        """Formats, framings and transforms to be closed at the end."""
        self.board = DriverBoard()
        self.edges: dict[str, Listening] = {}
        self.pumps: dict[str, Pump] = {}
        self._server: FlightServer | None = None
        self._maintainer = threading.Thread(target=self._maintain, name="maintain", daemon=True)

    def open(self) -> None:
        """Opens the ledger, then the topics up to what the ledger commits."""
        self.ledger: Ledger = open_ledger(self.paths, self._places())
        building.drop_forgotten(self.graph, self.ledger)
        ended = read_ends(self.paths.memory_ends)
        builder = building.TopicBuilder(
            self.pipeline, self.graph, self.paths, self.base_dir, self.ledger, self._dead, ended
        )
        with scope(self.built):
            self.topics = builder.all()
            self.captures = builder.captures()
            self.topics |= builder.orders(self.topics, lambda: self.clock() / 1000)
        self.partitions = builder.partitions(self.topics)
        self.places: dict[str, Topic] = dict(self.topics)
        """What processors read, by the keys of Ends: topics, and the partitions of those in outside systems."""
        for each in self.partitions.values():
            self.places |= each.places
        self.scans = scan_engine(self.topics, self.pipeline, self.built)
        dead = self.topics[DEAD_TOPIC]
        assert isinstance(dead, LogTopic)
        definitions = [*self.pipeline.processors, *table_queries(self.pipeline)]
        self.dead = DeadLetters(dead, self.ledger, {each.name: each.max_dead_bytes for each in definitions})
        self.stages = Stages(self.paths.stages, self.pipeline.engine.staged_bytes)
        volatile = {name for name, node in self.graph.topics.items() if not node.durable}
        durable = frozenset(self.topics) - volatile
        synced = (each.name for each in self.pipeline.topics if each.storage_config.get("fsync") == "always")
        self.synced = frozenset(synced)
        """Topics whose publishes are on disk before they are acknowledged."""
        keep_ends(self.paths.memory_ends, (topic for name, topic in self.topics.items() if name not in durable))
        self.publisher = Publisher(
            self.places,
            self.ledger,
            self.stages,
            synced=self.synced,
            dead_full=self.dead.full,
            on_stop=lambda name, _: self.board.tell(name, "stop"),
        )
        self.feeds = Feeds(self.topics, self.ledger, self._dead, synced=self.synced, clock=self.clock)
        for name, at in self.ledger.state.emptied.items():
            if name in self.topics and self.topics[name].inc == at.inc and self.topics[name].floor() < at.off:
                self.topics[name].empty(at.off)  # an engine died during a rebuild
        self.progress = Progress(self.places, self.ledger, self.publisher.running)
        self.replay = LetterReplay(self.topics, self.ledger, self.dead, self.graph)
        heartbeat = Heartbeat(self.graph, self.places, self.ledger, self.publisher.running, self.clock)
        self.sources = Sources(self.places, self.ledger, self.publisher, durable, heartbeat, ended=ended)
        self.grants = Grants(self.places, self.ledger, self.publisher, self.sources)
        for definition in definitions:
            source, node = definition.source, self.graph.processors[definition.name]
            if node.role is not Role.TRANSFORM:
                continue
            orders = self.topics.get(orders_topic(definition.name))
            keys = [orders.name] if orders is not None else keys_read_by(node, self.partitions)
            lanes = bool(self.graph.shared(node.targets))
            running = building.processor_run(definition, node, keys, orders, lanes=lanes, clock=self.clock)
            self.publisher.add(running, "earliest" if source is None or source.start is None else source.start)
        self.partition_readers = PartitionReaders(self.partitions, self.places, self.graph, self.publisher)
        self.partition_readers.follow(lambda topic: register(self.scans, topic))
        self._watch_disk()

    def start(self) -> None:
        """Starts the Flight server, transforms, sinks, then sources, so that readers are there before writers."""
        restarted = self._mark_started()
        refill(self.graph, self.topics, self.ledger)
        nodes = self.graph.on(Where.ENGINE)
        # Registered first: until its listener is up, an edge counts as starting.
        for node in nodes:
            if node.role is not Role.TRANSFORM:
                self.edges[node.name] = self._edge(node)
        self._serve(restarted=restarted)
        for node in nodes:
            if node.role is Role.TRANSFORM:
                self._start_pump(node)
        for role in (Role.SINK, Role.SOURCE):
            for edge in self.edges.values():
                if edge.node.role is role:
                    edge.start(restarted=restarted, stopping=self.stopping)
        self._maintainer.start()

    def _edge(self, node: ProcessorNode) -> Listening:
        """A source or sink that is not started yet."""
        spec = registry.spec(ProcessorSpec, node.plugin)
        if isinstance(spec, PullSpec):
            return Listening(node, lambda status: pull_source(self, node, status), self.built)
        if isinstance(spec, PushSpec):
            return Listening(node, lambda status: push_sink(self, node, status), self.built)
        names = [reading.topic for reading in node.sources] if node.role is Role.SINK else node.targets
        topic: Topic | CapturedStreams | None = None  # a source that only forwards has none
        if names:
            topic = self.captures.get(names[0]) or self.topic(names[0])
        return Listening(
            node,
            lambda status: building.edge(
                node,
                topic,
                base_dir=self.base_dir,
                status=status,
                dead=self._dead,
                may_read=self.may_read,
                stopping=self.stopping,
                format_=pipeline_formats(self.pipeline, self.built),
                formats=sink_formats(self.pipeline, node.name),
            ),
            self.built,
        )

    def _start_pump(self, node: ProcessorNode) -> None:
        with scope(self.built):
            transform = building.transform(node)
        self.pumps[node.name] = Pump(
            self.publisher.processor(node.name),
            node.targets[0],
            transform,
            topics=self.topics,
            ledger=self.ledger,
            publisher=self.publisher,
            sources=self.sources,
        )
        self.pumps[node.name].start()

    def _mark_started(self) -> bool:
        """Whether an engine of this run was up before; the hash of the run's token identifies the run."""
        mark = self.paths.run / "engine.started"
        run = hashlib.sha256(self._flight_file["token"].encode()).hexdigest()
        restarted = mark.exists() and mark.read_text() == run
        mark.write_text(run)
        return restarted

    def _serve(self, *, restarted: bool) -> None:
        endpoint = self._flight_file["endpoint"]
        for attempt in range(BIND_TRIES if restarted else 1):
            try:
                self._server = FlightServer(self, endpoint, self._flight_file["token"])
                return
            except Exception as error:  # pyarrow raises several classes when the port can't be bound
                if not restarted or attempt == BIND_TRIES - 1:
                    raise Unavailable(
                        f"the engine can't listen on {endpoint}: {error}",
                        hint="the port is in use; set engine.port to a free port, or 0",
                    ) from error
                time.sleep(0.25)

    @property
    def shown(self) -> dict[str, TopicState]:
        """Topics and captures by name, in order."""
        return dict(sorted({**self.topics, **self.captures}.items()))

    def topic(self, name: str) -> Topic:
        """A topic by name; raises NotFound, or ConfigError for captures."""
        if name in self.captures:
            raise self.captures[name].no_records()
        if name not in self.topics:
            known = ", ".join(each for each in self.shown if not is_internal(each))
            raise NotFound(f'no topic "{name}"', hint=f"in this config: {known}")
        return self.topics[name]

    def state(self, name: str) -> TopicState:
        """A topic or captures by name; raises NotFound."""
        return self.captures.get(name) or self.topic(name)

    def act(self, action: Action) -> Any:
        """Answers one call of the Flight protocol."""
        if isinstance(action, Claim):
            return self.publisher.claim(action)
        if isinstance(action, StillClaimed):
            self.publisher.check_generation(action.processor, action.generation)
            return {"claimed": True}
        if isinstance(action, Latest):
            return self.sources.latest(action)
        if isinstance(action, Next):
            return self.grants.next(action)
        if isinstance(action, Publish):
            return self.grants.publish(action)
        if isinstance(action, PublishAll):
            return self.grants.publish_all(action, self.stages)
        if isinstance(action, ProcessorFailure):
            return self.grants.note_failure(action)
        if isinstance(action, Emptied):
            return self.grants.emptied(action)
        if isinstance(action, Missed):
            return self.sources.missed(action)
        if isinstance(action, Pinned):
            self.publisher.check_generation(action.processor, action.generation)
            return self.sources.tables.pinned(self.publisher.processor(action.processor), action.topic, action.at)
        if isinstance(action, StageDead):
            self.publisher.check_generation(action.processor, action.generation)
            self.stages.dead.put(action)
            return {"letters": len(action.letters)}
        if isinstance(action, StageTime):
            self.publisher.check_generation(action.processor, action.generation)
            self.stages.times.put(action)
            return {"late": action.late}
        if isinstance(action, Abort):
            return {"removed": self.stages.abort(action.processor, action.generation, action.stages)}
        if isinstance(action, Busy):
            return self.grants.noted_busy(action)
        if isinstance(action, DriverSync):
            reply = self.board.sync(action)
            reply.news, reply.apart = self.grants.news(), self.grants.taken_apart()
            return reply
        return commands.run(self, action)

    def may_read(self) -> bool:
        """False while the disk is too full for sources to continue."""
        return self.free_bytes >= self.pipeline.engine.min_free_bytes

    def _dead(self, letter: Letter) -> None:
        """Stores a letter of an edge, or of a topic that can't store a record and does not know its writer."""
        writers = [writer.name for writer in self.graph.writers(letter.topic)] if not letter.processor else []
        if writers:
            letter = msgspec.structs.replace(letter, processor=", ".join(writers))
        self.dead.write(letter, self.stopping)

    def _places(self) -> list[tuple[str, Path]]:
        """Topics outside the data directory."""
        named = [(each.name, each.storage_config.get("data_dir")) for each in self.pipeline.topics]
        return [(name, self.base_dir / directory) for name, directory in named if directory]

    def _watch_disk(self) -> None:
        places = [self.paths.root, *(path for _, path in self._places())]
        # A deleted directory has no space; one that no topic has written to yet does not count.
        there = self.paths.root.exists()
        self.free_bytes = min(shutil.disk_usage(place).free for place in places if place.exists()) if there else 0

    def _maintain(self) -> None:
        due = time.monotonic() + MAINTAIN_S
        while not self.stopping.wait(SAVE_S):
            if time.monotonic() < due:
                with contextlib.suppress(GaussError, OSError):  # such as a full disk, which the next maintenance logs
                    self.ledger.save_positions()
                continue
            due = time.monotonic() + MAINTAIN_S
            try:
                self.scans.reap()
                self._watch_disk()
                for topic in self.shown.values():
                    topic.maintain(self.clock())
                self.partition_readers.show_positions(self.pipeline, self.ledger)
                self.ledger.maintain()
            except (GaussError, OSError) as error:
                log.warning("maintenance: %s", error)

    def drain(self, seconds: float) -> None:
        """Sources stop reading, transforms catch up, sinks send the rest; takes up to `seconds` in all."""
        self.draining = True
        deadline = time.monotonic() + seconds
        edges = list(self.edges.values())
        listening.drain([each for each in edges if each.node.role is Role.SOURCE], seconds / 2)
        while time.monotonic() < deadline and any(
            pump.status.state == "running" and self.progress.lag(name)[0] for name, pump in self.pumps.items()
        ):
            time.sleep(0.02)
        listening.drain([each for each in edges if each.node.role is Role.SINK], max(deadline - time.monotonic(), 0.2))

    def close(self) -> None:
        """Closes everything; nothing acknowledged is lost."""
        if self._closed:
            return
        self._closed = True
        self.stopping.set()
        self.publisher.close()
        self.grants.close()
        for pump in self.pumps.values():
            pump.stop()
        for edge in self.edges.values():
            if edge.edge is not None:
                edge.edge.close()
        for pump in self.pumps.values():
            pump.join(5)
        if self._server is not None:
            # A shutdown waits for all calls, and a stalled client would block it for ever.
            ending = threading.Thread(target=self._server.shutdown, name="end-flight", daemon=True)
            ending.start()
            ending.join(CALLS_S)
        if self._maintainer.is_alive():
            self._maintainer.join(5)
        try:
            self.ledger.maintain()  # a topic that is rolled at its close must have its commits on disk
        except StorageError as error:
            log.warning("the journal could not be synced to disk: %s", error.message)
        for topic in self.shown.values():
            try:
                topic.close()
            except StorageError as error:
                log.warning("topic %s: %s", topic.name, error.message)
        self.stages.clear()
        self.ledger.close()
        self.built.close()
