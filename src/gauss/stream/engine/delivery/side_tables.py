"""Lookup tables of processors: the version of an epoch is retained from its grant until its publish."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from gauss.clients.engine.positions import TABLE_MARK, At, Ends, versions
from gauss.model.errors import NotFound, Rejected, StorageError
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.topics.table_topic import TableTopic
from gauss.stream.engine.topics.topic import Topic

Pins = dict[tuple[str, At], list[int]]
"""The retained versions, by table and the version of the grant."""


class SideTables:
    """The versions that are retained for each processor."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics
        self._pins: dict[str, Pins] = {}
        self._lock = threading.Lock()

    def hold(self, running: ProcessorRun) -> Ends:
        """Retains the newest version of each lookup table of a processor, for a new epoch."""
        with self._lock:
            newest = {name: self._hold(name) for name in running.tables}
            pins = self._pins.setdefault(running.name, {})
            for place in newest.items():
                pins.setdefault(place, []).append(place[1].off)
            return {TABLE_MARK + name: at for name, at in newest.items()}

    def release(self, running: ProcessorRun, end: Ends) -> None:
        """Releases the versions of the epoch with this end."""
        for place in versions(end).items():
            with self._lock:
                self._release(running, place)

    def release_all(self, running: ProcessorRun) -> None:
        """Releases the versions of all grants."""
        with self._lock:
            for place in list(self._pins.get(running.name, {})):
                while place in self._pins[running.name]:
                    self._release(running, place)

    def _release(self, running: ProcessorRun, place: tuple[str, At]) -> None:
        held = self._pins.get(running.name, {}).get(place)
        if held is None:
            return
        self._table(place[0]).unpin(held.pop())
        if not held:
            del self._pins[running.name][place]

    def pinned(self, running: ProcessorRun, name: str, at: At) -> At:
        """The table version of an epoch that was granted with `at`. If it was lost with an engine, the newest one, and
        the epoch is granted again."""
        table = self._table(name)
        if at.inc != table.inc and running.on_restart == "fail":
            raise StorageError(
                f'processor "{running.name}" lost the rows of memory table "{name}" when the engine died',
                hint='it has on_restart = "fail"; set "continue" to accept the loss',
            )
        with self._lock:
            if (name, at) not in self._pins.get(running.name, {}):
                raise Rejected(f'version {at.off} of table "{name}" is no longer retained', hint="claim it again")
        return at

    def _hold(self, name: str) -> At:
        table = self._table(name)
        return At(table.inc, table.hold())

    def _table(self, name: str) -> TableTopic:
        topic = self._topics.get(name)
        if not isinstance(topic, TableTopic):
            raise NotFound(f'no table "{name}"')
        return topic
