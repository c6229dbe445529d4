"""The tables in which processors look rows up: an epoch's version is held from its grant until its publish."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from gauss.clients.engine.positions import TABLE_MARK, At, Ends, versions
from gauss.model.errors import NotFound, Rejected, StorageError
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.topics.table_topic import TableTopic
from gauss.stream.engine.topics.topic import Topic

Pins = dict[tuple[str, At], list[int]]
"""(table, version an epoch was granted with) → the versions that are held for it."""


class SideTables:
    """What is held for each processor."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics
        self._pins: dict[str, Pins] = {}
        self._lock = threading.Lock()

    def hold(self, running: ProcessorRun) -> Ends:
        """Holds the newest version of each table of a processor, for an epoch that begins."""
        with self._lock:
            newest = {name: self._hold(name) for name in running.tables}
            pins = self._pins.setdefault(running.name, {})
            for place in newest.items():
                pins.setdefault(place, []).append(place[1].off)
            return {TABLE_MARK + name: at for name, at in newest.items()}

    def release(self, running: ProcessorRun, end: Ends) -> None:
        """The epoch with this end is published."""
        for place in versions(end).items():
            with self._lock:
                self._release(running, place)

    def release_all(self, running: ProcessorRun) -> None:
        """Nothing that was granted counts any more."""
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
        """The version that an epoch which was granted with `at` is joined with; the newest if that died with an
        engine, and the epoch is then granted anew."""
        table = self._table(name)
        if at.inc != table.inc and running.on_restart == "fail":
            raise StorageError(
                f'processor "{running.name}" lost the rows of memory table "{name}" when the engine died',
                hint='it has on_restart = "fail"; set "continue" to go on with what is there',
            )
        with self._lock:
            if (name, at) not in self._pins.get(running.name, {}):
                raise Rejected(f'version {at.off} of table "{name}" is not held any more', hint="claim it anew")
        return at

    def _hold(self, name: str) -> At:
        table = self._table(name)
        return At(table.inc, table.hold())

    def _table(self, name: str) -> TableTopic:
        topic = self._topics.get(name)
        if not isinstance(topic, TableTopic):
            raise NotFound(f'no table "{name}"')
        return topic
