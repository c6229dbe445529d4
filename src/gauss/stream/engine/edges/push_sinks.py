"""Sinks that push records to an external system: positions and state are committed after it has acknowledged them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from gauss import registry
from gauss.clients.engine.positions import At
from gauss.contracts.cursor import Code, Mode, Output, Program, ReaderCursor, Seq, Step
from gauss.contracts.edge import Edge, EdgeStatus
from gauss.contracts.letter import Letter
from gauss.contracts.outside import PushBatch, PushContext, PushPart, PushSpec
from gauss.model.errors import GaussError
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.graph import ProcessorNode

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine


def push_sink(engine: Engine, node: ProcessorNode, status: EdgeStatus) -> Edge:
    """A push sink that starts at its committed positions."""
    spec = registry.spec(PushSpec, node.plugin)
    source = next(each.source for each in engine.pipeline.processors if each.name == node.name)
    start = source.start if source is not None and source.start is not None else "earliest"
    topics = [engine.topic(reading.topic) for reading in node.sources]

    def dead(letter: Letter) -> None:
        engine.dead.write(msgspec.structs.replace(letter, processor=node.name), engine.stopping)

    context = PushContext(
        name=node.name,
        config=node.config,
        embedded_dir=engine.paths.server(spec.system),
        input=TopicsInput(node.name, topics, start, engine.ledger),
        state=engine.ledger.outside(node.name),
        generation=engine.ledger.state.run,
        dead=dead,
        status=status,
    )
    built: Edge = registry.build(spec, context)
    return built


class TopicsInput:
    """Implements `contracts.outside.PushInput` over topics of the engine."""

    def __init__(self, name: str, topics: Sequence[Topic], start: str | int, ledger: Ledger) -> None:
        """`start`: where the sink starts in a topic without a committed position."""
        self._name = name
        self._topics = {topic.name: topic for topic in topics}
        self._readers = {topic.name: topic.reader(name, start, keep=True) for topic in topics}
        self._ledger = ledger
        self._order = list(self._topics)
        self._cursors: dict[str, ReaderCursor] = {}
        self._committing = threading.Lock()
        self._turn = 0
        self._ends: dict[str, int] = {}
        self.rewind()

    def next(self, limit: int = 65_536, max_bytes: int = 4 << 20, wait_s: float = 0.0) -> PushBatch | None:
        """The next records of any topic; waits up to `wait_s` for some."""
        self._follow_seeks()
        parts = self._take(limit, max_bytes)
        if not parts and wait_s:
            bell = threading.Event()
            with ExitStack() as ringing:
                for topic in self._topics.values():
                    ringing.enter_context(topic.ringing(bell))
                # Again before the wait: records may have arrived before the bell was registered.
                parts = self._take(limit, max_bytes)
                if not parts and bell.wait(wait_s):
                    parts = self._take(limit, max_bytes)
        return PushBatch(tuple(parts), dict(self._ends), self._turn) if parts else None

    def _take(self, limit: int, max_bytes: int) -> list[PushPart]:
        """Topics take turns to be first, so that a busy one does not starve the others."""
        self._order = [*self._order[1:], self._order[0]]
        parts: list[PushPart] = []
        for name in self._order:
            if limit > 0 and max_bytes > 0:
                found = self._read(name, Step(limit, max_bytes, fill=False))
                limit -= sum(part.chunk.count for part in found)
                max_bytes -= sum(part.chunk.nbytes for part in found)
                parts += found
        return parts

    def _read(self, name: str, step: Step) -> list[PushPart]:
        topic = self._topics[name]
        cursor = self._cursors.get(name)
        if cursor is None:
            cursor = topic.open(Program(Seq(self._ends[name]), Mode.LIVE, Output.CHUNKS))
            self._cursors[name] = cursor
        missed = cursor.missed
        code = cursor.next(step)
        if cursor.missed > missed:
            self._readers[name].missed(cursor.missed - missed)
        if code is Code.INVALID:
            return []
        if code is not Code.OK:
            raise GaussError(f'sink "{self._name}" can\'t read topic "{name}" at offset {cursor.position}: {code.name}')
        _, placed = cursor.read()
        assert isinstance(placed, list)
        self._ends[name] = cursor.position
        return [PushPart(name, topic.inc, offset, chunk) for offset, chunk in placed]

    def commit(self, batch: PushBatch, state: Any) -> None:
        """Writes the positions behind the batch and the state in one journal entry, then frees the records."""
        with self._committing:
            if batch.turn != self._turn:
                return
            positions = {name: At(self._topics[name].inc, offset) for name, offset in batch.ends.items()}
            self._ledger.push(self._name, positions, state)
            for name, offset in batch.ends.items():
                self._readers[name].move(offset)

    def rewind(self) -> None:
        """Lets `next` start again at the committed positions."""
        self._restart({})

    def close(self) -> None:
        """Stops reading; the topics keep what is not committed."""
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors = {}

    def _follow_seeks(self) -> None:
        """Continues where an operator has moved a reader."""
        sought = {name: offset for name, reader in self._readers.items() if (offset := reader.take_seek()) is not None}
        if sought:
            self._restart(sought)

    def _restart(self, sought: Mapping[str, int]) -> None:
        self.close()
        with self._committing:
            self._turn += 1
            for name, offset in sought.items():
                self._readers[name].move(offset)  # a commit may have moved it since the seek
            self._ends = {name: reader.position for name, reader in self._readers.items()}
