"""Dead letters: records of the built-in file topic `_dead`, with their bytes and origin."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from gauss.clients.engine.positions import At, place_key
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, OffsetRange, Program, Step
from gauss.contracts.edge import TopicHandle
from gauss.contracts.letter import Letter
from gauss.model.names import DEAD_TOPIC
from gauss.model.units import human_bytes
from gauss.stream.engine.delivery.transaction import Transaction
from gauss.stream.engine.journal.entries import DeadKey, LettersKept

if TYPE_CHECKING:
    from gauss.stream.engine.journal.ledger import Ledger
    from gauss.stream.engine.topics.log_topic import LogTopic

SKIPPED = "skipped"
LATE = "late"
COUNT_SECONDS = 1.0
"""Maximum age of the count of stored bytes when a limit is checked."""
ROOM_SECONDS = 0.25
RATIO_SECONDS = 10
KEPT_BATCH = 64
"""Letters that are rewritten in one batch; each has at most 1.4 MiB."""
LETTER_BYTES = 256
"""Size of a letter without its detail and its data, which is stored in base64."""
RATIO_LETTERS = 100
"""Minimum number of dead letters in the window before their ratio can stop a processor."""


Choice = Callable[[int, Letter], bool]


def letter_key(letter: Letter) -> DeadKey:
    """The identity of a letter: one that failed again after a replay differs from the one before."""
    place = place_key(letter.topic, letter.partition or 0)
    return place if letter.attempts == 1 else f"{place}#{letter.attempts}", letter.inc, letter.offset


def skipped(chunk: Chunk, offset: int, why: str) -> list[Letter]:
    """Letters for records that an operator skipped."""
    times = chunk.ts_ms
    return [
        Letter(
            SKIPPED,
            f"the operator skipped it; it failed with: {why}" if why else "the operator skipped it",
            "transform",
            "",
            data.as_py(),
            offset=offset + index,
            ts_ms=times if isinstance(times, int) else int(times[index]),
        )
        for index, data in enumerate(chunk.data())
    ]


def letters_chunk(letters: Iterable[Letter], ts_ms: int) -> Chunk:
    """Letters as records of the dead-letter topic."""
    records = pa.array([msgspec.json.encode(letter) for letter in letters], pa.binary())
    return Chunk(records, len(records), ts_ms)


def read_letters(topic: TopicHandle, start: int, stop: int) -> Iterator[tuple[int, Letter]]:
    """The letters at the offsets [start, stop) with their numbers, which ascend as well: a number is the offset at
    which the letter was first."""
    start = max(start, topic.floor())
    if start >= stop:
        return
    cursor = topic.open(Program(OffsetRange(start, stop)))
    try:
        while cursor.next(Step()) is Code.OK:
            _, batch = cursor.read()
            assert isinstance(batch, pa.RecordBatch)
            for offset, data in zip(batch.column(0).to_pylist(), batch.column(2), strict=True):
                letter = msgspec.json.decode(data.as_buffer(), type=Letter)
                yield offset if letter.number is msgspec.UNSET else letter.number, letter
    finally:
        cursor.close()


def chosen(given: Mapping[str, Any]) -> Choice:
    """Whether a letter is one of those that a request names, by its number and content."""
    numbers, before = given.get("offsets"), given.get("before")
    named = {key: given[key] for key in ("processor", "reason", "stage") if given.get(key)}
    wanted = None if numbers is None else frozenset(numbers)
    return lambda number, letter: (
        all(getattr(letter, key) == value for key, value in named.items())
        and (wanted is None or number in wanted)
        and (before is None or number < before)
    )


class DeadLetters:
    """The `_dead` topic: stores letters of edges, counts them for `ls`, and finds them for `show` and `replay`. A
    replayed letter does not count as a dead letter unless it fails again."""

    def __init__(self, topic: LogTopic, ledger: Ledger, limits: Mapping[str, int]) -> None:
        """`limits`: maximum bytes of each processor's letters."""
        self.topic = topic
        self.waiting: Counter[str] = Counter()
        """Processors that wait for space with a letter, and their number of waiting connections."""
        self.changing = threading.RLock()
        """Held during a replay or discard, so that no other one moves the letters."""
        self._ledger = ledger
        self._limits = limits
        self._lock = threading.Lock()
        self._forget_counts()

    def _forget_counts(self) -> None:
        self._counted = 0
        self._counted_at = float("-inf")
        self._groups: dict[tuple[str, str, str], list[int]] = {}
        self._held: Counter[str] = Counter()

    def write(self, letter: Letter, stopping: threading.Event) -> None:
        """Appends a letter of an edge, or of a topic that can't store a record. Waits while its processor's letters
        exceed their limit; during a stop the letter is stored anyway."""
        if self.full(letter.processor):
            self.waiting[letter.processor] += 1
            try:
                while self.full(letter.processor) and not stopping.wait(ROOM_SECONDS):
                    pass
            finally:
                self.waiting[letter.processor] -= 1
        self.topic.append(letters_chunk([letter], int(time.time() * 1000)))

    def full(self, processor: str) -> str:
        """The reason why a processor may add no letters; empty if it may."""
        if not self._limits:
            return ""
        # Letters of a topic with several writers name all of them; the smallest limit applies.
        limit = self._limits.get(processor, min(self._limits.values()))
        with self._lock:
            if time.monotonic() - self._counted_at > COUNT_SECONDS:
                self._count()
            held = self._held[processor]
        if held < limit:
            return ""
        return (
            f"its dead letters use {human_bytes(held)}, max_dead_bytes is {human_bytes(limit)}; free space with gauss"
            f" dlq replay or gauss dlq discard --processor {processor}"
        )

    def _was_replayed(self, letter: Letter) -> bool:
        return self._ledger.was_replayed(letter.processor, letter_key(letter))

    def _count(self) -> None:
        """Counts new letters. Replayed letters use space too, until they are removed."""
        end = self.topic.version()
        for _, letter in read_letters(self.topic, self._counted, end):
            self._held[letter.processor] += LETTER_BYTES + len(letter.data) * 4 // 3 + len(letter.detail)
            if self._was_replayed(letter):
                continue
            group = self._groups.setdefault(_group(letter), [0, letter.ts_ms, letter.ts_ms])
            group[0] += 1
            group[1], group[2] = min(group[1], letter.ts_ms), max(group[2], letter.ts_ms)
        self._counted, self._counted_at = end, time.monotonic()

    def groups(self) -> list[dict[str, Any]]:
        """Number of letters by reason, stage and processor; reads only what is new since the last call."""
        with self._lock:
            self._count()
            return [
                {
                    "reason": reason,
                    "stage": stage,
                    "processor": processor,
                    "count": count,
                    "first_ts_ms": first,
                    "last_ts_ms": last,
                }
                for (reason, stage, processor), (count, first, last) in sorted(self._groups.items())
                if count
            ]

    @contextmanager
    def replaying(self, letters: Iterable[tuple[int, Letter]]) -> Iterator[None]:
        """Takes numbered letters out of the count unless the block raises."""
        with self._lock:
            yield
            for number, letter in letters:
                if number < self._counted:  # its offset is then, too: letters move before they are counted
                    self._groups[_group(letter)][0] -= 1

    def discard(self, unwanted: Choice) -> int:
        """Removes the matching letters and all replayed ones; returns the number of the former. Other letters are
        appended again and keep their numbers; one journal entry commits it."""
        topic, discarded = self.topic, 0

        def kept(end: int) -> Iterator[Chunk]:
            nonlocal discarded
            batch: list[Letter] = []
            for number, letter in read_letters(topic, 0, end):
                if self._was_replayed(letter):
                    continue
                if unwanted(number, letter):
                    discarded += 1
                    continue
                letter.number = number
                batch.append(letter)
                if len(batch) == KEPT_BATCH:
                    yield from self._fitting(batch)
                    batch = []
            yield from self._fitting(batch)

        with self.changing, self._lock, topic.lock:
            start, end = topic.empty_end(), topic.version()
            topic.skip(start)
            emptied = {DEAD_TOPIC: At(topic.inc, start)}
            transaction = Transaction({DEAD_TOPIC: topic}, self._ledger)
            transaction.add_later(DEAD_TOPIC, kept(end))
            transaction.commit(lambda number, ended: LettersKept(number, emptied, ended), sync=True)
            topic.empty(start)
            self._forget_counts()
        return discarded

    def _fitting(self, letters: list[Letter]) -> Iterator[Chunk]:
        chunk, _ = self.topic.fit(letters_chunk(letters, int(time.time() * 1000)))
        if chunk is not None:
            yield chunk

    def newest(self, limit: int, fits: Choice) -> list[tuple[int, Letter]]:
        """Letters that fit, newest first."""
        stop, floor = self.topic.version(), self.topic.floor()
        found: list[tuple[int, Letter]] = []
        while stop > floor and len(found) < limit:
            start = max(stop - 1000, floor)
            page = [
                (number, letter)
                for number, letter in read_letters(self.topic, start, stop)
                if fits(number, letter) and not self._was_replayed(letter)
            ]
            found += reversed(page)
            stop = start
        return found[:limit]


def _group(letter: Letter) -> tuple[str, str, str]:
    return letter.reason, letter.stage, letter.processor


class DeadRatio:
    """The ratio of dead letters among a processor's records over the last seconds."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._window: deque[tuple[float, int, int]] = deque()
        self._records = 0
        self._dead = 0

    def add(self, records: int, dead: int, now: float) -> str:
        """Counts records; returns the reason to stop, or an empty text."""
        self._window.append((now, records, dead))
        self._records += records
        self._dead += dead
        while self._window and self._window[0][0] < now - RATIO_SECONDS:
            _, old_records, old_dead = self._window.popleft()
            self._records -= old_records
            self._dead -= old_dead
        if self._dead < RATIO_LETTERS or self._dead <= self._limit * self._records:
            return ""
        return (
            f"{self._dead} of {self._records} records of the last {RATIO_SECONDS} s became dead letters,"
            f" above max_dead_ratio = {self._limit:g}"
        )

    def fresh(self) -> DeadRatio:
        """A new counter with the same limit."""
        return DeadRatio(self._limit)
