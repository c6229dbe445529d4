"""Replaying dead letters: their bytes go to the retry inlet of their processor, each once; nobody else sees them. What
is refused again is the same letter with one more attempt."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.model.errors import ConfigError, NotFound
from gauss.stream.engine.dead import Letter, read_letters
from gauss.stream.engine.entries import LettersReplayed, Origin
from gauss.stream.engine.running import retry_inlet
from gauss.stream.protocol import At

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine

BATCH = 1000
REFUSED = (
    "they never were records of a topic, or not all of their bytes were kept: correct them and send them again; or a"
    " rebuild has made their records anew"
)


def replay(engine: Engine, processor: str, reason: str, offsets: list[int] | None) -> dict[str, Any]:
    """Sends the letters that match; `already` counts those sent before, `refused` those that can't be."""
    if processor in engine.edges:
        raise ConfigError(
            f'"{processor}" is a source or sink: what it could not frame or send never was a record to try again',
            hint=f"look at the bytes (gauss dlq show --processor {processor}), correct them and send them again",
        )
    if processor not in engine.publisher.running:
        raise NotFound(f'no processor "{processor}"', hint="gauss processors ls shows them")
    with engine.dead.changing:
        return _replay(engine, processor, reason, None if offsets is None else set(offsets))


def _replay(engine: Engine, processor: str, reason: str, wanted: set[int] | None) -> dict[str, Any]:
    done = engine.ledger.replayed(processor)
    replayed = already = refused = 0
    letters: list[tuple[int, Letter]] = []
    for offset, letter in read_letters(engine.dead.topic, 0, engine.dead.topic.version()):
        if letter.processor != processor or reason not in ("", letter.reason):
            continue
        if wanted is not None and offset not in wanted:
            continue
        if letter.offset < 0 or letter.truncated is not msgspec.UNSET or _made_anew(engine, letter):
            refused += 1
        elif letter.key in done:
            already += 1
        else:
            done.add(letter.key)
            letters.append((offset, letter))
            replayed += 1
        if len(letters) == BATCH:
            _send_all(engine, processor, letters)
            letters = []
    _send_all(engine, processor, letters)
    if engine.dead.full(processor):
        engine.dead.discard(lambda _offset, _letter: False)  # removes those that were replayed
    return {
        "replayed": replayed,
        "already": already,
        "refused": refused,
        "refused_hint": REFUSED if refused else "",
    }


def _made_anew(engine: Engine, letter: Letter) -> bool:
    """Whether a rebuild has emptied the letter's topic since: what the letter holds comes again by itself."""
    emptied = engine.ledger.state.emptied.get(letter.topic)
    return emptied is not None and emptied.inc == letter.inc and letter.offset < emptied.off


def _send_all(engine: Engine, processor: str, letters: list[tuple[int, Letter]]) -> None:
    """Each to the inlet beside the topic that it came from; a letter of an inlet goes there again."""
    node = engine.graph.processors[processor]
    beside = {each: retry_inlet(processor, each) for each in node.beside}
    beside |= {inlet: inlet for inlet in beside.values()}
    by_inlet: dict[str, list[tuple[int, Letter]]] = {}
    for offset, letter in letters:
        by_inlet.setdefault(beside.get(letter.topic, retry_inlet(processor)), []).append((offset, letter))
    for inlet, found in by_inlet.items():
        _send(engine, processor, inlet, found)


def _send(engine: Engine, processor: str, inlet: str, numbered: list[tuple[int, Letter]]) -> None:
    """One journal entry: the records in the inlet, what they were, and that these letters are done."""
    letters = [letter for _, letter in numbered]
    data = pa.array([base64.b64decode(letter.data) for letter in letters], pa.binary())
    topic = engine.topics[inlet]
    chunk, _ = topic.fit(Chunk(data, len(data), int(time.time() * 1000)))
    assert chunk is not None
    keys = [letter.key for letter in letters]
    origins = [Origin(letter.topic, letter.inc, letter.offset, letter.attempts) for letter in letters]
    with engine.dead.replaying(numbered), topic.lock:
        number = engine.ledger.next_number()
        try:
            topic.stage_append(chunk, number)
            ended = {topic.name: At(topic.inc, topic.staged_end())}
            engine.ledger.commit(LettersReplayed(number, processor, keys, ended, origins), sync=True)
        except BaseException:
            topic.rollback()
            raise
        topic.reveal()
        topic.trim()
    topic.announce()
