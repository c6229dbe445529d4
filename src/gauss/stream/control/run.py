"""A whole run: its data directory, its processes, a client of the engine, health and shutdown."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gauss.config.files import with_absolute_files
from gauss.config.secrets import Redactor
from gauss.config.spec import Pipeline
from gauss.http.sign_in import SignInCodes
from gauss.model.errors import ConfigError, GaussError, Unavailable
from gauss.model.files import write_private
from gauss.process.descriptors import raise_limit
from gauss.process.identity import process_age
from gauss.process.ports import bind_error, free_port
from gauss.process.supervise import Child, ChildSpec
from gauss.stream.child import set_up_logs
from gauss.stream.control.datadir import Held, hold
from gauss.stream.control.sample import Sampler
from gauss.stream.control.tokens import Role, kept_tokens
from gauss.stream.control.watchdog import Watchdog
from gauss.stream.graph import build_graph
from gauss.stream.live_formats import forget_schemas, with_live_formats

if TYPE_CHECKING:
    from gauss.stream.control.tails import ControlClient

STOP_SECONDS = 10.0
_DRAIN_SECONDS = 4.0
_KILL_SECONDS = 1.0
_ENGINE_SECONDS = 2.5
_ANSWER_SECONDS = 5.0

log = logging.getLogger("gauss.control")


class RunSyncs(Protocol):
    """The syncs of a run, which are no part of `stream`."""

    def reasons(self) -> list[str]:
        """Why they make the run degraded."""
        ...

    def rows(self) -> list[dict[str, Any]]:
        """Their status for people."""
        ...


class Running:
    """One `gauss run`, from the lock of the data directory to the end of the last process."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        config: Path,
        data_dir: Path,
        redactor: Redactor | None = None,
        systems: Iterable[str] = (),
    ) -> None:
        """`systems`: embedded servers that are needed besides those of topics."""
        self.pipeline = pipeline
        self.graph = build_graph(pipeline)
        self.config = config
        self.redactor = redactor or Redactor()
        """Hides values that came from the environment or a secret file."""
        self.started = time.monotonic() - process_age()
        self.url = ""
        self.draining = False
        self.syncs: RunSyncs | None = None
        """The syncs that run beside the pipeline."""
        raise_limit()
        self.held: Held = hold(data_dir)
        self._client: ControlClient | None = None
        self._client_lock = threading.Lock()
        try:
            set_up_logs(self.held.paths.logs, "control", self.redactor)
            logging.getLogger("uvicorn").setLevel(logging.WARNING)
            self.tokens = kept_tokens(self.held.paths)
            self.codes = SignInCodes[Role]()
            self._write_files()
        except BaseException:
            self.held.release()
            raise
        self.engine = self._child("engine", ready_seconds=60.0)
        self.driver = self._child("driver", ready_seconds=180.0) if self.graph.needs_spark else None
        self.servers = [self._server(system) for system in dict.fromkeys([*self.graph.servers, *systems])]
        self.children = [*self.servers, *(child for child in (self.engine, self.driver) if child is not None)]
        self.sampler = Sampler(self)
        self._watchdog = Watchdog(self)

    def _child(self, name: str, ready_seconds: float) -> Child:
        command = (sys.executable, "-m", f"gauss.stream.{name}", str(self.held.paths.root))
        return Child(ChildSpec(name, command, ready_seconds=ready_seconds), self.held.group)

    def _server(self, system: str) -> Child:
        """An embedded server; inserts wait while it is restarted."""
        from gauss.clients.embedded import command, environment

        directory = self.held.paths.server(system)
        directory.mkdir(parents=True, exist_ok=True)
        spec = ChildSpec(system, tuple(command(system, directory)), ready_seconds=60.0, environment=environment())
        return Child(spec, self.held.group)

    def _write_files(self) -> None:
        """Writes the config of the children, including secrets, to private files."""
        paths = self.held.paths
        engine = self.pipeline.engine
        port = engine.port or free_port(engine.host)
        if engine.port and (why := bind_error(engine.host, engine.port)):
            raise ConfigError(
                f"engine.port: {engine.host}:{engine.port} can't be listened on: {why}",
                hint="free the port, or use port = 0",
            )
        host = f"[{engine.host}]" if ":" in engine.host else engine.host
        write_private(
            paths.flight_json,
            {
                "endpoint": f"grpc://{host}:{port}",
                "token": secrets.token_urlsafe(24),
                "lock": str(self.held.group.lock),
            },
        )
        forget_schemas(paths)
        self.pipeline = with_live_formats(self.pipeline, paths, keep=True)
        write_private(
            paths.pipeline_json,
            {
                **with_absolute_files(self.pipeline, self.config.parent.absolute()).model_dump(mode="json"),
                "base_dir": str(self.config.parent.absolute()),
                "data_dir": str(paths.root),
                "secrets": sorted(self.redactor.secrets),
                "started_ms": int(time.time() * 1000),
            },
        )

    def start(self) -> None:
        """Spawns the children, which start while the caller continues to import modules."""
        for child in self.children:
            child.start()
        self.sampler.start()
        self._watchdog.start()

    def wait_ready(self, stop: threading.Event, look: Callable[[], None] = lambda: None) -> bool:
        """Waits until everything is up and calls `look` repeatedly; returns False if `stop` is set first. Raises the
        error of a child that cannot start."""
        while not stop.is_set():
            look()
            for child in self.children:
                self.raise_if_given_up(child)
            if all(child.state == "ready" for child in self.children) and self.health()["status"] != "starting":
                return True
            self.engine.changed.wait(0.02)
            time.sleep(0.02)
        return False

    def raise_if_given_up(self, child: Child) -> None:
        """Raises the error of a child that is not restarted any more, with secrets hidden."""
        if child.state == "failed" and child.error is not None:
            child.error.message, child.error.hint = (
                self.redactor.redact(child.error.message),
                self.redactor.redact(child.error.hint),
            )
            raise child.error

    def pages_url(self, role: Role = "operator") -> str:
        """The URL of the pages with a one-time code, in its fragment: browsers do not send that."""
        return f"{self.url}/#{self.codes.issue(role)}"

    def client(self) -> ControlClient:
        """The engine's client, created at the first use: its import takes a quarter of a second."""
        with self._client_lock:
            if self._client is None:
                from gauss.stream.control.tails import ControlClient

                found = json.loads(self.held.paths.flight_json.read_bytes())
                self._client = ControlClient(**found, wait_s=_ANSWER_SECONDS)
            return self._client

    def command(self, name: str, /, *, wait_s: float = _ANSWER_SECONDS, **args: Any) -> dict[str, Any]:
        """Runs a command of the engine and hides secrets in its reply; raises Unavailable if the engine is not up."""
        if self.engine.state != "ready":
            raise Unavailable(f"the engine is {self.engine.state}", hint="try again in a moment")
        given = {key: value for key, value in args.items() if value is not None}
        reply: dict[str, Any] = self.redactor.redact_data(self.client().command(name, given, wait_s=wait_s))
        return reply

    def health(self) -> dict[str, Any]:
        """The status (`starting`, `ready`, `degraded` with reasons, `draining`) and the state of each process."""
        reasons: list[str] = []
        starting = False
        for child in self.children:
            if child.state == "ready":
                continue
            if child.restarts or child.state == "failed":
                reasons.append(f"{child.spec.name} is {child.state}: {child.detail}")
            else:
                starting = True
        found: dict[str, Any] = {}
        if self.engine.state == "ready":
            try:
                found = self.command("health", wait_s=0.0)
            except GaussError as error:
                reasons.append(f"the engine does not answer: {error.message}")
        reasons += [*found.get("reasons", []), *(self.syncs.reasons() if self.syncs is not None else [])]
        status = "degraded" if reasons or found.get("status") == "degraded" else "ready"
        if starting or (found.get("status") == "starting" and not reasons):
            status = "starting"
        if self.draining:
            status = "draining"
        return {
            "status": status,
            "reasons": [self.redactor.redact(reason) for reason in reasons],
            "uptime_s": round(time.monotonic() - self.started, 1),
            "url": self.url,
            "config": str(self.config),
            "free_bytes": found.get("free_bytes"),
            "processes": [
                {"name": child.spec.name, "state": child.state, "restarts": child.restarts, "detail": child.detail}
                for child in self.children
            ],
        }

    def stop(self, now: threading.Event, seconds: float = STOP_SECONDS) -> list[str]:
        """Drains and stops all processes within so many seconds, or at once when `now` is set; returns those that had
        to be killed."""
        self.draining = True
        deadline = time.monotonic() + seconds - _KILL_SECONDS
        self._watchdog.stop()
        self.sampler.stop()
        if self.engine.state == "ready" and not now.is_set():
            drain = threading.Thread(target=self._drain, daemon=True)
            drain.start()
            while drain.is_alive() and not now.is_set() and time.monotonic() < deadline - 2 * _ENGINE_SECONDS:
                drain.join(0.05)
        # The driver first, while the engine still accepts its publishes.
        for child, until in ((self.driver, deadline - _ENGINE_SECONDS), (self.engine, deadline)):
            if child is not None:
                child.stop()
                while not child.join(0.02) and not now.is_set() and time.monotonic() < until:
                    pass
        for server in self.servers:
            server.stop()
        while not all(server.join(0.02) for server in self.servers) and time.monotonic() < deadline:
            pass
        killed = [f"{child.spec.name} ({child.living()})" for child in self.children if not child.join(0)]
        if killed:
            log.warning("killed because they did not stop in time: %s", ", ".join(killed))
        for child in self.children:
            child.kill()
        for child in self.children:
            child.join(_KILL_SECONDS * 5)
        self.held.release()
        return killed

    def _drain(self) -> None:
        try:
            self.command("drain", wait_s=_DRAIN_SECONDS, seconds=_DRAIN_SECONDS)
        except GaussError as error:
            log.warning("the engine did not drain: %s", error.message)
