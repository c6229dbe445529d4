"""Advances the event time of idle sources: a heartbeat is a field of the next end offset, so that it is logged and
replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gauss.clients.engine.positions import At, Ends, Timing, time_basis, topic_of
from gauss.model.names import is_internal
from gauss.stream.engine.delivery.epochs import held, last_ts
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.journal.entries import ProcessorRow
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.graph import Graph, ProcessorNode

SLACK_MS = 200
"""Maximum time between the timestamp of a record and its visibility."""


class Heartbeat:
    """Carries event time in the ends of batches, and advances it while a source is idle."""

    def __init__(
        self,
        graph: Graph,
        topics: Mapping[str, Topic],
        ledger: Ledger,
        running: Mapping[str, ProcessorRun],
        clock: Callable[[], int],
    ) -> None:
        self._graph = graph
        self._topics = topics
        self._ledger = ledger
        self._running = running
        self._clock = clock

    def timed(self, running: ProcessorRun, row: ProcessorRow, timing: Timing, start: Ends, end: Ends) -> Ends:
        """The end of a batch with the event times of earlier epochs; without records, with a heartbeat if one is due.
        Otherwise `start` unchanged, since any difference would start a batch."""
        seen = {name: max(at.seen, row.seen.get(name, 0)) for name, at in start.items()}
        main = next(name for name in start if not is_internal(name))
        if end != start:
            running.silent_since[main] = self._clock()
            before = {name: start.get(name, At(at.inc, 0)) for name, at in end.items()}  # a partition may be new
            return {name: replace(at, seen=seen.get(name, 0), beat=before[name].beat) for name, at in end.items()}
        if not (beat := self._beat(running, timing, start, max(seen.values()), main)):
            return start
        return end | {main: replace(end[main], seen=seen[main], beat=beat)}

    def _beat(self, running: ProcessorRun, timing: Timing, start: Ends, seen: int, main: str) -> int:
        """The time before which no record will arrive, if a window may close by then; otherwise 0."""
        before = max(at.beat for at in start.values())
        if not seen or before >= seen + timing.span_ms + timing.watermark_ms:
            return 0
        if timing.arrival:
            reached = self.reached(main)
        else:
            now = self._clock()
            silent_ms = now - running.silent_since.setdefault(main, now)
            if timing.idle_ms is None or silent_ms < timing.idle_ms:
                return 0
            # Never the wall clock itself: all replayed records would be late.
            reached = seen + silent_ms
        beat = (reached - timing.watermark_ms) // timing.step_ms * timing.step_ms + timing.watermark_ms
        return beat if beat > max(seen, before) else 0

    def reached(self, topic: str, above: frozenset[str] = frozenset()) -> int:
        """The time before which no more records will become visible in a topic."""
        found = self._clock() - SLACK_MS
        for writer in self._graph.writers(topic_of(topic)):
            if writer.name in self._running and writer.name not in above:
                found = min(found, self._done(writer, above | {writer.name}))
        return found

    def _done(self, writer: ProcessorNode, above: frozenset[str]) -> int:
        """The time before which a transform has published everything."""
        running, row = self._running[writer.name], self._ledger.row(writer.name)
        if row is None:
            return 0
        done = []
        for name in running.sources:
            if is_internal(name):
                continue
            # Read before its records, so that records that arrive meanwhile are newer.
            reached, topic = self.reached(name, above), self._topics[name]
            at = held(row, name) or At(topic.inc, topic.floor())
            if running.read != "latest" and running.behind(topic, at):
                first = max(at.off, topic.floor()) if at.inc == topic.inc else topic.floor()
                reached = min(reached, last_ts(topic, At(topic.inc, first + 1)))
            done.append(reached)
        reached = min(done, default=0)
        return min(reached, self._closed(running, row, reached)) if writer.stateful else reached

    def _closed(self, running: ProcessorRun, row: ProcessorRow, reached: int) -> int:
        """The time before which a stateful transform holds no results back."""
        if (timing := running.timing) is None:
            return 0
        seen = max(row.seen.values(), default=0)
        basis = time_basis(row.ends)
        if basis >= seen + timing.span_ms + timing.watermark_ms:
            return reached - timing.watermark_ms  # no window is open
        return basis - timing.watermark_ms
