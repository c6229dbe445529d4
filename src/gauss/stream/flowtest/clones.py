"""Clones of prepared databases, of its own for each case."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from gauss.clients.dbstates.client import start
from gauss.clients.dbstates.prepared import Holder, Prepared, named_instance, remove
from gauss.config.database_refs import databases_of
from gauss.config.databases import DatabaseDef
from gauss.stream.flowtest.judge import Suite

THREADS = 4
AHEAD = 2
"""Cases whose clones are made while another one runs."""
Made = dict[str, Future[Prepared]]


class Clones:
    """Makes clones ahead of the cases that need them, by the engine of a data directory. Thread-safe."""

    def __init__(self, data_dir: Path, suites: Iterable[Suite], lock: Path) -> None:
        """`suites`: the suite of each case, in order. `lock`: a file whose lock holds the clones, so that none outlives
        this process."""
        self._data_dir, self._suites = data_dir, list(suites)
        self._holder = Holder(lock)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="clone")
        self._lock = threading.Lock()
        self._asked: list[Made] = []

    def take(self, number: int) -> dict[str, str]:
        """The DSNs of the clones of a case, by the names of databases. Raises the error of a preparation."""
        with self._lock:
            while len(self._asked) <= min(number + AHEAD, len(self._suites) - 1):
                self._asked.append(self._make(self._suites[len(self._asked)]))
            asked = self._asked[number]
        return {name: made.result().dsn for name, made in asked.items()}

    def drop(self, number: int) -> None:
        """Removes the clones of a case, beside the next one."""
        with self._lock:
            if number < len(self._asked):
                for made in self._asked[number].values():
                    self._threads.submit(self._remove, made)
                self._asked[number] = {}

    def close(self) -> None:
        """Ends preparations under way. Returns when all clones are gone."""
        self._holder.close()
        for number in range(len(self._asked)):
            self.drop(number)
        self._threads.shutdown(wait=True)

    def _make(self, suite: Suite) -> Made:
        names = databases_of(suite.pipeline)
        wanted = [database for database in suite.pipeline.databases if database.name in names]
        folder = suite.checked.base_dir
        return {database.name: self._threads.submit(self._clone, database, folder) for database in wanted}

    def _clone(self, database: DatabaseDef, folder: Path) -> Prepared:
        return named_instance(start(self._data_dir), database, folder, self._holder)

    def _remove(self, made: Future[Prepared]) -> None:
        if made.exception() is None:
            remove(start(self._data_dir), made.result())
