"""Chains of processors that run in one task, and the reasons why other processors are not chained.

Consecutive hosted steps run in one task. They are chained through a topic only if that has no observable effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import ReadMode, StorageSpec, TopicKind, WriteFull
from gauss.model.errors import ConfigError
from gauss.registry import spec
from gauss.stream.driver.planning.refs import transform_ref
from gauss.stream.graph import Graph, ProcessorNode

ANY_BYTES = ("u32be", "varint")
"""Length prefixes that hold records of any size."""


class Link(NamedTuple):
    """A topic between two transforms."""

    writer: str
    topic: str
    reader: str


@dataclass(frozen=True)
class Chains:
    """The chains of a pipeline's transforms."""

    fused: tuple[Link, ...]
    """The topics inside chains."""
    borders: dict[Link, str]
    """The topics between different chains or queries, each with the reason."""

    def head(self, name: str) -> str:
        """The first processor of the chain that contains this one."""
        for link in self.fused:
            if link.reader == name:
                return self.head(link.writer)
        return name

    def members(self, head: str) -> list[str]:
        """All processors of a head's chain: the head first, each other one after the one that feeds it."""
        return [head, *(name for link in self.fused if link.writer == head for name in self.members(link.reader))]

    def inner(self) -> dict[str, Link]:
        """The members that are not heads, by name, with the link to each."""
        return {link.reader: link for link in self.fused}

    def without(self, broken: set[str]) -> Chains:
        """The chains with some members split off into their own chains."""
        return Chains(tuple(link for link in self.fused if link.reader not in broken), self.borders)


def find_chains(pipeline: Pipeline, graph: Graph) -> Chains:
    """The chains of a checked pipeline."""
    entries = {entry.name: entry for entry in pipeline.processors}
    fused, borders = [], {}
    for topic in graph.topics:
        for writer in graph.writers(topic):
            for reader, _ in graph.readers(topic):
                if Role.TRANSFORM is not writer.role or Role.TRANSFORM is not reader.role:
                    continue
                link = Link(writer.name, topic, reader.name)
                reason = _nodes(graph, writer, reader, topic) or _topic(pipeline, graph, topic)
                reason = reason or _reader(pipeline, entries[reader.name])
                if reason:
                    borders[link] = reason
                else:
                    fused.append(link)
    return Chains(tuple(fused), borders)


def _nodes(graph: Graph, writer: ProcessorNode, reader: ProcessorNode, topic: str) -> str:
    if graph.topics[topic].kind is TopicKind.STORED_TABLE and not reader.targets:
        return "a table has its own task, which inserts the records of its inbox"
    for node in (writer, reader):
        if node.where is Where.ENGINE:
            return f"{node.name} runs in the engine"
        if not spec(ProcessorSpec, node.plugin).hosted:
            return f"{node.name} runs as a streaming query; only hosted processors form chains"
    if len(reader.sources) > 1:
        return f"{reader.name} reads several topics"
    if outside := graph.shared(reader.targets):
        return f"{reader.name} writes {', '.join(outside)} itself, epoch by epoch"
    if reader.tables:
        return (
            f"{reader.name} looks rows up in {', '.join(reader.tables)}, whose version is planned with its own batches"
        )
    others = [reading for reading in writer.sources if reading.read != ReadMode.OFFSET]
    if others:
        return f"{writer.name} reads {others[0].topic} by {others[0].read}"
    return ""


def _topic(pipeline: Pipeline, graph: Graph, name: str) -> str:
    topic, writers = graph.topics[name], graph.writers(name)
    if len(writers) > 1:
        return f"{' and '.join(sorted(node.name for node in writers))} both write {name}"
    if topic.shared:
        return f"{name} is in {topic.storage}, where others read and write it too"
    if topic.write_full is not WriteFull.BLOCK:
        return f'{name} has write_full = "{topic.write_full.value}"'
    for reader, read in graph.readers(name):
        if read != ReadMode.OFFSET:
            return f"{reader.name} reads {name} by {read}"
    if topic.kind is not TopicKind.LOG:
        return f"{name} is not a log of the engine"
    config = spec(StorageSpec, topic.storage).validate(pipeline.topic(name).storage_config)
    framing = getattr(config, "framing", None)
    prefix = getattr(config, "prefix_type", None) or ANY_BYTES[0]
    if framing is not None and (framing != "length_prefixed" or prefix not in ANY_BYTES):
        return f"{name} keeps records in a framing that can't hold all of them"
    return ""


def _reader(pipeline: Pipeline, entry: ProcessorDef) -> str:
    if entry.on_restart == "fail":
        return f'{entry.name} has on_restart = "fail"'
    try:
        _, traits = transform_ref(pipeline, entry).build()
    except ConfigError as error:  # only its own task fails and reports it; the others run
        return f"{entry.name} can't be planned: {error.message}"
    unknown = [field.name for field in traits.fields if field.field_type.name == "auto"]
    if unknown:
        return f"{entry.name} must see its first records to know the types of {', '.join(unknown)}"
    return ""
