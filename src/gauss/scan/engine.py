"""Scan engine: registry of source tasks and reader tasks, and expiry of leases."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from gauss.contracts.cursor import Code
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.resources import OpKind
from gauss.scan.sources import SourceId, SourceTask
from gauss.scan.tasks import ReaderTask


class ScanEngine:
    """Source tasks by (topic, incarnation), and their reader tasks."""

    def __init__(self) -> None:
        self.sources: dict[SourceId, SourceTask] = {}
        self._readers: dict[int, ReaderTask] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def register(self, source: SourceTask) -> SourceId:
        """Registers a source. Older incarnations of its topic are marked as gone."""
        with self._lock:
            for known, older in list(self.sources.items()):
                if (known.topic, known.rows) == (source.id.topic, source.id.rows) and known != source.id:
                    older.die()
            self.sources[source.id] = source
        return source.id

    def find(self, source: SourceId) -> SourceTask:
        """The source task of an id. Raises Rejected for an old incarnation, ConfigError for an unknown topic."""
        found = self.sources.get(source)
        if found is not None:
            return found
        with self._lock:
            topics = sorted({known.topic for known in self.sources})
        if source.topic in topics:
            raise Rejected(f'topic "{source.topic}" no longer has incarnation {source.inc}')
        raise ConfigError(f'no topic "{source.topic}"', hint=f"topics: {', '.join(topics) or 'none'}")

    def reader(
        self, *, name: str = "", lease_seconds: float | None = None, allow: Callable[[OpKind], bool] | None = None
    ) -> tuple[int, ReaderTask]:
        """Creates a reader task. Returns its number and the task."""
        task = ReaderTask(self.find, name=name, lease_seconds=lease_seconds, allow=allow)
        with self._lock:
            number = next(self._numbers)
            self._readers[number] = task
        return number, task

    def tasks(self) -> list[tuple[int, ReaderTask]]:
        """All reader tasks with their numbers."""
        with self._lock:
            return list(self._readers.items())

    def done(self, number: int, code: Code = Code.OK) -> Code:
        """Ends a task and removes it."""
        with self._lock:
            task = self._readers.pop(number, None)
        return Code.PANIC if task is None else task.done(code)

    def reap(self) -> int:
        """Ends tasks whose lease has expired, and cursors of readers that pin too much memory. Called about every
        second. Returns the number of ended tasks."""
        with self._lock:
            lapsed = [number for number, task in self._readers.items() if task.lapsed() or task.ended is not None]
            sources = [each for each in self.sources.values() if each.capabilities.max_pinned_bytes is not None]
        for source in sources:
            for reader in source.readers:
                reader.limit_pins(source)
        return sum(self.done(number, Code.REJECTED) is Code.OK for number in lapsed)
