"""Detects cycles of blocking topics, which deadlock when full."""

from __future__ import annotations

from collections import defaultdict

from gauss.config.entries import Entries, Processor, Topic
from gauss.config.topics import sources_of, targets_of
from gauss.contracts.processor import Role
from gauss.contracts.storage import ReadMode, WriteFull


def no_blocking_cycle(entries: Entries, topics: dict[str, Topic]) -> None:
    """Reports each cycle once, at the processor that closes it."""
    steps: dict[str, list[tuple[Processor, str]]] = defaultdict(list)
    for processor in entries.processors:
        if processor.spec is None or processor.spec.role is not Role.TRANSFORM:
            continue
        parts = (processor.definition, processor.spec, processor.config)
        # A reader by "latest" never blocks its topic; a topic that drops or overwrites never blocks.
        for _, source in sources_of(*parts):
            if source.read == ReadMode.OFFSET and _blocks(topics.get(source.topic)):
                steps[source.topic] += [(processor, topic) for _, topic in targets_of(*parts)]
    done: set[str] = set()
    for topic in list(steps):
        _walk(topic, [], None, steps, done)


def _walk(
    topic: str,
    trail: list[str],
    through: Processor | None,
    steps: dict[str, list[tuple[Processor, str]]],
    done: set[str],
) -> None:
    if through is not None and topic in trail:
        ring = [*trail[trail.index(topic) :], topic]
        through.scope.add(
            ("target",),
            f"it closes a cycle of topics that block when full: {' → '.join(ring)}; it would deadlock",
            hint='give one of them write_full = "drop" or "overwrite", or break the cycle',
        )
        return
    if topic in done:
        return
    for processor, following in steps.get(topic, []):
        _walk(following, [*trail, topic], processor, steps, done)
    done.add(topic)


def _blocks(topic: Topic | None) -> bool:
    if topic is None or topic.spec is None or topic.config is None:
        return False
    return topic.spec.capacity(topic.config).write_full is WriteFull.BLOCK
