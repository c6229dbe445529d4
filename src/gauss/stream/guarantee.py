"""The delivery guarantee of each end of a pipeline, which is that of the weakest topic on its path."""

from __future__ import annotations

from dataclasses import dataclass

from gauss.contracts.processor import Role
from gauss.contracts.storage import ReadMode, TopicKind, WriteFull
from gauss.stream.graph import Graph, ProcessorNode


@dataclass(frozen=True)
class Guarantee:
    """The guarantee at one end of the pipeline."""

    end: str
    kind: str
    """`sink` (a processor), `table`, or `topic` (without readers in the pipeline)."""
    repeats: str
    """Why a record may be duplicated; empty if it can't."""
    losses: tuple[str, ...]
    """How a record may be lost; empty if it can't."""

    @property
    def exactly_once(self) -> bool:
        return not self.repeats and not self.losses

    def __str__(self) -> str:
        parts = [f"at least once: {self.repeats}"] if self.repeats else []
        return "; ".join([*parts, *self.losses]) or "exactly once"

    def to_dict(self) -> dict[str, object]:
        return {"end": self.end, "kind": self.kind, "guarantee": str(self), "exactly_once": self.exactly_once}


def guarantees(graph: Graph) -> list[Guarantee]:
    """The guarantees of all sinks, then of all tables and all written topics without readers."""
    found = []
    for processor in graph.processors.values():
        if processor.role is Role.SINK:
            losses = _losses(graph, [reading.topic for reading in processor.sources], [processor])
            again = _read_again(graph, [reading.topic for reading in processor.sources])
            repeats = processor.repeats or _repeats(processor) or again
            own = (processor.losses,) if processor.losses else ()
            found.append(Guarantee(processor.name, "sink", repeats, (*losses, *own)))
    for name, topic in graph.topics.items():
        if topic.kind is TopicKind.STORED_TABLE:
            own = (topic.losses,) if topic.losses else ()
            repeats = topic.repeats or _read_again(graph, [name])
            found.append(Guarantee(name, "table", repeats, (*_losses(graph, [name], []), *own)))
        elif graph.writers(name) and not graph.readers(name):
            found.append(Guarantee(name, "topic", _read_again(graph, [name]), _losses(graph, [name], [])))
    return found


def _repeats(sink: ProcessorNode) -> str:
    """Why a TCP sink may repeat records: when it resumes, it does not know what the peer had received."""
    starts_at = getattr(sink.config, "starts_at", None)
    if starts_at is not None and starts_at() == "resume":
        return "after a reconnect the last records may come again"
    return ""


def _sources(graph: Graph, ends: list[str]) -> list[ProcessorNode]:
    """The sources upstream of some topics."""
    topics = {topic.name for end in ends for topic in graph.upstream(end)}
    return [
        each for each in graph.processors.values() if each.role is Role.SOURCE and not topics.isdisjoint(each.targets)
    ]


def _read_again(graph: Graph, ends: list[str]) -> str:
    """Why records on the way to some topics may be duplicated: read again by a source, or written again by a task."""
    sources = [f"{each.name}: {each.repeats}" for each in _sources(graph, ends) if each.repeats]
    topics = {topic.name: topic for end in ends for topic in graph.upstream(end)}
    written = [
        f"{name}: {topic.repeats}"
        for name, topic in topics.items()
        if topic.shared and topic.repeats and any(each.role is Role.TRANSFORM for each in graph.writers(name))
    ]
    return "; ".join([*sources, *written])


def _losses(graph: Graph, ends: list[str], readers: list[ProcessorNode]) -> tuple[str, ...]:
    topics = list({topic.name: topic for end in ends for topic in graph.upstream(end)}.values())
    readers = [*readers, *(writer for topic in topics for writer in graph.writers(topic.name))]
    skipping = [
        f"{processor.name} (of {reading.topic})"
        for processor in dict.fromkeys(readers)
        for reading in processor.sources
        if reading.read == ReadMode.LATEST
    ]
    causes = {
        "may lose what was in memory when the engine died": [topic.name for topic in topics if not topic.durable],
        "refuses new records when full": [t.name for t in topics if t.write_full is WriteFull.DROP],
        "overwrites the oldest records when full": [t.name for t in topics if t.write_full is WriteFull.OVERWRITE],
        "passes only the newest record to": skipping,
    }
    missed = [f"{each.name}: {each.losses}" for each in _sources(graph, ends) if each.losses]
    return (*(f"{cause}: {', '.join(names)}" for cause, names in causes.items() if names), *missed)
