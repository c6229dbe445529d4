"""Instances: writable clones of states, each with a server of its own."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gauss.dbstates.connector.postgres import clients
from gauss.dbstates.errors import RuntimeMissing
from gauss.dbstates.holder import check_holder, is_held
from gauss.dbstates.runtimes.process import release_memory
from gauss.dbstates.runtimes.runtime import DATABASE, HOST, USER, Build, Launch, Runtime, Server
from gauss.dbstates.runtimes.scram import new_password
from gauss.dbstates.settings import Settings
from gauss.dbstates.statefs.statefs import SERVER_FILES, StateFS, sorted_error, validate
from gauss.dbstates.store.layout import Layout
from gauss.dbstates.store.metadata import Metadata, Row, now_ms
from gauss.dbstates.telemetry.metrics import Metrics
from gauss.model.errors import GaussError, NotFound

HELD, READY, LOST = "held", "ready", "lost"
"""Of a job that executes steps, or of the warm pool; handed out to a client; to be removed as soon as that can be."""
log = logging.getLogger("gauss.dbstates")


@dataclass(frozen=True)
class Origin:
    """What an instance is made for."""

    state: str
    job: str


@dataclass
class Instance:
    """An instance of this engine."""

    id: str
    build: Build
    password: str
    server: Server


class Instances:
    """Makes, finds, resets and removes instances. Thread-safe."""

    def __init__(
        self,
        metadata: Metadata,
        layout: Layout,
        statefs: StateFS,
        *,
        runtime: Callable[[str], Runtime],
        settings: Callable[[], Settings],
        metrics: Metrics,
    ) -> None:
        self._metadata, self._layout, self._statefs, self._runtime = metadata, layout, statefs, runtime
        self._settings, self._metrics = settings, metrics
        self._servers: dict[str, Server] = {}
        self._deadlines: dict[str, float] = {}
        """When an instance expires, by the monotonic clock: the wall clock may jump."""
        self._locks: dict[str, threading.RLock] = {}
        self._lock = threading.Lock()

    # --- making ---

    def start(self, build: Build, source: Path, origin: Origin) -> Instance:
        """A new instance with the content of a sealed directory; held until it is handed out."""
        instance, password = secrets.token_hex(16), new_password()
        settings = self._settings()
        now = now_ms()
        self._metadata.insert(
            "instances", id=instance, **vars(origin), status=HELD, image=build.image, runtime=build.runtime,
            runtime_id="", port=0, password=password, created_ms=now, used_ms=now,
            ttl_ms=round(settings.instances.ttlSecs * 1000), parameters=json.dumps(dict(build.parameters)),
        )  # fmt: skip
        try:
            with self._metrics.timed("instance_bind"):
                self._layout.instance(instance).mkdir(mode=0o700)
                validate(source)
                self._statefs.clone(source, self._layout.data(instance))
                server = self._runtime(build.runtime).start(build, self._launch(instance, password))
        except BaseException:
            with suppress(GaussError):  # it is removed later
                self.remove(instance)
            raise
        self._started(instance, server)
        return Instance(instance, build, password, server)

    def resume(self, instance: Instance) -> None:
        """Starts the stopped server of an instance again."""
        launch = self._launch(instance.id, instance.password)
        instance.server = self._runtime(instance.build.runtime).resume(instance.build, launch, instance.server)
        self._started(instance.id, instance.server)

    def hand_out(self, instance: str, state: str, job: str) -> None:
        """From here on the instance is a client's."""
        now = now_ms()
        self._metadata.update(
            "instances", "id = ?", instance, state=state, status=READY, job=job, created_ms=now, used_ms=now
        )
        self.touch(instance)

    def _started(self, instance: str, server: Server) -> None:
        self._servers[instance] = server
        self._metadata.update("instances", "id = ?", instance, runtime_id=server.runtime_id, port=server.port)
        self.touch(instance)

    def _launch(self, instance: str, password: str) -> Launch:
        row = self.row(instance)
        stored = row["parameters"]
        return Launch(
            instance,
            self._layout.data(instance),
            self._layout.server_log(instance),
            # Those of its key. An instance of a version that stored none has the present ones.
            json.loads(stored) if stored else self._settings().parameters,
            password,
            row["port"],
        )

    # --- finding ---

    def row(self, instance: str) -> Row:
        found = self._metadata.row("SELECT * FROM instances WHERE id = ?", instance)
        if found is None:
            raise NotFound(f"no instance {instance}", hint="gauss db instances lists them")
        return found

    def rows(self, status: str | None = None) -> list[Row]:
        query = "SELECT * FROM instances ORDER BY created_ms, id"
        return [row for row in self._metadata.rows(query) if status is None or row["status"] == status]

    def of_state(self, state: str) -> list[Row]:
        return self._metadata.rows("SELECT * FROM instances WHERE state = ? ORDER BY created_ms, id", state)

    def server(self, instance: str) -> Server | None:
        """The server of an instance, if it runs."""
        found = self._servers.get(instance)
        return None if found is None or found.died() else found

    def connections(self, instance: str) -> int:
        found = self.server(instance)
        return 0 if found is None else clients(found)

    def shown(self, row: Row) -> dict[str, Any]:
        """An instance as the API shows it, without its password."""
        lasts = row["holder"] or row["kept"]
        return {
            "instance_id": row["id"],
            "state_id": row["state"],
            "image": row["image"],
            "runtime": row["runtime"],
            "runtime_id": row["runtime_id"],
            "status": "running" if self.server(row["id"]) is not None else "stopped",
            "host": HOST,
            "port": row["port"],
            "user": USER,
            "database": DATABASE,
            "job_id": row["job"],
            "created_ms": row["created_ms"],
            "held": self.is_held(row),
            "kept": bool(row["kept"]),
            "ttl_secs": row["ttl_ms"] / 1000,
            "expires_ms": None if lasts else now_ms() + round(max(self.seconds_left(row["id"]), 0) * 1000),
        }

    @staticmethod
    def dsn(row: Row) -> str:
        return f"postgresql://{USER}:{quote(row['password'], safe='')}@{HOST}:{row['port']}/{DATABASE}"

    # --- life time ---

    def hold(self, instance: str, holder: str) -> None:
        """From here on the instance lives as long as a process holds a lock on a file."""
        check_holder(holder)
        self._metadata.update("instances", "id = ?", instance, holder=holder)

    def keep(self, instance: str, *, kept: bool) -> None:
        """Whether the content of the instance stays when its life ends: its server is stopped then."""
        self._metadata.update("instances", "id = ?", instance, kept=int(kept))

    @staticmethod
    def is_held(row: Row) -> bool:
        return is_held(row["holder"])

    def touch(self, instance: str) -> None:
        """Starts the life time of an instance again."""
        row = self._metadata.row("SELECT ttl_ms FROM instances WHERE id = ?", instance)
        if row is not None:
            self._deadlines[instance] = time.monotonic() + row["ttl_ms"] / 1000
            self._metadata.update("instances", "id = ?", instance, used_ms=now_ms())

    def seconds_left(self, instance: str) -> float:
        return self._deadlines.get(instance, 0.0) - time.monotonic()

    # --- ending ---

    def stop(self, instance: str) -> None:
        """Stops the server of an instance in good order; its content stays. Idempotent."""
        with self.locked(instance):
            row = self._metadata.row("SELECT * FROM instances WHERE id = ?", instance)
            server = self._servers.pop(instance, None)
            if row is None or server is None:
                return
            if not server.died():
                server.stop()
            self._runtime(row["runtime"]).forget(instance)

    def remove(self, instance: str) -> None:
        """Ends the server and removes everything that the instance had. Idempotent. If that fails, it is tried again
        later."""
        with self.locked(instance):
            try:
                self._discard(instance)
            except (GaussError, OSError) as error:
                self.lose([instance])
                log.warning("instance %s is not removed yet: %s", instance, error)
                if isinstance(error, OSError):
                    raise sorted_error(error, "the removal") from error
                raise

    def lose(self, instances: Iterable[str]) -> None:
        """Marks instances to be removed; until then nobody sees them."""
        for instance in instances:
            self._metadata.update("instances", "id = ?", instance, status=LOST, kept=0, holder="")

    def remove_of_job(self, job: str) -> None:
        """Removes what a job has made that no client will ever know."""
        for row in self._metadata.rows("SELECT id FROM instances WHERE job = ?", job):
            with suppress(GaussError):  # it is removed later
                self.remove(row["id"])

    def _discard(self, instance: str) -> None:
        row = self._metadata.row("SELECT * FROM instances WHERE id = ?", instance)
        if row is None:
            return
        runtime = self._runtime(row["runtime"])
        server = self._servers.pop(instance, None) or runtime.attach(instance, row["runtime_id"], row["port"])
        if server is not None:
            server.kill()
        release_memory(self._layout.data(instance))
        runtime.forget(instance)
        self._statefs.remove_path(self._layout.instance(instance))
        self._metadata.execute("DELETE FROM instances WHERE id = ?", instance)
        self._deadlines.pop(instance, None)
        self._locks.pop(instance, None)

    def locked(self, instance: str) -> threading.RLock:
        """One change of an instance at a time."""
        with self._lock:
            return self._locks.setdefault(instance, threading.RLock())

    # --- again ---

    def reset(self, instance: str, source: Path) -> None:
        """Gives an instance the content of its state again; address and password stay."""
        with self.locked(instance):
            row = self.row(instance)
            runtime = self._runtime(row["runtime"])
            build = runtime.resolve(row["image"])
            validate(source)
            self._settle(instance)
            old = self._servers.pop(instance, None) or runtime.attach(instance, row["runtime_id"], row["port"])
            if old is not None:
                old.kill()
            data = self._layout.data(instance)
            release_memory(data)
            if data.exists():
                data.rename(_aside(data))
            try:
                self._statefs.clone(source, data)
            except GaussError:
                with suppress(GaussError):  # the server of the old content; it may lack disk space too
                    self.revive(instance, lambda _: None)
                raise
            launch = self._launch(instance, row["password"])
            try:
                again = runtime.start(build, launch) if old is None else runtime.resume(build, launch, old)
                self._started(instance, again)
            finally:
                self._settle(instance)

    def _settle(self, instance: str) -> None:
        """Ends a reset that was interrupted: the new content, if it is whole, or else the old one."""
        data = self._layout.data(instance)
        if data.exists():
            self._statefs.remove_path(_aside(data))
        elif _aside(data).exists():
            _aside(data).rename(data)

    def revive(self, instance: str, tell: Callable[[str], None]) -> Server:
        """The server of an instance, started again from its directory if it is gone. Its life time starts again."""
        with self.locked(instance):
            self.touch(instance)
            found = self.server(instance)
            if found is not None:
                return found
            row = self.row(instance)
            runtime = self._runtime(row["runtime"])
            if (found := runtime.attach(instance, row["runtime_id"], row["port"])) is not None:
                if not found.died():  # its runtime did not answer for a time
                    self._servers[instance] = found
                    return found
                found.kill()
            self._settle(instance)
            data = self._layout.data(instance)
            if not (data / "PG_VERSION").exists():
                raise RuntimeMissing(
                    "the server of the instance is gone, and so are its files",
                    hint="remove the instance and prepare another one",
                )
            tell("the server is missing: it is started again from its directory")
            build = runtime.resolve(row["image"])
            release_memory(data)
            for name in SERVER_FILES:
                (data / name).unlink(missing_ok=True)
            server = runtime.start(build, self._launch(instance, row["password"]))
            self._started(instance, server)
            tell(f"the server runs again as {server.runtime_id}")
            return server

    def adopt(self) -> list[str]:
        """After a start of the engine: keeps the instances whose servers run, and removes those of lost jobs and of
        the warm pool; returns those adopted."""
        adopted = []
        for row in self.rows():
            left = (row["used_ms"] + row["ttl_ms"] - now_ms()) / 1000
            self._deadlines[row["id"]] = time.monotonic() + min(max(left, 0), row["ttl_ms"] / 1000)
            try:
                if self._adopt(row):
                    adopted.append(row["id"])
            except (GaussError, OSError) as error:  # such as a container runtime that does not answer
                log.warning("instance %s is left as it is: %s", row["id"], error)
                if row["status"] != READY:
                    self.lose([row["id"]])
        return adopted

    def _adopt(self, row: Row) -> bool:
        """Whether the server of an instance runs."""
        server = self._runtime(row["runtime"]).attach(row["id"], row["runtime_id"], row["port"])
        died = server is not None and bool(server.died())
        if row["status"] != READY or (died and not row["kept"]):
            self._discard(row["id"])
            return False
        self._settle(row["id"])
        if server is None or died:
            return False
        self._servers[row["id"]] = server
        return True

    def remove_unknown(self) -> None:
        """Removes folders that belong to no instance."""
        known = {row["id"] for row in self.rows()}
        for path in self._layout.instances.iterdir():
            if path.name not in known:
                self._statefs.remove_path(path)

    def close(self) -> None:
        """Ends every server, warm ones included, and removes all instances but the kept ones."""
        for row in self.rows():
            with suppress(GaussError):  # the next engine sees to it
                if row["kept"]:
                    self.stop(row["id"])
                else:
                    self.remove(row["id"])


def _aside(data: Path) -> Path:
    """Where the content of an instance is while it is reset."""
    return data.with_name("data.old")
