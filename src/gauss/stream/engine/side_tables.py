"""The tables in which processors look rows up: a batch's version is held from its planning until its commit is seen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from gauss.model.errors import NotFound, StorageError
from gauss.stream.engine.running import Running
from gauss.stream.engine.table_topic import TableTopic
from gauss.stream.engine.topic import Topic
from gauss.stream.protocol import TABLE_MARK, At, Ends

log = logging.getLogger(__name__)

Pins = dict[tuple[str, At], int]
"""(table, version a batch was planned with) → the version that is held for it."""


class SideTables:
    """Pins outlive a claim, since the first thing a claimed query does is to run its last batch again."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics
        self._pins: dict[str, Pins] = {}
        self._lock = threading.Lock()

    def next(self, running: Running, *, begins: bool) -> Ends:
        """Lets go what batches before this one held, for they are committed; for one that begins, holds the newest
        version of each table."""
        with self._lock:
            newest = {name: self._hold(name) for name in running.tables} if begins else {}
            for (name, _), version in self._pins.pop(running.name, {}).items():
                self._table(name).let_go(version)
            self._pins[running.name] = {(name, at): at.off for name, at in newest.items()}
            return {TABLE_MARK + name: at for name, at in newest.items()}

    def pinned(self, running: Running, name: str, at: At) -> At:
        """The version that a batch which was planned with `at` is joined with."""
        with self._lock:
            pins, table = self._pins.setdefault(running.name, {}), self._table(name)
            if (name, at) not in pins:
                # It went with an engine that died: one version for the whole batch, though not the one it was.
                pins[name, at] = self._hold(name).off
                log.warning(
                    "processor %s: version %d of table %s is gone; its batch is joined with version %d",
                    running.name,
                    at.off,
                    name,
                    pins[name, at],
                )
            if at.inc != table.inc and running.on_restart == "fail":
                raise StorageError(
                    f'processor "{running.name}" lost the rows of memory table "{name}" when the engine died',
                    hint='it has on_restart = "fail"; set "continue" to go on with what is there',
                )
            return At(table.inc, pins[name, at])

    def _hold(self, name: str) -> At:
        table = self._table(name)
        return At(table.inc, table.hold())

    def _table(self, name: str) -> TableTopic:
        topic = self._topics.get(name)
        if not isinstance(topic, TableTopic):
            raise NotFound(f'no table "{name}"')
        return topic
