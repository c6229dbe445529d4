"""The topics of a processor: its `source` and `target`, or those that its own config names."""

from __future__ import annotations

from gauss import registry
from gauss.config.spec import ProcessorDef, SourceRef
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec
from gauss.contracts.storage import ReadMode

Keys = tuple[str | int, ...]


def sources_of(
    definition: ProcessorDef, spec: ProcessorSpec | None, config: PluginConfig | None
) -> list[tuple[Keys, SourceRef]]:
    """The topics that it reads, each with its key path."""
    named = _named("source", spec, config)
    if definition.source is None:
        return [(keys, SourceRef(topic=topic, read=ReadMode.OFFSET)) for keys, topic in named]
    beside = spec.beside(config) if spec is not None and spec.beside is not None and config is not None else []
    others = [(("config", *keys), SourceRef(topic=topic, read=ReadMode.OFFSET)) for keys, topic in beside]
    return [(("source",), definition.source), *others]


def tables_of(spec: ProcessorSpec | None, config: PluginConfig | None) -> list[tuple[Keys, str]]:
    """The tables that it looks up, each with its key path."""
    if spec is None or spec.tables is None or config is None:
        return []
    return [(("config", *keys), topic) for keys, topic in spec.tables(config)]


def state_of(spec: ProcessorSpec | None, config: PluginConfig | None) -> str | None:
    """The topic that stores its state."""
    return spec.state(config) if spec is not None and spec.state is not None and config is not None else None


def targets_of(
    definition: ProcessorDef, spec: ProcessorSpec | None, config: PluginConfig | None
) -> list[tuple[Keys, str]]:
    """The topics that it writes, without duplicates, each with its key path."""
    if definition.target is not None:
        kept = state_of(spec, config)
        beside: list[tuple[Keys, str]] = [(("config", "state_topic"), kept)] if kept is not None else []
        return [(("target",), definition.target.topic), *beside]
    return list({topic: (keys, topic) for keys, topic in reversed(_named("target", spec, config))}.values())[::-1]


def topics_of(definition: ProcessorDef) -> tuple[list[SourceRef], list[str]]:
    """The sources and targets of a valid processor."""
    spec = registry.spec(ProcessorSpec, definition.plugin)
    config = spec.validate(definition.config)
    sources = [source for _, source in sources_of(definition, spec, config)]
    return sources, [topic for _, topic in targets_of(definition, spec, config)]


def _named(side: str, spec: ProcessorSpec | None, config: PluginConfig | None) -> list[tuple[Keys, str]]:
    if spec is None or config is None or spec.topics is None or spec.own_side != side:
        return []
    return [(("config", *keys), topic) for keys, topic in spec.topics(config)]
