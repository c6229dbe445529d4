"""Builds framings, topics, transports, edges and transforms from a checked config."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gauss import registry
from gauss.clients.engine.positions import At, Ends
from gauss.config.formats import named_format
from gauss.config.spec import Pipeline, ProcessorDef, TopicDef
from gauss.config.topics import state_of
from gauss.contracts.capture import RawContext
from gauss.contracts.edge import Edge, EdgeContext, EdgeStatus, EngineTransform, TopicHandle
from gauss.contracts.format import Format
from gauss.contracts.framing import Framing, FramingSpec
from gauss.contracts.letter import Letter
from gauss.contracts.processor import ProcessorSpec, Role
from gauss.contracts.storage import Capacity, ReadMode, StorageContext, StorageSpec, TopicKind, WriteFull
from gauss.contracts.table_read import TableReader
from gauss.contracts.transport import Transport, TransportSpec
from gauss.model.names import DEAD_TOPIC, is_internal, is_table_processor, orders_topic, retry_topic, table_processor
from gauss.model.paths import DataDir
from gauss.stream.engine.delivery.dead_letters import DeadRatio
from gauss.stream.engine.delivery.epochs import last_ts
from gauss.stream.engine.delivery.processor_run import ProcessorRun, retry_topics
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.bounded_reads import Bounded
from gauss.stream.engine.topics.captured_streams import CapturedStreams
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.orders_topic import OrdersTopic
from gauss.stream.engine.topics.partitions import PartitionLog, Partitions
from gauss.stream.engine.topics.readers import ReaderPosition
from gauss.stream.engine.topics.stored_table import StoredTable
from gauss.stream.engine.topics.table_topic import TableTopic
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.graph import Graph, ProcessorNode
from gauss.stream.orders import reads_table

if TYPE_CHECKING:
    from gauss.contracts.shared_log import SharedLog

log = logging.getLogger(__name__)


def framing(name: str, parameters: dict[str, object]) -> Framing:
    """A framing by name and parameters."""
    spec = registry.spec(FramingSpec, name)
    built: Framing = registry.build(spec, spec.validate(parameters))
    return built


@dataclass(frozen=True)
class TopicBuilder:
    """Opens topics with their state in the ledger."""

    pipeline: Pipeline
    graph: Graph
    paths: DataDir
    base_dir: Path
    ledger: Ledger
    dead: Callable[[Letter], None]
    ended: Ends
    """The ends of memory topics that were lost with the last engine."""

    def all(self) -> dict[str, Topic]:
        """The config's topics, the dead letters and the retry topics of each transform."""
        own = [TopicDef.model_construct(name=DEAD_TOPIC, storage="file", storage_config={})]
        own += [
            TopicDef.model_construct(name=name, storage="file", storage_config={})
            for each in self.graph.processors.values()
            if each.role is Role.TRANSFORM
            for name in retry_topics(each)
        ]
        logs_and_tables = [each for each in self.pipeline.topics if each.kind is not TopicKind.CAPTURES]
        return {definition.name: self._open(definition) for definition in [*own, *logs_and_tables]}

    def captures(self) -> dict[str, CapturedStreams]:
        """The config's topics that store captures."""
        found: dict[str, CapturedStreams] = {}
        for definition in self.pipeline.topics:
            if definition.kind is TopicKind.CAPTURES:
                spec = registry.spec(StorageSpec, definition.storage)
                spec = dataclasses.replace(spec, implementation=spec.capture_implementation)
                config = spec.validate(definition.storage_config)
                store = registry.build(spec, config, self._context(definition.name))
                found[definition.name] = CapturedStreams(definition.name, store, spec.capacity(config))
        return found

    def partitions(self, topics: Mapping[str, Topic]) -> dict[str, Partitions]:
        """The partitions of topics in outside systems, by topic."""
        found: dict[str, Partitions] = {}
        for name in self.graph.shared(topics):
            topic = topics[name]
            assert isinstance(topic, LogTopic)
            found[name] = Partitions(topic, cast("SharedLog", topic.log), self._partition)
        return found

    def _partition(self, key: str, log: PartitionLog) -> LogTopic:
        return LogTopic(key, log, Capacity(None, None, WriteFull.BLOCK))

    def orders(self, topics: Mapping[str, Topic], clock: Callable[[], float]) -> dict[str, Topic]:
        """The topics for orders of table reads, one per processor with such reads."""
        found: dict[str, Topic] = {}
        for processor in self.pipeline.processors:
            if processor.source is None or not reads_table(self.pipeline, processor):
                continue
            if self.graph.processors[processor.name].role is not Role.TRANSFORM:
                continue
            name = orders_topic(processor.name)
            subscribes = processor.source.read == ReadMode.SUBSCRIBE
            kept = {"retention": "1h", "segment_bytes": 65_536} if subscribes else {}  # one order per change
            topic = self._open(TopicDef.model_construct(name=name, storage="file", storage_config=kept), OrdersTopic)
            assert isinstance(topic, OrdersTopic)
            table = topics[processor.source.topic]
            topic.watch(processor.source, clock, partial(_settled, table))
            if subscribes:
                topic.follow(table, partial(self._published, processor.name, name))
            else:
                topic.maintain()
            found[name] = topic
        return found

    def _published(self, processor: str, orders: str) -> At | None:
        """How far a processor has published its orders."""
        row = self.ledger.row(processor)
        return None if row is None else row.ends.get(orders)

    def _open(self, definition: TopicDef, kind: type[LogTopic] = LogTopic) -> Topic:
        name = definition.name
        spec = registry.spec(StorageSpec, definition.storage)
        config = spec.validate(self._closing(definition))
        opened = registry.build(spec, config, self._context(name))
        holds = spec.kind(config)
        if holds is TopicKind.TABLE:
            return TableTopic(name, opened, spec.capacity(config), dead=self.dead)
        known = self.ledger.state.positions.get(name, {})
        # In the ledger the name of a topic with partitions stands for the first of them.
        at_least = 0 if spec.task_implementation else self.ledger.highest(name, opened.inc)
        topic = kind(
            name,
            opened,
            spec.capacity(config),
            dead=self.dead,
            positions={reader: ReaderPosition(at.inc, at.off) for reader, at in known.items()},
            at_least=at_least,
            ended=self.ended.get(name),
            on_position=lambda topic, reader, inc, offset: self.ledger.move(topic, reader, At(inc, offset)),
        )
        if topic.counters.lost:
            log.warning("topic %s: %d known records are missing", name, topic.counters.lost)
        if holds is TopicKind.STORED_TABLE:
            topic.rows = topic.stored = self._stored(topic)
        return topic

    def _context(self, name: str) -> StorageContext:
        """The context in which a topic's storage is opened."""
        return StorageContext(
            topic=name,
            directory=self.paths.topics / name,
            base_dir=self.base_dir,
            incarnation=lambda stored: self.ledger.incarnation(name, stored),
            committed=self.ledger.committed,
            framing=framing,
            format=partial(named_format, self.pipeline),
        )

    def _stored(self, topic: Topic) -> StoredTable:
        """The external table of an inbox."""
        name = topic.name

        def build() -> TableReader:
            from gauss.stream.tables import table_topic  # imports the table's client

            return table_topic(self.pipeline, name, self.base_dir, self.paths).reader

        return StoredTable(name, topic.inc, build, committed=lambda: self._committed(name))

    def _committed(self, topic: str) -> dict[int, int]:
        """Positions of a table's query in the inbox and in its retry topic, whose rows have negative incarnations."""
        query = table_processor(topic)
        row = self.ledger.row(query)
        ends = {} if row is None else row.ends
        return {-at.inc if name == retry_topic(query) else at.inc: at.off for name, at in ends.items()}

    def _closing(self, definition: TopicDef) -> dict[str, Any]:
        """A topic's config; closed rows are removed from a table that stores a processor's state."""
        named = [(registry.spec(ProcessorSpec, each.plugin), each.name) for each in self.pipeline.processors]
        states = {state_of(spec, self.graph.processors[name].config) for spec, name in named}
        given = definition.storage_config
        if definition.name in states and given.get("mode") == "table":
            return {"delete_when": ".closed == true", **given}
        return given


def _settled(table: Topic) -> int | None:
    """The time of the first record that is not in its table yet; `None` if there is none."""
    if table.stored is None:
        return None
    done = table.stored.version()
    return None if done >= table.version() else last_ts(table, At(table.inc, done + 1)) or None


def processor_run(
    definition: ProcessorDef,
    node: ProcessorNode,
    keys: list[str],
    orders: Topic | None,
    *,
    lanes: bool,
    clock: Callable[[], int],
) -> ProcessorRun:
    """The state of a transform in this run. `keys`: what it reads, by the keys of Ends. `orders`: the topic of its
    orders of table reads."""
    source = definition.source
    bounded: Bounded | None = None
    if isinstance(orders, OrdersTopic):
        bounded = orders.ordered
    elif source is not None and source.read == ReadMode.QUERY:
        bounded = Bounded(source, lambda: clock() / 1000)
    return ProcessorRun(
        definition.name,
        (*keys, *retry_topics(node)),
        DeadRatio(definition.max_dead_ratio),
        read="offset" if orders is not None else node.sources[0].read,
        bounded=bounded,
        tables=node.tables,
        on_restart=definition.on_restart,
        tracked=lanes or is_table_processor(definition.name),
        lanes=lanes,
    )


def drop_forgotten(graph: Graph, ledger: Ledger) -> None:
    """Drops the positions of readers and processors that are no longer in the config."""
    reading = {(source.topic, each.name) for each in graph.processors.values() for source in each.sources}
    readers = [
        (topic, reader) for topic, reader in ledger.readers() if (topic, reader.partition("#")[0]) not in reading
    ]
    names = {each.name for each in graph.processors.values() if each.role is Role.TRANSFORM}
    processors = [name for name in ledger.state.processors if name not in names]
    processors += [name for name in ledger.state.outside if name not in graph.processors and not is_internal(name)]
    for topic, reader in readers:
        log.info("reader %s of topic %s is no longer in the config: its position is dropped", reader, topic)
    for name in processors:
        log.info("processor %s is no longer in the config: its position is dropped", name)
    ledger.drop(readers, processors)


def edge(
    node: ProcessorNode,
    topic: Topic | CapturedStreams | None,
    *,
    base_dir: Path,
    status: EdgeStatus,
    dead: Callable[[Letter], None],
    may_read: Callable[[], bool],
    stopping: threading.Event,
    format_: Callable[[str], Format],
    formats: tuple[str, str] | None = None,
) -> Edge:
    """A source or sink with a transport, and with its framing unless it moves raw bytes."""
    spec = registry.spec(ProcessorSpec, node.plugin)
    config: Any = node.config
    name, transport_config = config.transport_config()
    transport_spec = registry.spec(TransportSpec, name)
    transport: Transport = registry.build(transport_spec, transport_spec.validate(transport_config), base_dir)
    if spec.is_raw(vars(config)):
        assert topic is None or isinstance(topic, CapturedStreams)
        raw = RawContext(node.name, config, topic, transport, may_read, status, stopping)
        made: Edge = registry.build(dataclasses.replace(spec, implementation=spec.raw_implementation), raw)
        return made
    assert isinstance(topic, Topic)
    stream = getattr(config, spec.framed) if spec.framed else None
    read = node.sources[0].read if node.sources else "offset"
    rows = topic.rows if read == ReadMode.SNAPSHOT else None
    context = EdgeContext(
        name=node.name,
        config=config,
        topic=topic if rows is None else cast(TopicHandle, rows),
        framing=None if stream is None else framing(stream.framing, stream.parameters()),
        transport=transport,
        dead=dead,
        may_read=may_read,
        status=status,
        stopping=stopping,
        read=read,
        subscribe=node.sources[0].subscribe if node.sources else "snapshots",
        format=format_,
        formats=formats,
    )
    built: Edge = registry.build(spec, context)
    return built


def transform(node: ProcessorNode) -> EngineTransform:
    """A transform that works on chunks."""
    spec = registry.spec(ProcessorSpec, node.plugin)
    if spec.engine_implementation:
        spec = dataclasses.replace(spec, implementation=spec.engine_implementation)
    built: EngineTransform = registry.build(spec, node.config)
    return built
