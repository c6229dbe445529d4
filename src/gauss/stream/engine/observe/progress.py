"""Positions of readers and transforms, and what is left for them to read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gauss.clients.engine.positions import At
from gauss.stream.engine.delivery.epochs import behind, held, last_ts
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.readers import OffsetReader
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.engine.topics.topic_state import TopicState


class Progress:
    """Positions in topics: of processors from the ledger, of others from their readers."""

    def __init__(self, topics: Mapping[str, Topic], ledger: Ledger, runs: Mapping[str, ProcessorRun]) -> None:
        self._topics = topics
        self._ledger = ledger
        self._runs = runs

    def readers(self, topic: TopicState) -> list[dict[str, Any]]:
        """The registered readers of a topic, as `readers` shows them; captures have none."""
        return [self._reader(topic, reader) for reader in topic.readers.all()] if isinstance(topic, Topic) else []

    def _reader(self, topic: Topic, reader: OffsetReader) -> dict[str, Any]:
        at = At(topic.inc, reader.position)
        if reader.name in self._runs:
            at = held(self._ledger.row(reader.name), topic.name) or at
        stats: dict[str, Any] = reader.stats(topic.version(), True)
        return {
            "topic": topic.name,
            "name": reader.name,
            "position": at.off if at.inc == topic.inc else topic.floor(),
            "behind": behind(topic, at),
            "behind_ms": _behind_ms(topic, at),
            "missed": stats["missed"],
            "lost_on_restart": stats["lost_on_restart"],
            "idle_s": stats["idle_seconds"],
            "peer": stats["peer"],
        }

    def lag(self, processor: str) -> tuple[int, int]:
        """How many records, and how many ms, a transform is behind."""
        run, row = self._runs[processor], self._ledger.row(processor)
        if run.read == "latest":
            return 0, 0
        places = [(self._topics[source], held(row, source)) for source in run.sources]
        pairs = [(topic, at or At(topic.inc, topic.floor())) for topic, at in places]
        waiting = [(topic, at) for topic, at in pairs if run.behind(topic, at)]
        return (
            sum(run.behind(topic, at) for topic, at in waiting),
            max((_behind_ms(topic, at) for topic, at in waiting), default=0),
        )

    def is_done(self, processor: str) -> bool:
        """Whether a bounded read has reached its end, with nothing left in its retry topics."""
        run = self._runs[processor]
        row, topics = self._ledger.row(processor), [self._topics[key] for key in run.sources if run.is_main(key)]
        if run.bounded is None:
            return False
        for topic in topics:
            if (at := held(row, topic.name)) is None or not run.bounded.is_done(topic, at):
                return False
        return not self.lag(processor)[0]


def _behind_ms(topic: Topic, at: At) -> int:
    """Age of the oldest unread record."""
    if behind(topic, at) <= 0:
        return 0
    first = max(at.off, topic.floor()) if at.inc == topic.inc else topic.floor()
    arrived = last_ts(topic, At(topic.inc, first + 1))
    return max(int(time.time() * 1000) - arrived, 0) if arrived else 0
