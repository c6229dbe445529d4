"""Results of tasks for ranges of their sources, kept until the epoch of the range is published."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from gauss.clients.engine.positions import At, Ends, place_key
from gauss.clients.engine.task_messages import StageDead, StageTime

T = TypeVar("T", StageDead, StageTime)
Key = tuple[str, str, int, int, int]


class RangeStore(Generic[T]):
    """One entry per range, on disk, so that it survives the engine: an epoch that writes nothing names no stage whose
    absence after a restart would show that its entries are lost."""

    def __init__(self, directory: Path, kind: type[T], suffix: str) -> None:
        self._directory = directory
        self._suffix = suffix
        self._lock = threading.Lock()
        self._entries: dict[Key, T] = {}
        for path in directory.glob(f"*{suffix}"):
            entry = msgspec.json.decode(path.read_bytes(), type=kind)
            self._entries[_key(entry)] = entry

    def put(self, entry: T) -> None:
        """Stores an entry; replaces one of the same range (a task's retry)."""
        with self._lock:
            path = self._path(entry)
            fresh = path.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(entry))
            fresh.replace(path)
            self._entries[_key(entry)] = entry

    def of(self, processor: str, start: Ends, end: Ends) -> list[T]:
        """The entries of an epoch's ranges, in the order of their records."""
        with self._lock:
            return [
                self._entries[key]
                for key in sorted(key for key in self._entries if key[0] == processor)
                if _within(key, start.get(key[1]), end.get(key[1]))
            ]

    def done(self, entries: Iterable[T]) -> None:
        """Removes entries that are published."""
        with self._lock:
            for entry in entries:
                if self._entries.pop(_key(entry), None) is not None:
                    self._path(entry).unlink(missing_ok=True)

    def sweep(self, processor: str, generation: int) -> None:
        """Removes the entries of lower generations."""
        with self._lock:
            stale = [
                entry for key, entry in self._entries.items() if key[0] == processor and entry.generation < generation
            ]
        self.done(stale)

    def _path(self, entry: T) -> Path:
        return self._directory / f"{hashlib.sha256(repr(_key(entry)).encode()).hexdigest()[:32]}{self._suffix}"


def _key(entry: StageDead | StageTime) -> Key:
    return entry.processor, place_key(entry.topic, entry.partition), entry.inc, entry.start, entry.stop


def _within(key: Key, start: At | None, end: At | None) -> bool:
    _, _, inc, first, stop = key
    if end is None or inc != end.inc or stop > end.off:
        return False
    # For a range that began in a lost incarnation, everything up to the end belongs to this epoch.
    return start is None or start.inc != inc or first >= start.off
