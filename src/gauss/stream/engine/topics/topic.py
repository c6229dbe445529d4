"""Topics: what can be appended to, published to and scanned. `log_topic` and `table_topic` are the two kinds."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Cursor, Program, ReaderCursor
from gauss.contracts.edge import Appended
from gauss.contracts.letter import Letter
from gauss.contracts.storage import Capacity, Store
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.sources import SourceTask
from gauss.scan.tasks import TaskCursor
from gauss.scan.waiting import Waiting
from gauss.stream.engine.topics.readers import OffsetReader, Readers
from gauss.stream.engine.topics.topic_state import TopicState

if TYPE_CHECKING:
    from gauss.stream.engine.topics.stored_table import StoredTable


class Appendable(Protocol):
    """Accepts records of edges and clients."""

    name: str

    @abstractmethod
    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:
        """Adds records as `write_full` allows; waits while the topic is full and blocks, until `cancel`."""


class Publishable(Protocol):
    """Target of a transaction: fit and wait_room; with the lock held stage_append, then reveal and trim, or rollback;
    then announce."""

    name: str
    inc: int
    lock: threading.RLock
    """That of writers."""
    is_outside: bool = False
    """Whether its log is in an outside system, so that `prepare` and `reveal` may wait for minutes."""

    @abstractmethod
    def version(self) -> int:
        """The visible end."""

    @abstractmethod
    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        """The chunk as the topic stores it, `None` if no records remain, and letters of the records that it can't
        store."""

    @abstractmethod
    def wait_room(self, cancel: threading.Event | None = None, seconds: float | None = None) -> bool:
        """Waits until one record fits, without the lock; false if cancelled, or after so many seconds."""

    @abstractmethod
    def stage_append(self, chunk: Chunk, publish: int) -> int:
        """Appends a fitting chunk at the end, invisible until `reveal`; returns how many records were taken."""

    def prepare(self) -> None:
        """Called after everything is staged and before the journal entry is written."""
        return

    @abstractmethod
    def staged_end(self) -> int:
        """The visible end after `reveal`."""

    @abstractmethod
    def reveal(self) -> None:
        """Moves the visible end over everything staged."""

    @abstractmethod
    def rollback(self) -> None:
        """Removes what is staged."""

    @abstractmethod
    def trim(self) -> None:
        """Removes records beyond the capacity."""

    @abstractmethod
    def announce(self) -> None:
        """Wakes everything that waits for the visible end to move."""


class Scannable(Protocol):
    """What users scan and query: the records of a topic, or the rows of its table."""

    name: str
    inc: int
    source: SourceTask
    """The topic as the scan engine knows it: its cursors, their tasks and the watermark."""

    @abstractmethod
    def version(self) -> int:
        """The visible end."""

    @abstractmethod
    def floor(self) -> int:
        """The oldest retained offset."""

    @abstractmethod
    def open(self, program: Program) -> Cursor:
        """A cursor pinned at the current version."""

    @abstractmethod
    def wait(self, version: int, timeout: float) -> int:
        """Blocks until the version is above `version` or the time is over; returns the version."""

    @abstractmethod
    def offset_at(self, ts_ms: int) -> int:
        """Offset of the first record with `ts_ms >=` the given time, the end if there is none."""

    @abstractmethod
    def stats(self) -> dict[str, object]:
        """Its statistics, `records` among others."""


class Topic(TopicState, Waiting, Appendable, Publishable, Scannable):
    """A log or a table in the engine. Also implements `contracts.edge.TopicHandle`."""

    readers: Readers
    stored: StoredTable | None = None
    """The external table into which its records are inserted."""
    rows: Scannable | None = None
    """The newest record of each key, beside a log of all records."""

    def __init__(self, name: str, store: Store, capacity: Capacity, dead: Callable[[Letter], None]) -> None:
        Waiting.__init__(self)
        TopicState.__init__(self, name, store, capacity)
        self._dead = dead

    @property
    def scanned(self) -> Scannable:
        """What users scan and query: the records, or the table into which they are written."""
        return self if self.stored is None else self.stored

    def scannable(self, *, rows: bool) -> Scannable:
        """What users scan; `rows`: the newest record of each key."""
        if not rows:
            return self.scanned
        if self.rows is None:
            raise ConfigError(
                f'topic "{self.name}" has no snapshot: it keeps records in order, not a row per key',
                hint='scan it without snapshot; a Kafka topic has snapshots with key = "@key" or key_field',
            )
        return self.rows

    def open(self, program: Program) -> ReaderCursor:
        """A cursor in a reader task of its own."""
        return TaskCursor(self.source, program, self._counted_missed)

    def _counted_missed(self, records: int) -> None:
        self.counters.missed += records

    def empty(self, end: int | None = None) -> None:  # noqa: ARG002 (for those that can)
        """Removes every record for good, or those before `end`."""
        self.empty_end()

    def empty_end(self) -> int:
        """The topic's end after it is emptied; raises if it can't be."""
        raise Rejected(
            f'topic "{self.name}" can\'t be emptied during a run',
            hint="restart the run, which empties it",
        )

    # --- readers by offset ---

    @abstractmethod
    def reader(self, name: str, start: str | int, *, keep: bool) -> OffsetReader:
        """Registers an offset reader; a kept one continues at its position."""

    @abstractmethod
    def seek(self, name: str, start: str | int) -> int:
        """Moves a reader; returns its new offset."""

    @abstractmethod
    def drop_reader(self, name: str) -> None:
        """Removes a reader: nothing is held for it any more."""

    @abstractmethod
    def bytes_from(self, offset: int) -> int:
        """Bytes from `offset` on."""
