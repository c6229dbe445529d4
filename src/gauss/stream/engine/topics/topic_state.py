"""The state that `topics`, health and metrics show of a topic or of captures."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gauss.contracts.storage import BackedUp, Capacity, Store
from gauss.model.errors import GaussError, Rejected


@dataclass
class Counters:
    """Counters since the engine started."""

    records_in: int = 0
    bytes_in: int = 0
    dropped: int = 0
    overwritten: int = 0
    missed: int = 0
    lost: int = 0
    set_aside: int = 0
    """Records without a commit, set aside when the topic was opened."""
    damaged: int = 0
    """Damaged records found by readers."""


@dataclass(frozen=True)
class Blocked:
    """The reader that blocks writers of a full topic, and for how long."""

    topic: str
    reader: str
    peer: str
    seconds: float
    idle_seconds: float
    detail: str


class TopicState(ABC):
    """A store under a topic's name, with its capacity and counters."""

    def __init__(self, name: str, store: Store, capacity: Capacity) -> None:
        self.name = name
        self.inc = store.inc
        self.capacity = capacity
        self.counters = Counters()
        self.lock = threading.RLock()
        self._store = store
        self._closed = False

    def version(self) -> int:
        """The visible end."""
        return self._store.end

    def floor(self) -> int:
        """The offset of the oldest record that can be read."""
        return self._store.floor

    def last_ts(self) -> int:
        """The largest visible ts_ms so far, 0 when there is none."""
        return self._store.last_ts()

    @property
    def times_vary(self) -> bool:
        """Whether `ts_ms` may decrease from one record to the next."""
        return bool(getattr(self._store, "times_vary", False))

    def damaged(self) -> int:
        """Number of damaged records that readers found on disk."""
        return int(getattr(self._store, "damaged", 0))

    def outage(self) -> str:
        """Why its outside system can't be reached at the moment; empty if it can, or if there is none."""
        error: GaussError | None = getattr(self._store, "error", None)
        return "" if error is None else error.message

    def backup(self, folder: Path) -> BackedUp:
        """Copies its current files without blocking writers."""
        copy: Callable[[Path], BackedUp] | None = getattr(self._store, "backup", None)
        if copy is None:
            raise Rejected(f'topic "{self.name}" is not a file topic', hint="only file topics can be backed up")
        return copy(folder)

    @abstractmethod
    def maintain(self, now_ms: int | None = None) -> None:
        """Background work; called about every second, concurrently with writers."""

    @abstractmethod
    def blocked(self) -> Blocked | None:
        """The reader that blocks writers; `None` while none waits."""

    @abstractmethod
    def fill(self) -> float | None:
        """The filled share of the capacity, by records or bytes, whichever is larger; `None` without a bound."""

    @abstractmethod
    def stats(self) -> dict[str, object]:
        """The statistics that top, health and metrics show."""

    @abstractmethod
    def close(self) -> None:
        """Wakes all waiting calls and closes the store; later appends are rejected."""

    def filled(self, records: int, size: int) -> float | None:
        """The share of the capacity that so many records and bytes take."""
        bounds = ((records, self.capacity.records), (size, self.capacity.bytes))
        parts = [held / most for held, most in bounds if most]
        return round(max(parts), 4) if parts else None

    def common_stats(self, records: int, size: int) -> dict[str, object]:
        """The statistics that all kinds have in common."""
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
