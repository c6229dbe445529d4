"""The graph of a pipeline: topics, the processors between them, and where each processor runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gauss import registry
from gauss.config.listeners import Address, edge_address
from gauss.config.spec import Pipeline, ProcessorDef, SourceRef, TopicDef
from gauss.config.topics import sources_of, tables_of, targets_of
from gauss.contracts.outside import OutsideSpec
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, TopicKind, WriteFull
from gauss.contracts.table import TableSpec
from gauss.model.names import table_processor
from gauss.stream.orders import ROW_READS


@dataclass(frozen=True)
class TopicNode:
    """A topic and the properties of its storage."""

    name: str
    storage: str
    kind: TopicKind
    read_modes: tuple[str, ...]
    durable: bool
    capacity: Capacity
    table: str = ""
    """The database system of a table topic; the topic itself is only its inbox."""
    embedded: bool = False
    """Whether that system is the server embedded in Gauss."""
    repeats: str = ""
    """Why a row of the table, or a record that Spark's tasks write, may be duplicated."""
    losses: str = ""
    """How a row of the table may be lost."""
    shared: bool = False
    """Whether it is in an outside system whose partitions Spark's tasks read and write themselves."""

    @property
    def write_full(self) -> WriteFull:
        return self.capacity.write_full


STATE = {True: "stateful", False: "stateless", None: "state unknown until it runs"}


class ProcessorInput(NamedTuple):
    """One input of a processor."""

    topic: str
    read: str
    subscribe: str = "snapshots"
    """With read = "subscribe": `snapshots` or `changes`."""


@dataclass(frozen=True)
class ProcessorNode:
    """A processor with its properties, sources and targets."""

    name: str
    plugin: str
    role: Role
    where: Where
    """ENGINE or SPARK, resolved for this pipeline."""
    active: bool
    stateful: bool | None
    """None if it is unknown before Spark plans the query."""
    keeps_order: bool
    sources: tuple[ProcessorInput, ...]
    targets: tuple[str, ...]
    address: Address | None
    config: PluginConfig = dataclasses.field(hash=False)
    """Excluded from the hash: it may contain tables and arrays."""
    embedded: str = ""
    """The embedded server that it connects to."""
    repeats: str = ""
    """Why a record of this source or sink may be duplicated."""
    losses: str = ""
    """How a record of this source or sink may be lost."""
    tables: tuple[str, ...] = ()
    """The tables in which it looks up rows."""
    beside: tuple[str, ...] = ()
    """Its second sources, such as the other side of a join."""
    runs: str = ""
    """How it runs: edge, pump, hosted, columns, partials or table; empty before its plan is known."""
    query: str = ""
    """The query that runs it, by the name of its first processor; empty if there is none or it is not planned yet."""

    @property
    def inputs(self) -> tuple[ProcessorInput, ...]:
        """Its sources and the tables in which it looks up rows."""
        return (*self.sources, *(ProcessorInput(table, ReadMode.SNAPSHOT) for table in self.tables))

    @property
    def traits(self) -> tuple[str, str]:
        """`active` or `passive` (whether it changes the number of records), and its kind of state."""
        return "active" if self.active else "passive", STATE[self.stateful]


@dataclass(frozen=True)
class Graph:
    """The topics and processors of a pipeline, by name."""

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
        """The processors that run in the engine or on Spark."""
        return [processor for processor in self.processors.values() if processor.where is where]

    def shared(self, names: Iterable[str]) -> list[str]:
        """Those of some topics that tasks read and write themselves."""
        return [name for name in names if name in self.topics and self.topics[name].shared]

    def writers(self, topic: str) -> list[ProcessorNode]:
        return [processor for processor in self.processors.values() if topic in processor.targets]

    def readers(self, topic: str) -> list[tuple[ProcessorNode, str]]:
        """The readers of a topic and their read modes."""
        return [
            (processor, reading.read)
            for processor in self.processors.values()
            for reading in processor.inputs
            if reading.topic == topic
        ]

    def upstream(self, topic: str) -> list[TopicNode]:
        """The topic and all topics upstream of it, nearest first."""
        found, waiting = [], [topic]
        while waiting:
            name = waiting.pop(0)
            if name in self.topics and self.topics[name] not in found:
                found.append(self.topics[name])
                waiting += [reading.topic for writer in self.writers(name) for reading in writer.inputs]
        return found

    def to_dict(self) -> dict[str, object]:
        """The graph for `--json`, without configs, since they may hold secrets."""
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
    """The graph of a checked pipeline, including the processor that fills each table."""
    topics = {topic.name: _topic_node(topic) for topic in pipeline.topics}
    processors = {entry.name: _processor_node(entry, topics) for entry in pipeline.processors}
    processors |= {entry.name: _table_node(entry) for entry in table_queries(pipeline)}
    return Graph(topics, processors)


def table_queries(pipeline: Pipeline) -> list[ProcessorDef]:
    """The hidden processors: one per table topic, which reads its inbox and has no target topic."""
    return [
        ProcessorDef.model_construct(
            name=table_processor(topic.name),
            plugin=f"table {topic.name}",
            source=SourceRef(topic=topic.name, read=ReadMode.OFFSET),
        )
        for topic in pipeline.topics
        if topic.kind is TopicKind.STORED_TABLE
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
        sources=(ProcessorInput(entry.source.topic, entry.source.read),),
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
        kind=spec.kind(config),
        read_modes=tuple(sorted(spec.read_modes(config))),
        durable=spec.durable,
        capacity=spec.capacity(config),
        table=table.system if table else "",
        embedded=table is not None and table.server(config) is None,
        repeats=spec.repeats(config),
        losses=table.losses(config) if table else "",
        shared=bool(spec.task_implementation),
    )


def _reads_rows(reading: ProcessorInput, topic: TopicNode) -> bool:
    """Whether it reads a table, whose rows only Spark tasks convert to records."""
    return reading.read in ROW_READS and topic.kind.has_rows


def _repeats(outside: OutsideSpec, config: PluginConfig, targets: list[TopicNode]) -> str:
    """Why a record of a source or sink may be duplicated."""
    shared = [topic for topic in targets if topic.shared]
    if outside.role is Role.SOURCE and shared and (len(targets) > 1 or shared[0].repeats):
        names = ", ".join(topic.name for topic in shared)
        return f"after a crash its last records may come again in {names}, which has no common journal"
    return outside.repeats(config)


def _processor_node(entry: ProcessorDef, topics: dict[str, TopicNode]) -> ProcessorNode:
    spec = registry.spec(ProcessorSpec, entry.plugin)
    config = spec.validate(entry.config)
    sources = tuple(
        ProcessorInput(source.topic, source.read, source.subscribe or "snapshots")
        for _, source in sources_of(entry, spec, config)
    )
    targets = tuple(topic for _, topic in targets_of(entry, spec, config))
    outside = spec if isinstance(spec, OutsideSpec) else None
    where = spec.where
    if where is Where.EITHER:
        rows = any(_reads_rows(reading, topics[reading.topic]) for reading in sources)
        shared = any(topics[name].shared for name in (*(reading.topic for reading in sources), *targets))
        where = Where.SPARK if rows or shared else Where.ENGINE
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
        embedded=outside.system if outside and outside.server(config) is None else "",
        repeats=_repeats(outside, config, [topics[name] for name in targets]) if outside else "",
        losses=outside.losses(config) if outside else "",
        tables=tuple(topic for _, topic in tables_of(spec, config)),
        beside=tuple(topic for _, topic in spec.beside(config)) if spec.beside is not None else (),
    )
