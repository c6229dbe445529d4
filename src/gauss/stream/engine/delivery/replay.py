"""Replays dead letters: appends each once to the retry topic of its processor, which only that processor reads. A
record that fails again remains the same letter, with one more attempt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from gauss.clients.engine.positions import place_key
from gauss.contracts.chunk import Chunk
from gauss.contracts.letter import Letter
from gauss.contracts.processor import Role
from gauss.model.errors import ConfigError, NotFound
from gauss.model.names import retry_topic
from gauss.stream.engine.delivery.dead_letters import Choice, DeadLetters, letter_key, read_letters
from gauss.stream.engine.delivery.transaction import Transaction
from gauss.stream.engine.journal.entries import LettersReplayed, RetryOrigin
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.graph import Graph, ProcessorNode

BATCH = 1000
REFUSED = (
    "they were never records of a topic, are truncated, or were processed again by a rebuild: correct them and send"
    " them again"
)


class LetterReplay:
    """Sends dead letters to the retry topics of their processors."""

    def __init__(self, topics: Mapping[str, Topic], ledger: Ledger, dead: DeadLetters, graph: Graph) -> None:
        self._topics = topics
        self._ledger = ledger
        self._dead = dead
        self._graph = graph

    def send(self, processor: str, fits: Choice, corrected: Mapping[int, bytes] | None = None) -> dict[str, Any]:
        """Sends the letters that fit; `already` counts those sent before, `refused` those that can't be sent.
        `corrected`: the bytes to send in place of a letter's own, by its number."""
        node = self._graph.processors.get(processor)
        if node is None:
            raise NotFound(f'no processor "{processor}"', hint="gauss processors ls shows them")
        if node.role is not Role.TRANSFORM:
            raise ConfigError(
                f'"{processor}" is a source or sink: what it could not frame or send cannot be replayed',
                hint=f"inspect the bytes (gauss dlq show --processor {processor}), correct them and send them again",
            )
        with self._dead.changing:
            return self._send(node, fits, corrected or {})

    def _send(self, node: ProcessorNode, fits: Choice, corrected: Mapping[int, bytes]) -> dict[str, Any]:
        done = self._ledger.replayed(node.name)
        replayed = already = refused = 0
        letters: list[tuple[int, Letter]] = []
        for number, letter in read_letters(self._dead.topic, 0, self._dead.topic.version()):
            if letter.processor != node.name or not fits(number, letter):
                continue
            if number in corrected:
                letter.data, letter.truncated = corrected[number], msgspec.UNSET
            if letter.offset < 0 or letter.truncated is not msgspec.UNSET or self._is_rebuilt(letter):
                refused += 1
            elif letter_key(letter) in done:
                already += 1
            else:
                done.add(letter_key(letter))
                letters.append((number, letter))
                replayed += 1
            if len(letters) == BATCH:
                self._commit_all(node, letters)
                letters = []
        self._commit_all(node, letters)
        if self._dead.full(node.name):
            self._dead.discard(lambda _number, _letter: False)  # removes replayed letters
        return {
            "replayed": replayed,
            "already": already,
            "refused": refused,
            "refused_hint": REFUSED if refused else "",
        }

    def _is_rebuilt(self, letter: Letter) -> bool:
        """Whether a rebuild has emptied the letter's topic since, so that its record is processed again anyway."""
        emptied = self._ledger.state.emptied.get(place_key(letter.topic, letter.partition or 0))
        return emptied is not None and emptied.inc == letter.inc and letter.offset < emptied.off

    def _commit_all(self, node: ProcessorNode, letters: list[tuple[int, Letter]]) -> None:
        """Appends each letter to the retry topic of its origin; a letter of a retry topic goes there again."""
        beside = {each: retry_topic(node.name, each) for each in node.beside}
        beside |= {topic: topic for topic in beside.values()}
        by_topic: dict[str, list[tuple[int, Letter]]] = {}
        for number, letter in letters:
            by_topic.setdefault(beside.get(letter.topic, retry_topic(node.name)), []).append((number, letter))
        for topic, found in by_topic.items():
            self._commit(node.name, topic, found)

    def _commit(self, processor: str, topic: str, numbered: list[tuple[int, Letter]]) -> None:
        """Writes one journal entry: the records in the retry topic, their origins, and the replayed letters."""
        letters = [letter for _, letter in numbered]
        data = pa.array([letter.data for letter in letters], pa.binary())
        transaction = Transaction(self._topics, self._ledger)
        transaction.add(topic, [Chunk(data, len(data), int(time.time() * 1000))])
        keys = [letter_key(letter) for letter in letters]
        origins = [
            RetryOrigin(letter.topic, letter.inc, letter.offset, letter.attempts, letter.partition or 0)
            for letter in letters
        ]
        with self._dead.replaying(numbered):
            transaction.commit(
                lambda number, ended: LettersReplayed(number, processor, keys, ended, origins), sync=True
            )
