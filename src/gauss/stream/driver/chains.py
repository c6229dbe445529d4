"""Which processors go together, step after step, and why the others do not.

Hosted steps that follow each other are done by one task. They are put together through a topic only where nobody could
tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import ReadMode, StorageSpec, WriteFull
from gauss.model.errors import ConfigError
from gauss.registry import spec
from gauss.stream.driver.plan import transform_ref
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
    """A pipeline's transforms by the chain that they are part of."""

    fused: tuple[Link, ...]
    """The topics through which a chain goes on."""
    borders: dict[Link, str]
    """The topics at which one chain or query ends and another begins, each with the reason."""

    def head(self, name: str) -> str:
        """The first processor of the chain that this one is part of; itself, if it begins one."""
        for link in self.fused:
            if link.reader == name:
                return self.head(link.writer)
        return name

    def members(self, head: str) -> list[str]:
        """Everybody in a head's chain, the head first and each behind the one that feeds it."""
        return [head, *(name for link in self.fused if link.writer == head for name in self.members(link.reader))]

    def inner(self) -> dict[str, Link]:
        """The members that begin no chain, by name, with the topic through which each is reached."""
        return {link.reader: link for link in self.fused}

    def without(self, broken: set[str]) -> Chains:
        """The same, with some members in chains of their own."""
        return Chains(tuple(link for link in self.fused if link.reader not in broken), self.borders)


def find_chains(pipeline: Pipeline, graph: Graph) -> Chains:
    """The chains of a pipeline that passed the check."""
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
    if graph.topics[topic].table and not reader.targets:
        return "a table has a task of its own, which empties the topic's inbox"
    for node in (writer, reader):
        if node.where is Where.ENGINE:
            return f"{node.name} runs in the engine"
        if not spec(ProcessorSpec, node.plugin).hosted:
            return f"{node.name} runs as Spark columns, only hosted steps go together"
    if len(reader.sources) > 1:
        return f"{reader.name} reads several topics"
    if reader.tables:
        return f"{reader.name} looks rows up in {', '.join(reader.tables)}, whose version belongs to its own batches"
    others = [reading for reading in writer.sources if reading.read != ReadMode.OFFSET]
    if others:
        return f"{writer.name} reads {others[0].topic} by {others[0].read}"
    return ""


def _topic(pipeline: Pipeline, graph: Graph, name: str) -> str:
    topic, writers = graph.topics[name], graph.writers(name)
    if len(writers) > 1:
        return f"{' and '.join(sorted(node.name for node in writers))} both write {name}"
    if topic.write_full is not WriteFull.BLOCK:
        return f'{name} has write_full = "{topic.write_full.value}"'
    for reader, read in graph.readers(name):
        if read != ReadMode.OFFSET:
            return f"{reader.name} reads {name} by {read}"
    if not topic.engine_owned or topic.table or ReadMode.OFFSET not in topic.read_modes:
        return f"{name} is no log of the engine's"
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
        _, fields = transform_ref(pipeline, entry).build()
    except ConfigError as error:  # the others run all the same: its own task is what fails, and says so
        return f"{entry.name} can't be planned: {error.message}"
    unknown = [field.name for field in fields if field.field_type.name == "auto"]
    if unknown:
        return f"{entry.name} must see its first records to know the types of {', '.join(unknown)}"
    return ""
