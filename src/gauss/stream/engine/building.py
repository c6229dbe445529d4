"""From a checked config to the things that run: framings, topics, transports, edges, transforms."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.config.spec import Pipeline, ProcessorDef, TopicDef
from gauss.contracts.edge import DeadLetter, Edge, EdgeContext, EdgeStatus, EngineTransform
from gauss.contracts.framing import Framing, FramingSpec
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import StorageContext, StorageSpec
from gauss.contracts.transport import TransportSpec
from gauss.model.paths import DataDir
from gauss.stream.engine.dead import DEAD_TOPIC
from gauss.stream.engine.ledger import Ledger
from gauss.stream.engine.readers import Position
from gauss.stream.engine.running import retry_inlet
from gauss.stream.engine.sources import END_MARK
from gauss.stream.engine.topic import Topic
from gauss.stream.protocol import At

log = logging.getLogger(__name__)


def framing(name: str, parameters: dict[str, object]) -> Framing:
    """A framing by its name and parameters."""
    spec = registry.spec(FramingSpec, name)
    built: Framing = registry.build(spec, spec.validate(parameters))
    return built


def processor_spec(processor: ProcessorDef) -> ProcessorSpec:
    return registry.spec(ProcessorSpec, processor.plugin)


def runs_in_engine(pipeline: Pipeline, processor: ProcessorDef) -> bool:
    """Edges always; a transform that says so, or that may run on either side while the engine owns both topics."""
    spec = processor_spec(processor)
    if spec.where is not Where.EITHER:
        return spec.where is Where.ENGINE
    ends = [end.topic for end in (processor.source, processor.target) if end is not None]
    return all(registry.spec(StorageSpec, pipeline.topic(name).storage).engine_owned for name in ends)


def transforms(pipeline: Pipeline) -> list[ProcessorDef]:
    """Whatever reads by epochs and has a retry inlet."""
    return [each for each in pipeline.processors if processor_spec(each).role is Role.TRANSFORM]


@dataclass(frozen=True)
class TopicBuilder:
    """Opens topics with what the ledger knows of them."""

    pipeline: Pipeline
    paths: DataDir
    base_dir: Path
    ledger: Ledger
    dead: Callable[[DeadLetter], None]

    def all(self) -> dict[str, Topic]:
        """The config's topics, the dead letters and a retry inlet per transform."""
        own = [TopicDef.model_construct(name=DEAD_TOPIC, storage="file", storage_config={})]
        own += [
            TopicDef.model_construct(name=retry_inlet(each.name), storage="file", storage_config={})
            for each in transforms(self.pipeline)
        ]
        owned = [each for each in self.pipeline.topics if registry.spec(StorageSpec, each.storage).engine_owned]
        return {definition.name: self._open(definition) for definition in [*own, *owned]}

    def _open(self, definition: TopicDef) -> Topic:
        name = definition.name
        spec = registry.spec(StorageSpec, definition.storage)
        config = spec.validate(definition.storage_config)
        context = StorageContext(
            topic=name,
            directory=self.paths.topics / name,
            base_dir=self.base_dir,
            incarnation=lambda stored: self.ledger.incarnation(name, stored),
            committed=self.ledger.committed,
            framing=framing,
        )
        opened = registry.build(spec, config, context)
        known = self.ledger.state.positions.get(name, {})
        topic = Topic(
            name,
            opened,
            spec.capacity(config),
            dead=self.dead,
            positions={reader: Position(at.inc, at.off) for reader, at in known.items() if reader != END_MARK},
            at_least=self.ledger.highest(name, opened.inc),
            on_position=lambda topic, reader, inc, offset: self.ledger.move(topic, reader, At(inc, offset)),
        )
        if topic.counters.lost:
            log.warning("topic %s: %d records that were known to exist are gone", name, topic.counters.lost)
        return topic


def drop_forgotten(pipeline: Pipeline, ledger: Ledger) -> None:
    """Positions of processors that are no longer in the config hold nothing back any more."""
    reading = {(each.source.topic, each.name) for each in pipeline.processors if each.source is not None}
    readers = [
        (topic, reader)
        for topic, reader in ledger.readers()
        if reader != END_MARK and (topic, reader.partition("#")[0]) not in reading
    ]
    names = {each.name for each in transforms(pipeline)}
    processors = [name for name in ledger.state.processors if name not in names]
    for topic, reader in readers:
        log.info("reader %s of topic %s is no longer in the config: its position is dropped", reader, topic)
    for name in processors:
        log.info("processor %s is no longer in the config: its position is dropped", name)
    ledger.drop(readers, processors)


def edge(
    definition: ProcessorDef,
    topic: Topic,
    *,
    base_dir: Path,
    status: EdgeStatus,
    dead: Callable[[DeadLetter], None],
    may_read: Callable[[], bool],
    stopping: threading.Event,
) -> Edge:
    """A source or sink with its transport and framing."""
    spec = processor_spec(definition)
    config: Any = spec.validate(definition.config)
    stream = getattr(config, spec.framed)
    name, transport_config = config.transport_config()
    transport_spec = registry.spec(TransportSpec, name)
    context = EdgeContext(
        name=definition.name,
        config=config,
        topic=topic,
        framing=framing(stream.framing, stream.parameters()),
        transport=registry.build(transport_spec, transport_spec.validate(transport_config), base_dir),
        dead=dead,
        may_read=may_read,
        status=status,
        stopping=stopping,
        read=definition.source.read if definition.source is not None else "offset",
    )
    built: Edge = registry.build(spec, context)
    return built


def transform(definition: ProcessorDef) -> EngineTransform:
    """A transform that works on chunks."""
    spec = processor_spec(definition)
    if spec.engine_implementation:
        spec = dataclasses.replace(spec, implementation=spec.engine_implementation)
    built: EngineTransform = registry.build(spec, spec.validate(definition.config))
    return built


def is_durable(definition: TopicDef) -> bool:
    """Whether its records survive the engine."""
    return registry.spec(StorageSpec, definition.storage).durable
