"""A commit: one journal entry makes chunks visible in all their topics, or in none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain

from gauss.clients.engine.positions import At, Ends
from gauss.contracts.chunk import Chunk
from gauss.contracts.letter import Letter
from gauss.stream.engine.journal.entries import Entry
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Publishable


class Transaction:
    """One commit to some topics: add chunks, wait for space, then `commit`. Without a commit nothing has happened."""

    def __init__(self, topics: Mapping[str, Publishable], ledger: Ledger, synced: frozenset[str] = frozenset()) -> None:
        """`synced` are the topics whose commits must be on disk before they are visible."""
        self._topics = topics
        self._ledger = ledger
        self._synced = synced
        self._later: dict[str, Iterable[Chunk]] = {}
        self.chunks: dict[str, list[Chunk]] = {}
        """Chunks by topic. A topic without chunks is part of the journal entry too."""

    def add(self, topic: str, chunks: Iterable[Chunk]) -> list[Letter]:
        """Adds chunks to a topic; returns letters of the records that the topic can't store."""
        letters: list[Letter] = []
        kept = self.chunks.setdefault(topic, [])
        for chunk in chunks:
            fitting, unfit = self._topics[topic].fit(chunk)
            letters += unfit
            if fitting is not None and fitting.count:
                kept.append(fitting)
        return letters

    def add_later(self, topic: str, chunks: Iterable[Chunk]) -> None:
        """Adds chunks that are built while they are appended, so that they need not all be in memory."""
        self.chunks.setdefault(topic, [])
        self._later[topic] = chunks

    def wait_room(self, cancel: threading.Event, seconds: float | None = None) -> str:
        """Waits until every topic has space. Returns a topic without space when cancelled or after so many seconds,
        otherwise an empty text. Takes no locks, since readers need them to free space."""
        for name, chunks in self.chunks.items():
            if chunks and not self._topics[name].wait_room(cancel, seconds):
                return name
        return ""

    def commit(
        self,
        entry: Callable[[int, Ends], Entry],
        *,
        check: Callable[[Publishable], None] = lambda _: None,
        sync: bool = False,
    ) -> Ends:
        """Appends everything, writes the journal entry, which is the commit point, and makes the records visible.
        `entry` builds the entry from its number and the topics' ends; `check` raises if a topic has changed. Returns
        the ends."""
        names = sorted(self.chunks)
        topics = [self._topics[name] for name in names]
        outside, own = [each for each in topics if each.is_outside], [each for each in topics if not each.is_outside]
        with _locked(outside):
            staged = outside
            with ExitStack() as locks:
                try:
                    self._stage(outside, 0, check)
                    for topic in outside:  # before the others are locked, since it may take minutes
                        topic.prepare()
                    locks.enter_context(_locked(own))
                    staged = topics
                    number = self._ledger.next_number()
                    self._stage(own, number, check)
                    ended = {topic.name: At(topic.inc, topic.staged_end()) for topic in topics}
                    self._ledger.commit(entry(number, ended), sync=sync or not self._synced.isdisjoint(names))
                except BaseException:
                    for topic in staged:
                        topic.rollback()
                    raise
                _reveal(own)
            _reveal(outside)
        for topic in topics:
            topic.announce()
        return ended

    def _stage(self, topics: Iterable[Publishable], number: int, check: Callable[[Publishable], None]) -> None:
        """Appends everything to some of the topics, which are locked."""
        for topic in topics:
            check(topic)
            for chunk in chain(self.chunks[topic.name], self._later.get(topic.name, ())):
                topic.stage_append(chunk, number)


@contextmanager
def _locked(topics: Iterable[Publishable]) -> Iterator[None]:
    with ExitStack() as locks:
        for topic in topics:
            locks.enter_context(topic.lock)
        yield


def _reveal(topics: Iterable[Publishable]) -> None:
    for topic in topics:
        topic.reveal()
        topic.trim()
