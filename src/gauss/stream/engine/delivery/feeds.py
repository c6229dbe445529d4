"""Records of writers outside the engine (syncs): committed with the writer's position, and fenced by generation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from gauss.clients.engine.task_messages import Feed
from gauss.contracts.chunk import Chunk
from gauss.contracts.letter import Letter
from gauss.model.errors import Fenced, Rejected, Unavailable
from gauss.model.names import feed_writer
from gauss.stream.engine.delivery.transaction import Transaction
from gauss.stream.engine.journal.entries import Pulled
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Topic


class Feeds:
    """The writers by name. The ledger has `{fence, generation, number, position}` of each: the last claimed generation,
    and the last commit."""

    def __init__(
        self,
        topics: Mapping[str, Topic],
        ledger: Ledger,
        dead: Callable[[Letter], None],
        *,
        synced: frozenset[str],
        clock: Callable[[], int],
    ) -> None:
        self._topics, self._ledger, self._dead, self._synced, self._clock = topics, ledger, dead, synced, clock
        self._locks: dict[str, threading.Lock] = {}

    def claim(self, writer: str, generation: int) -> dict[str, Any]:
        """Fences smaller generations; returns the last commit, with `generation` 0 if there is none."""
        with self._lock(writer):
            known = self._known(writer, generation)
            if generation > known["fence"]:
                known = {**known, "fence": generation}
                self._ledger.commit(Pulled(self._ledger.next_number(), feed_writer(writer), known, {}), sync=True)
            return known

    def position(self, writer: str) -> dict[str, Any]:
        """The last commit of a writer."""
        return self._known(writer, None)

    def commit(self, feed: Feed, batches: Iterable[pa.RecordBatch], cancel: threading.Event) -> int:
        """Commits records and position together; returns the number of records, 0 if it was committed before."""
        chunks = [Chunk(data, len(data), self._clock()) for each in batches if len(data := _data(each))]
        if (found := sum(chunk.count for chunk in chunks)) != feed.records:
            raise Rejected(
                f'writer "{feed.writer}": expected {feed.records} records, received {found}',
                hint="the connection was lost; the writer must send everything again",
            )
        if self._is_repeated(feed):
            return 0
        transaction = Transaction(self._topics, self._ledger, self._synced)
        # Before the commit: a repeated letter is better than a missing one.
        for letter in transaction.add(feed.topic, chunks):
            self._dead(letter)
        # Outside the lock: a writer that is gone may wait here, and the next one has to be able to claim.
        if full := transaction.wait_room(cancel):
            raise Unavailable(f'the engine is stopping while a sync waits for space in topic "{full}"')
        made = {
            "fence": feed.generation,
            "generation": feed.generation,
            "number": feed.number,
            "position": feed.position,
        }
        with self._lock(feed.writer):
            if self._is_repeated(feed):
                return 0
            transaction.commit(lambda number, ended: Pulled(number, feed_writer(feed.writer), made, ended))
        return sum(chunk.count for found in transaction.chunks.values() for chunk in found)

    def _is_repeated(self, feed: Feed) -> bool:
        """Whether a commit was made before; raises Fenced."""
        known = self._known(feed.writer, feed.generation)
        return bool(known["generation"] == feed.generation and feed.number <= known["number"])

    def _known(self, writer: str, generation: int | None) -> dict[str, Any]:
        """The row of a writer; raises Fenced if a later generation has claimed it."""
        found: dict[str, Any] | None = self._ledger.outside(feed_writer(writer))
        known = found or {"fence": 0, "generation": 0, "number": 0, "position": None}
        if generation is not None and generation < known["fence"]:
            raise Fenced(
                f'writer "{writer}": generation {generation} was replaced by {known["fence"]}',
                hint="another run of this sync has taken over; this one must end",
            )
        return known

    def _lock(self, writer: str) -> threading.Lock:
        return self._locks.setdefault(writer, threading.Lock())


def _data(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("data").cast(pa.binary())
