"""The default format of a topic's records, for readers that name none."""

from __future__ import annotations

from typing import NamedTuple

from gauss import registry
from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import TopicKind
from gauss.model.errors import ConfigError


class TopicFormat(NamedTuple):
    """A format and where it comes from."""

    name: str
    why: str


def topic_format(pipeline: Pipeline, topic: str) -> TopicFormat | None:
    """The topic's own format, else that of its readers and writers if they agree; None if it is unknown."""
    definition = next((each for each in pipeline.topics if each.name == topic), None)
    own = None if definition is None else definition.storage_config.get("format")
    if isinstance(own, str):
        return TopicFormat(own, "the topic's own")
    found = formats_beside(pipeline, topic)
    if len(set(found.values())) != 1:
        return None
    processor, name = next(iter(found.items()))
    return TopicFormat(name, f'from the processor "{processor}"')


def formats_beside(pipeline: Pipeline, topic: str, seen: frozenset[str] = frozenset()) -> dict[str, str]:
    """Processor → format, for all that read or write the topic with a format; `seen`: topics already visited."""
    found: dict[str, str] = {}
    for processor in pipeline.processors:
        read = processor.source is not None and processor.source.topic == topic
        name = _named(processor, "input") if read else None
        if name is None and processor.target is not None and processor.target.topic == topic:
            # A source passes its records on unchanged; a transform without an output format writes the input format.
            name = _named(processor, "output") or _named(processor, "input")
            if name is None and topic not in seen:
                found |= _passed_on(pipeline, processor, seen | {topic})
        if name is not None:
            found[processor.name] = name
    return found


def _passed_on(pipeline: Pipeline, processor: ProcessorDef, seen: frozenset[str]) -> dict[str, str]:
    """The formats of the source of a processor that passes records on unchanged, which apply to its target too."""
    if processor.source is None or not registry.spec(ProcessorSpec, processor.plugin).same_bytes:
        return {}
    source = next((each for each in pipeline.topics if each.name == processor.source.topic), None)
    if source is None or source.kind is TopicKind.STORED_TABLE:
        return {}  # rows of a table are read as JSON
    own = source.storage_config.get("format")
    return {processor.name: own} if isinstance(own, str) else formats_beside(pipeline, source.name, seen)


def sink_formats(pipeline: Pipeline, name: str) -> tuple[str, str] | None:
    """The formats between which a sink converts: of its records and of its output. None if it sends records unchanged,
    also if their format is unknown. Raises ConfigError if their format is ambiguous."""
    processor = next(each for each in pipeline.processors if each.name == name)
    output = _named(processor, "output")
    if output is None or processor.source is None or not registry.spec(ProcessorSpec, processor.plugin).conversion:
        return None
    topic = processor.source.topic
    own = _named(processor, "input") or pipeline.topic(topic).storage_config.get("format")
    found = {own} if isinstance(own, str) else set(formats_beside(pipeline, topic).values())
    if not found or any(_alike(pipeline, each, output) for each in found):
        return None
    if len(found) > 1:
        raise ConfigError(
            f'the format of topic "{topic}", which processor "{name}" converts to "{output}", is ambiguous: other'
            f" processors of the topic use {', '.join(sorted(found))}",
            hint='name it: input = { format = "…" }',
        )
    return found.pop(), output


def _alike(pipeline: Pipeline, one: str, other: str) -> bool:
    """Whether two formats have the same plugin and settings."""
    first, second = pipeline.format(one), pipeline.format(other)
    return (first.plugin, first.config) == (second.plugin, second.config)


def _named(processor: ProcessorDef, side: str) -> str | None:
    io = processor.config.get(side)
    name = io.get("format") if isinstance(io, dict) else None
    return name if isinstance(name, str) else None
