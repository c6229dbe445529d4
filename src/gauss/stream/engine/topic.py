"""A topic, as edges, publishes and status see it; `log_topic` and `table_topic` are its two kinds."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Capabilities, Program, ReaderCursor
from gauss.contracts.edge import Appended, DeadLetter
from gauss.contracts.format import Format
from gauss.contracts.storage import BackedUp, Capacity, Store
from gauss.model.errors import Rejected
from gauss.scan.sources import SourceTask
from gauss.scan.tasks import TaskCursor
from gauss.scan.waiting import Waiting
from gauss.stream.engine.readers import Reader, Readers

if TYPE_CHECKING:
    from gauss.stream.engine.stored_table import StoredTable


@dataclass
class Counters:
    """Totals since the engine started; others make rates of them."""

    records_in: int = 0
    bytes_in: int = 0
    records_out: int = 0
    bytes_out: int = 0
    dropped: int = 0
    overwritten: int = 0
    missed: int = 0
    lost: int = 0
    set_aside: int = 0
    """Cut at open because the journal does not commit them; kept beside the topic."""
    damaged: int = 0
    """Found by readers to be other bytes than were written."""
    dead: int = 0


@dataclass(frozen=True)
class Blocked:
    """Who holds writers back, and for how long."""

    topic: str
    reader: str
    peer: str
    seconds: float
    idle_seconds: float
    detail: str


class Topic(Waiting):
    """Implements `contracts.edge.TopicHandle`, a provider of scans, and the steps of a publish: fit and wait_room;
    under the lock stage_append, reveal or rollback, trim."""

    capabilities: Capabilities
    readers: Readers
    source: SourceTask
    """The topic as the scan engine knows it: its cursors, their tasks and the watermark."""
    stored: StoredTable | None = None
    """Where its records become rows of a table: that table, and the topic itself is the inbox."""

    def __init__(self, name: str, store: Store, capacity: Capacity, dead: Callable[[DeadLetter], None]) -> None:
        Waiting.__init__(self)
        self.name = name
        self.inc = store.inc
        self.capacity = capacity
        self.counters = Counters()
        self.lock = threading.RLock()
        self._store = store
        self._dead = dead
        self._closed = False

    # --- writing ---

    @abstractmethod
    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:
        """Adds records as `write_full` allows; waits while the topic is full and blocks, until `cancel`."""

    @abstractmethod
    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[DeadLetter]]:
        """The chunk as the topic keeps it, and what it can't hold; None: nothing is left."""

    @abstractmethod
    def wait_room(self, cancel: threading.Event | None = None, seconds: float | None = None) -> bool:
        """Waits until one record fits, without holding the lock; False when cancelled, or after so many seconds."""

    @abstractmethod
    def stage_append(self, chunk: Chunk, publish: int) -> int:
        """Appends a fitting chunk behind everything, invisible until `reveal`; gives how many records went in."""

    @abstractmethod
    def staged_end(self) -> int:
        """Where the visible end will stand after `reveal`."""

    @abstractmethod
    def reveal(self) -> None:
        """Moves the visible end over everything staged, and wakes who waits for it."""

    @abstractmethod
    def rollback(self) -> None:
        """Forgets what is staged."""

    @abstractmethod
    def trim(self) -> None:
        """Lets go what the capacity no longer holds."""

    def empty(self, end: int | None = None) -> None:  # noqa: ARG002 (for those that can)
        """Removes every record for good, or those before `end`."""
        self.empty_end()

    def empty_end(self) -> int:
        """The end that the topic has once it is emptied; raises if it can't be."""
        raise Rejected(
            f'topic "{self.name}" can\'t be emptied while it runs', hint="start the run anew: what it holds goes then"
        )

    def backup(self, folder: Path) -> BackedUp:
        """A copy of its files as they are now; writers go on."""
        copy: Callable[[Path], BackedUp] | None = getattr(self._store, "backup", None)
        if copy is None:
            raise Rejected(f'topic "{self.name}" is not kept in files', hint="only a file topic can be copied so")
        return copy(folder)

    # --- reading ---

    @property
    def scanned(self) -> Topic | StoredTable:
        """What people scan and query: the records, or the table that they have become."""
        return self if self.stored is None else self.stored

    def version(self) -> int:
        return self._store.end

    def floor(self) -> int:
        return self._store.floor

    @abstractmethod
    def candidates(self) -> pa.Schema: ...

    @abstractmethod
    def format(self) -> Format | None: ...

    def open(self, program: Program) -> ReaderCursor:
        """A cursor in a reader task of its own: whoever reads a topic reads it so."""
        return TaskCursor(self.source, program, self._counted_missed)

    def _counted_missed(self, records: int) -> None:
        self.counters.missed += records

    @abstractmethod
    def reader(self, name: str, start: str | int, *, keep: bool) -> Reader:
        """Registers an offset reader; a kept one goes on where it stood."""

    @abstractmethod
    def seek(self, name: str, start: str | int) -> int:
        """Puts a reader elsewhere; gives the offset."""

    @abstractmethod
    def drop_reader(self, name: str) -> None:
        """Forgets a reader: nothing is held for it any more."""

    @abstractmethod
    def bytes_from(self, offset: int) -> int:
        """Bytes held from `offset` on: how far a reader there is behind."""

    @abstractmethod
    def offset_at(self, ts_ms: int) -> int:
        """The first visible offset whose ts_ms is not below the given one, the end if there is none."""

    def position_of(self, name: str) -> int:
        return self.readers.get(name).position

    def counted_out(self, records: int, size: int) -> None:
        """A cursor has taken a batch."""
        self.counters.records_out += records
        self.counters.bytes_out += size

    # --- state ---

    @abstractmethod
    def maintain(self, now_ms: int | None = None) -> None:
        """Called every second or so, beside the writers."""

    @abstractmethod
    def blocked(self) -> Blocked | None:
        """Who holds writers back, and for how long; None while nobody waits."""

    @abstractmethod
    def fill(self) -> float | None:
        """How full it is of what it must keep, by records or bytes, whichever is nearer the bound; None: no bound."""

    @abstractmethod
    def stats(self) -> dict[str, object]:
        """Everything that top, health and metrics show of this topic."""

    @abstractmethod
    def close(self) -> None:
        """Wakes everybody and closes the store; appends are refused from now on."""

    def last_ts(self) -> int:
        """The largest visible ts_ms so far, 0 when there is none."""
        return self._store.last_ts()

    def damaged(self) -> int:
        """Records that readers found to be other bytes on disk than were written."""
        return int(getattr(self._store, "damaged", 0))

    def filled(self, records: int, size: int) -> float | None:
        """So much as a share of the capacity."""
        bounds = ((records, self.capacity.records), (size, self.capacity.bytes))
        parts = [held / most for held, most in bounds if most]
        return round(max(parts), 4) if parts else None

    def common_stats(self, records: int, size: int) -> dict[str, object]:
        self.counters.damaged = self.damaged()
        return {
            "name": self.name,
            "inc": self.inc,
            "floor": self.floor(),
            "end": self.version(),
            "records": records,
            "bytes": size,
            "capacity_records": self.capacity.records,
            "capacity_bytes": self.capacity.bytes,
            "write_full": self.capacity.write_full.value,
            **vars(self.counters),
        }
