"""The graph of a pipeline: topics, the processors between them, and where each of those runs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

from gauss import registry
from gauss.config.listeners import Address, edge_address
from gauss.config.spec import Pipeline, ProcessorDef, SourceRef, TopicDef
from gauss.config.topics import sources_of, tables_of, targets_of
from gauss.contracts.live import PullSpec
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull
from gauss.contracts.table import TableSpec
from gauss.stream.orders import ROW_READS


@dataclass(frozen=True)
class TopicNode:
    """A topic and what its storage promises."""

    name: str
    storage: str
    read_modes: tuple[str, ...]
    durable: bool
    engine_owned: bool
    capacity: Capacity
    table: str = ""
    """The system that holds its rows: the topic itself is only their inbox."""
    embedded: bool = False
    """That system is the one that comes with Gauss."""
    repeats: str = ""
    """Why a row of the table may come twice."""
    losses: str = ""
    """How a row of the table may be missed."""

    @property
    def write_full(self) -> WriteFull:
        return self.capacity.write_full


STATE = {True: "stateful", False: "stateless", None: "state unknown until it runs"}


class Reading(NamedTuple):
    """One input of a processor."""

    topic: str
    read: str
    subscribe: str = "snapshots"
    """With read = "subscribe": whole snapshots, or the changes."""


@dataclass(frozen=True)
class ProcessorNode:
    """A processor, what it is, and what it reads and writes."""

    name: str
    plugin: str
    role: Role
    where: Where
    """ENGINE or SPARK: decided for this pipeline."""
    active: bool
    stateful: bool | None
    """None: only Spark's plan of it tells, once it is started."""
    keeps_order: bool
    sources: tuple[Reading, ...]
    targets: tuple[str, ...]
    address: Address | None
    config: PluginConfig = dataclasses.field(hash=False)
    """It may hold tables and arrays, which have no hash."""
    embedded: str = ""
    """The embedded server that it reads."""
    repeats: str = ""
    """Why a record of this source may come twice."""
    losses: str = ""
    """How a record of this source may be missed."""
    tables: tuple[str, ...] = ()
    """Where it looks rows up."""
    beside: tuple[str, ...] = ()
    """Those of its sources whose records are others than those of its `source`."""
    runs: str = ""
    """How it runs, once its plan is known: edge, pump, hosted, columns, partials or table."""
    query: str = ""
    """The query that runs it, by the name of its first processor; empty: none, or its plan is not known."""

    @property
    def inputs(self) -> tuple[Reading, ...]:
        """What it reads, the tables in which it looks rows up included."""
        return (*self.sources, *(Reading(table, ReadMode.SNAPSHOT) for table in self.tables))

    @property
    def traits(self) -> tuple[str, str]:
        """In the seed's words: does it change the number of records, does it remember any."""
        return "active" if self.active else "passive", STATE[self.stateful]


@dataclass(frozen=True)
class Graph:
    """A whole pipeline, by name."""

    topics: dict[str, TopicNode]
    processors: dict[str, ProcessorNode]

    @property
    def servers(self) -> list[str]:
        """The embedded servers that its tables and sources need."""
        tables = {topic.table for topic in self.topics.values() if topic.embedded}
        return sorted(tables | {each.embedded for each in self.processors.values() if each.embedded})

    @property
    def needs_spark(self) -> bool:
        return any(processor.where is Where.SPARK for processor in self.processors.values())

    def on(self, where: Where) -> list[ProcessorNode]:
        """The processors that run on one side."""
        return [processor for processor in self.processors.values() if processor.where is where]

    def writers(self, topic: str) -> list[ProcessorNode]:
        return [processor for processor in self.processors.values() if topic in processor.targets]

    def readers(self, topic: str) -> list[tuple[ProcessorNode, str]]:
        """Who reads a topic, and how."""
        return [
            (processor, reading.read)
            for processor in self.processors.values()
            for reading in processor.inputs
            if reading.topic == topic
        ]

    def upstream(self, topic: str) -> list[TopicNode]:
        """The topic and all that flows into it, nearest first."""
        found, waiting = [], [topic]
        while waiting:
            name = waiting.pop(0)
            if name in self.topics and self.topics[name] not in found:
                found.append(self.topics[name])
                waiting += [reading.topic for writer in self.writers(name) for reading in writer.inputs]
        return found

    def to_dict(self) -> dict[str, object]:
        """For `--json`; configs are left out, since they may hold secrets."""
        processors = []
        for node in self.processors.values():
            shown = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
            del shown["config"]
            shown["sources"] = [reading._asdict() for reading in node.sources]
            shown["address"] = node.address._asdict() if node.address else None
            processors.append(shown)
        topics = [dataclasses.asdict(node) for node in self.topics.values()]
        return {"topics": topics, "processors": processors, "needs_spark": self.needs_spark}


def build_graph(pipeline: Pipeline) -> Graph:
    """The graph of a pipeline that passed the check, with the query that empties each table topic."""
    topics = {topic.name: _topic_node(topic) for topic in pipeline.topics}
    processors = {entry.name: _processor_node(entry, topics) for entry in pipeline.processors}
    processors |= {entry.name: _table_node(entry) for entry in table_queries(pipeline)}
    return Graph(topics, processors)


TABLE_PREFIX = "_table."


def table_queries(pipeline: Pipeline) -> list[ProcessorDef]:
    """The hidden processors: one per table topic, which reads its inbox and writes to no topic."""
    return [
        ProcessorDef.model_construct(
            name=TABLE_PREFIX + topic.name,
            plugin=f"table {topic.name}",
            source=SourceRef(topic=topic.name, read=ReadMode.OFFSET),
        )
        for topic in pipeline.topics
        if isinstance(registry.spec(StorageSpec, topic.storage), TableSpec)
    ]


def _table_node(entry: ProcessorDef) -> ProcessorNode:
    assert entry.source is not None
    return ProcessorNode(
        name=entry.name,
        plugin=entry.plugin,
        role=Role.TRANSFORM,
        where=Where.SPARK,
        active=False,
        stateful=False,
        keeps_order=True,
        sources=(Reading(entry.source.topic, entry.source.read),),
        targets=(),
        address=None,
        config=PluginConfig(),
    )


def _topic_node(topic: TopicDef) -> TopicNode:
    spec = registry.spec(StorageSpec, topic.storage)
    config = spec.validate(topic.storage_config)
    table = spec if isinstance(spec, TableSpec) else None
    return TopicNode(
        name=topic.name,
        storage=topic.storage,
        read_modes=tuple(sorted(spec.read_modes(config))),
        durable=spec.durable,
        engine_owned=spec.engine_owned,
        capacity=spec.capacity(config),
        table=table.system if table else "",
        embedded=table is not None and table.server(config) is None,
        repeats=table.repeats(config) if table else "",
        losses=table.losses(config) if table else "",
    )


def _reads_rows(reading: Reading, topic: TopicNode) -> bool:
    """Whether it reads a table, whose rows only Spark's tasks make into records."""
    return reading.read in ROW_READS and ReadMode.OFFSET not in topic.read_modes


def _processor_node(entry: ProcessorDef, topics: dict[str, TopicNode]) -> ProcessorNode:
    spec = registry.spec(ProcessorSpec, entry.plugin)
    config = spec.validate(entry.config)
    sources = tuple(
        Reading(source.topic, source.read, source.subscribe or "snapshots")
        for _, source in sources_of(entry, spec, config)
    )
    targets = tuple(topic for _, topic in targets_of(entry, spec, config))
    pull = spec if isinstance(spec, PullSpec) else None
    where = spec.where
    if where is Where.EITHER:
        touched = [*(reading.topic for reading in sources), *targets]
        where = Where.ENGINE if all(topics[name].engine_owned for name in touched) else Where.SPARK
        if any(_reads_rows(reading, topics[reading.topic]) for reading in sources):
            where = Where.SPARK
    return ProcessorNode(
        name=entry.name,
        plugin=entry.plugin,
        role=spec.role,
        where=where,
        active=spec.is_active(config),
        stateful=spec.stateful,
        keeps_order=spec.keeps_order,
        sources=sources,
        targets=targets,
        address=edge_address(entry.name, config),
        config=config,
        embedded=pull.system if pull and pull.server(config) is None else "",
        repeats=pull.repeats(config) if pull else "",
        losses=pull.losses(config) if pull else "",
        tables=tuple(topic for _, topic in tables_of(spec, config)),
        beside=tuple(topic for _, topic in spec.beside(config)) if spec.beside is not None else (),
    )
