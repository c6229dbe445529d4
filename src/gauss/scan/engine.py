"""The scan engine: which source tasks there are, who reads them, and whose lease has lapsed."""

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
    """Sources by (topic, incarnation), and the reader tasks over them."""

    def __init__(self) -> None:
        self.sources: dict[SourceId, SourceTask] = {}
        self._readers: dict[int, ReaderTask] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def register(self, source: SourceTask) -> SourceId:
        """Makes a source readable; an older incarnation of its topic is dead from now on."""
        with self._lock:
            for known, older in list(self.sources.items()):
                if known.topic == source.id.topic and known != source.id:
                    older.die()
            self.sources[source.id] = source
        return source.id

    def find(self, source: SourceId) -> SourceTask:
        """The source task of an id; raises Rejected for a dead incarnation, ConfigError for what never was."""
        found = self.sources.get(source)
        if found is not None:
            return found
        with self._lock:
            topics = sorted({known.topic for known in self.sources})
        if source.topic in topics:
            raise Rejected(f'topic "{source.topic}" has no incarnation {source.inc} any more')
        raise ConfigError(f'no topic "{source.topic}"', hint=f"there are: {', '.join(topics) or 'none'}")

    def reader(
        self, *, name: str = "", lease_seconds: float | None = None, allow: Callable[[OpKind], bool] | None = None
    ) -> tuple[int, ReaderTask]:
        """A new reader task and its number."""
        task = ReaderTask(self.find, name=name, lease_seconds=lease_seconds, allow=allow)
        with self._lock:
            number = next(self._numbers)
            self._readers[number] = task
        return number, task

    def task(self, number: int) -> ReaderTask | None:
        return self._readers.get(number)

    def tasks(self) -> list[tuple[int, ReaderTask]]:
        """Every reader task and its number."""
        with self._lock:
            return list(self._readers.items())

    def done(self, number: int, code: Code = Code.UNSET) -> Code:
        """Ends a task and forgets it."""
        with self._lock:
            task = self._readers.pop(number, None)
        return Code.PANIC if task is None else task.done(code)

    def reap(self) -> int:
        """Ends every task whose lease has lapsed, and cursors of readers that pin too much; call it every second or so.
        Gives how many tasks there were."""
        with self._lock:
            lapsed = [number for number, task in self._readers.items() if task.lapsed() or task.ended is not None]
            sources = [each for each in self.sources.values() if each.capabilities.max_pinned_bytes is not None]
        for source in sources:
            for reader in source.readers:
                reader.limit_pins(source)
        return sum(self.done(number, Code.REJECTED) is Code.UNSET for number in lapsed)

    def watermark(self, source: SourceId) -> int | None:
        """The lowest version of a source that is still needed; None: no cursor is open."""
        found = self.sources.get(source)
        return None if found is None else found.watermark()
