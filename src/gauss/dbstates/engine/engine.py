"""The engine: one process that owns a store, with all its parts."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time

from gauss.dbstates.deletion.controller import DeletionController
from gauss.dbstates.instances.leases import Leases
from gauss.dbstates.instances.manager import LOST, Instances
from gauss.dbstates.instances.runs import Runs
from gauss.dbstates.instances.warm_pool import WarmPool
from gauss.dbstates.prepare.bases import Bases
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.controller import PrepareController
from gauss.dbstates.repeating import Repeating
from gauss.dbstates.runtimes.container import ContainerRuntime
from gauss.dbstates.runtimes.process import ProcessRuntime
from gauss.dbstates.runtimes.runtime import Runtime
from gauss.dbstates.settings import Settings, effective, usable
from gauss.dbstates.statefs.statefs import StateFS, choose
from gauss.dbstates.store.cache import Cache
from gauss.dbstates.store.capacity import Capacity, forget_unsynced
from gauss.dbstates.store.jobs import Jobs
from gauss.dbstates.store.layout import Layout, StateDir
from gauss.dbstates.store.metadata import Metadata, Row
from gauss.dbstates.store.states import States
from gauss.dbstates.telemetry.audit import Audit
from gauss.dbstates.telemetry.metrics import Metrics
from gauss.model.errors import ConfigError, GaussError, StorageError, Unavailable
from gauss.model.files import make_private
from gauss.process import locks

IDLE_LOOK_SECONDS = 0.25
LOCK_SECONDS = 20.0
"""A predecessor that is ending has this long."""
AWAY_SECONDS = 2.0
"""A runtime that did not answer is asked again after this time."""
log = logging.getLogger("gauss.dbstates")


class DatabaseEngine:
    """Opens a store, recovers what an earlier engine has left, and runs until it is stopped."""

    def __init__(self, folder: StateDir) -> None:
        self.folder = folder
        make_private(folder.root)
        self.layout = Layout(folder.store())
        self.layout.make()
        held = locks.take(self.layout.lock, wait_seconds=LOCK_SECONDS)
        if held is None:
            raise StorageError(
                f"the store {self.layout.root} is in use by another engine",
                hint="use the data directory of that engine, or another store",
            )
        self._lock_fd = held
        self.instance = secrets.token_hex(8)
        self.metadata = Metadata(self.layout.metadata)
        self._settings = effective(usable(self.metadata.stored_settings()))
        self._store = self.metadata.identity("store", secrets.token_hex(16))
        self.statefs = self._choose_backend()
        self._runtimes: dict[str, Runtime] = {}
        self._away: dict[str, tuple[float, Unavailable]] = {}
        """Runtimes that did not answer: when, and why."""
        self._runtimes_lock = threading.Lock()
        self.metrics, self.audit = Metrics(), Audit(folder.audit)
        self.states, self.jobs = States(self.metadata), Jobs(self.metadata)
        self.cache = Cache(self.layout, self.states, self.statefs)
        self.instances = Instances(
            self.metadata,
            self.layout,
            self.statefs,
            runtime=self.runtime,
            settings=self.settings,
            metrics=self.metrics,
        )
        self.context = Context(
            self.layout, self.statefs, self.states, self.cache, self.jobs, self.instances, self.runtime,
            self.settings, self.metrics, self.audit,
        )  # fmt: skip
        self.pool = WarmPool(self.instances, self.cache, lambda: self._settings.instances.warmPool, self.metrics)
        self.bases = Bases(self.layout, self.statefs)
        self.capacity = Capacity(
            self.layout, self.states, self.cache, instances=self.instances.rows,
            synced=self.bases.synced, settings=lambda: self._settings.cache.capacity,
            metrics=self.metrics, audit=self.audit,
        )  # fmt: skip
        self.prepare = PrepareController(self.context, self.bases, self.pool, self.make_room)
        self.explainer = self.prepare.explainer
        self.deletion = DeletionController(self.context, self.pool, self.prepare, self.metadata)
        self.leases = Leases(self.instances, self.metrics, self.audit)
        self.runs = Runs(self.context)
        self.stopped = threading.Event()
        """Set when the process may end."""
        self.ended = False
        """Set when the engine is asked to end with all its instances."""
        self.used = time.monotonic()
        """When a client asked for something last."""
        self._idling = Repeating("idle", IDLE_LOOK_SECONDS, self._look_idle)

    def start(self) -> None:
        """Recovers, then serves."""
        self._recover()
        self.leases.start()
        self.pool.start()
        self.capacity.start()
        self.prepare.recover()
        self._idling.start()

    def _recover(self) -> None:
        for row in self.states.unfinished():
            self.states.fail(row["id"], "the engine ended while the state was made")
            self.cache.remove_partial(row)
        forget_unsynced(self.states, self.cache)
        self.bases.forget_unsynced()
        adopted = self.instances.adopt()
        kept = {self.instances.row(each)["runtime_id"] for each in adopted}
        self._end_leftovers(kept, {row["id"] for row in self.instances.rows()})
        self.cache.remove_unknown()
        self.instances.remove_unknown()
        for path in self.layout.locks.iterdir():
            path.unlink()
        log.info("adopted %d instances", len(adopted))

    # --- settings and runtimes ---

    def settings(self) -> Settings:
        return self._settings

    def change_settings(self) -> None:
        """Takes over the stored settings."""
        self._settings = effective(usable(self.metadata.stored_settings()))
        with self._runtimes_lock:
            self._runtimes.clear()
            self._away.clear()

    def check_settings(self, wanted: Settings) -> None:
        """Raises ConfigError for settings with which this store can't be used."""
        if wanted.snapshot != self._settings.snapshot:
            choose(self.layout.root, wanted.snapshot.backend)

    def _choose_backend(self) -> StateFS:
        """The wanted one; if that does not work, as after a move of the store, the best that does."""
        try:
            return choose(self.layout.root, self._settings.snapshot.backend)
        except ConfigError as error:
            log.warning("%s; another one is chosen", error.message)
            return choose(self.layout.root, "auto")

    def runtime(self, name: str) -> Runtime:
        """Raises Unavailable if its program does not answer."""
        with self._runtimes_lock:
            if name not in self._runtimes:
                since, error = self._away.get(name, (0.0, None))
                if error is not None and time.monotonic() - since < AWAY_SECONDS:
                    raise Unavailable(error.message, hint=error.hint)
                try:
                    self._runtimes[name] = self._make_runtime(name)
                except Unavailable as error:
                    self._away[name] = (time.monotonic(), error)
                    raise
            return self._runtimes[name]

    def _make_runtime(self, name: str) -> Runtime:
        if name == "process":
            return ProcessRuntime(self.metadata, self._store, self._settings.runtime.postgres)
        return ContainerRuntime(self.metadata, self._store, self._settings.container)

    def _known_runtimes(self) -> list[Runtime]:
        """The runtimes that this store has used, without those that do not answer."""
        found = []
        for name in sorted({"process", *(row["runtime"] for row in self.instances.rows())}):
            try:
                found.append(self.runtime(name))
            except GaussError as error:
                log.warning("the runtime %s is not used: %s", name, error.message)
        return found

    def _end_leftovers(self, kept: set[str], instances: set[str]) -> None:
        """Ends servers and tools but those kept, and forgets all instances but those given."""
        for runtime in self._known_runtimes():
            try:
                if ended := runtime.end_leftovers(kept):
                    log.info("ended what an earlier engine left: %s", ", ".join(ended))
                runtime.forget_others(instances)
            except Unavailable as error:
                log.warning("the runtime %s is not used: %s", runtime.name, error.message)

    # --- capacity, idleness, the end ---

    def make_room(self) -> None:
        self.capacity.make_room()

    def is_idle(self) -> bool:
        if self.prepare.active() or any(self._lives(row) for row in self.instances.rows()):
            self.used = time.monotonic()
        return time.monotonic() - self.used > self._settings.engine.idleSecs

    def _lives(self, row: Row) -> bool:
        return row["status"] != LOST and (not row["kept"] or self.instances.server(row["id"]) is not None)

    def _look_idle(self) -> None:
        if self.is_idle() and not self.stopped.is_set():
            log.info("no instances and no requests: ending")
            self.stopped.set()

    def end(self) -> None:
        """Ends all work and the servers of all instances; the process then ends too."""
        self.ended = True
        self.folder.engine_json.unlink(missing_ok=True)  # the next command starts an engine, which waits for the lock
        self._stop_work()
        self.instances.close()
        self._end_leftovers(set(), {row["id"] for row in self.instances.rows(LOST)})
        self.stopped.set()

    def close(self) -> None:
        """Ends all work; the next engine adopts the servers that still run."""
        if not self.ended:
            self._stop_work()
        self.metadata.close()
        os.close(self._lock_fd)

    def _stop_work(self) -> None:
        self._idling.stop()
        self.prepare.stop()
        self.runs.stop()
        self.pool.stop()
        self.leases.stop()
        self.capacity.stop()
