"""A whole run, as control holds it: the data directory, the children, a client of the engine, health, and the end."""

from __future__ import annotations

import json
import logging
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gauss.config.files import with_absolute_files
from gauss.config.secrets import Redactor
from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError, GaussError, Unavailable
from gauss.model.files import write_private
from gauss.model.ports import free_port
from gauss.stream.child import set_up_logs
from gauss.stream.control.datadir import Held, hold
from gauss.stream.control.descriptors import raise_limit
from gauss.stream.control.processes import process_age
from gauss.stream.control.sample import Sampler
from gauss.stream.control.supervise import Child, ChildSpec
from gauss.stream.control.tokens import kept_tokens
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


class Running:
    """One `gauss run`, from the first lock to the last process."""

    def __init__(self, pipeline: Pipeline, *, config: Path, data_dir: Path, redactor: Redactor | None = None) -> None:
        self.pipeline = pipeline
        self.graph = build_graph(pipeline)
        self.config = config
        self.redactor = redactor or Redactor()
        """Hides what came from the environment or a secret file."""
        self.started = time.monotonic() - process_age()
        self.url = ""
        self.draining = False
        raise_limit()
        self.held: Held = hold(data_dir)
        self._client: ControlClient | None = None
        self._client_lock = threading.Lock()
        try:
            set_up_logs(self.held.paths.logs, "control", self.redactor)
            logging.getLogger("uvicorn").setLevel(logging.WARNING)
            self.tokens = kept_tokens(self.held.paths)
            self._write_files()
        except BaseException:
            self.held.release()
            raise
        self.engine = self._child("engine", ready_seconds=60.0)
        self.driver = self._child("driver", ready_seconds=180.0) if self.graph.needs_spark else None
        self.servers = [self._server(system) for system in self.graph.servers]
        self.children = [*self.servers, *(child for child in (self.engine, self.driver) if child is not None)]
        self.sampler = Sampler(self)
        self._watchdog = Watchdog(self)

    def _child(self, name: str, ready_seconds: float) -> Child:
        command = (sys.executable, "-m", f"gauss.stream.{name}", str(self.held.paths.root))
        return Child(ChildSpec(name, command, ready_seconds=ready_seconds), self.held)

    def _server(self, system: str) -> Child:
        """An embedded server; inserts wait while it is started again."""
        from gauss.clients.embedded import command, environment

        directory = self.held.paths.server(system)
        directory.mkdir(parents=True, exist_ok=True)
        spec = ChildSpec(system, tuple(command(system, directory)), ready_seconds=60.0, environment=environment())
        return Child(spec, self.held)

    def _write_files(self) -> None:
        """What the children need to know, secrets included, in files that only this user can read."""
        paths = self.held.paths
        engine = self.pipeline.engine
        port = engine.port or free_port(engine.host)
        if engine.port:
            _must_be_free(engine.host, engine.port, "engine.port")
        host = f"[{engine.host}]" if ":" in engine.host else engine.host
        write_private(
            paths.flight_json,
            {
                "endpoint": f"grpc://{host}:{port}",
                "token": secrets.token_urlsafe(24),
                "lock": str(self.held.run_lock),
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
            },
        )

    def start(self) -> None:
        """Spawns the children; they start up while the caller imports what it needs."""
        for child in self.children:
            child.start()
        self.sampler.start()
        self._watchdog.start()

    def wait_ready(self, stop: threading.Event, look: Callable[[], None] = lambda: None) -> bool:
        """True once everything is up, False when `stop` came first; raises why a child could not start. `look` is
        called again and again meanwhile."""
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
        """Why a child was given up, with secrets hidden."""
        if child.state == "failed" and child.error is not None:
            child.error.message, child.error.hint = (
                self.redactor.redact(child.error.message),
                self.redactor.redact(child.error.hint),
            )
            raise child.error

    def client(self) -> ControlClient:
        """The engine's client, made when it is first needed: its import costs a quarter of a second."""
        with self._client_lock:
            if self._client is None:
                from gauss.stream.control.tails import ControlClient

                found = json.loads(self.held.paths.flight_json.read_bytes())
                self._client = ControlClient(**found, wait_s=_ANSWER_SECONDS)
            return self._client

    def command(self, name: str, /, *, wait_s: float = _ANSWER_SECONDS, **args: Any) -> dict[str, Any]:
        """Asks the engine, and hides the config's secrets in its answer; Unavailable while it is not up."""
        if self.engine.state != "ready":
            raise Unavailable(f"the engine is {self.engine.state}", hint="try again in a moment")
        given = {key: value for key, value in args.items() if value is not None}
        reply: dict[str, Any] = self.redactor.redact_data(self.client().command(name, given, wait_s=wait_s))
        return reply

    def health(self) -> dict[str, Any]:
        """`ready` once every listener and query is up; `degraded` with the reasons."""
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
        reasons += found.get("reasons", [])
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

    def stop(self, now: threading.Event) -> list[str]:
        """Drains and ends all within STOP_SECONDS, at once when `now` is set; names what had to be killed."""
        self.draining = True
        deadline = time.monotonic() + STOP_SECONDS - _KILL_SECONDS
        self._watchdog.stop()
        self.sampler.stop()
        if self.engine.state == "ready" and not now.is_set():
            drain = threading.Thread(target=self._drain, daemon=True)
            drain.start()
            while drain.is_alive() and not now.is_set() and time.monotonic() < deadline - 2 * _ENGINE_SECONDS:
                drain.join(0.05)
        # The driver first: what it has under way is published by an engine that still listens.
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
            log.warning("killed, since not ended in time: %s", ", ".join(killed))
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


def _must_be_free(host: str, port: int, key: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"{key}: {host}:{port} can't be listened on: {error.strerror}", hint="free the port, or use port = 0"
            ) from error
