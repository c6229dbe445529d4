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
from gauss.model.errors import Rejected
from gauss.scan.sources import SourceTask
from gauss.scan.tasks import TaskCursor
from gauss.scan.waiting import Waiting
from gauss.stream.engine.topics.readers import OffsetReader, Readers
from gauss.stream.engine.topics.topic_state import TopicState

if TYPE_CHECKING:
    from gauss.stream.engine.topics.stored_table import StoredTable


class Appendable(Protocol):
    """What edges and clients append to."""

    name: str

    @abstractmethod
    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:
        """Adds records as `write_full` allows; waits while the topic is full and blocks, until `cancel`."""


class Publishable(Protocol):
    """What a transaction commits to: fit and wait_room; with the lock held stage_append, then reveal and trim, or
    rollback; then announce."""

    name: str
    inc: int
    lock: threading.RLock

    @abstractmethod
    def version(self) -> int:
        """The visible end."""

    @abstractmethod
    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        """The chunk as the topic keeps it, `None` if nothing is left of it, and letters of what it can't hold."""

    @abstractmethod
    def wait_room(self, cancel: threading.Event | None = None, seconds: float | None = None) -> bool:
        """Waits until one record fits, without holding the lock; False when cancelled, or after so many seconds."""

    @abstractmethod
    def stage_append(self, chunk: Chunk, publish: int) -> int:
        """Appends a fitting chunk at the end, invisible until `reveal`; returns how many records were taken."""

    @abstractmethod
    def staged_end(self) -> int:
        """The visible end after `reveal`."""

    @abstractmethod
    def reveal(self) -> None:
        """Moves the visible end over everything staged."""

    @abstractmethod
    def rollback(self) -> None:
        """Forgets what is staged."""

    @abstractmethod
    def trim(self) -> None:
        """Removes what the capacity no longer holds."""

    @abstractmethod
    def announce(self) -> None:
        """Wakes everybody who waits for the visible end to move."""


class Scannable(Protocol):
    """What people scan and query: the records of a topic, or the rows of its table."""

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
        """What is known of it, `records` among others."""


class Topic(TopicState, Waiting, Appendable, Publishable, Scannable):
    """A log or a table in the engine. Also implements `contracts.edge.TopicHandle`."""

    readers: Readers
    stored: StoredTable | None = None
    """The table in another system that its records are inserted into."""

    def __init__(self, name: str, store: Store, capacity: Capacity, dead: Callable[[Letter], None]) -> None:
        Waiting.__init__(self)
        TopicState.__init__(self, name, store, capacity)
        self._dead = dead

    @property
    def scanned(self) -> Scannable:
        """What people scan and query: the records, or the table that they have become."""
        return self if self.stored is None else self.stored

    def open(self, program: Program) -> ReaderCursor:
        """A cursor in a reader task of its own."""
        return TaskCursor(self.source, program, self._counted_missed)

    def _counted_missed(self, records: int) -> None:
        self.counters.missed += records

    def counted_out(self, records: int, size: int) -> None:
        """Counts a batch that a cursor has read."""
        self.counters.records_out += records
        self.counters.bytes_out += size

    def empty(self, end: int | None = None) -> None:  # noqa: ARG002 (for those that can)
        """Removes every record for good, or those before `end`."""
        self.empty_end()

    def empty_end(self) -> int:
        """The end that the topic has once it is emptied; raises if it can't be."""
        raise Rejected(
            f'topic "{self.name}" can\'t be emptied while it runs', hint="start the run anew: what it holds goes then"
        )

    # --- readers by offset ---

    @abstractmethod
    def reader(self, name: str, start: str | int, *, keep: bool) -> OffsetReader:
        """Registers an offset reader; a kept one goes on where it stood."""

    @abstractmethod
    def seek(self, name: str, start: str | int) -> int:
        """Moves a reader; returns its new offset."""

    @abstractmethod
    def drop_reader(self, name: str) -> None:
        """Forgets a reader: nothing is held for it any more."""

    @abstractmethod
    def bytes_from(self, offset: int) -> int:
        """Bytes held from `offset` on: how far a reader there is behind."""

    def position_of(self, name: str) -> int:
        return self.readers.get(name).position
