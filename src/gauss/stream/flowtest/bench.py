"""Processes that the cases of a test run share: the parent of engines, one Spark session, the embedded servers."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.clients.embedded import EmbeddedServer, contents, ensure
from gauss.config.spec import Pipeline
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import GaussError, Unavailable, from_dict
from gauss.model.files import write_private
from gauss.process.ready import last_line, read_ready
from gauss.process.supervise import Child, ChildSpec
from gauss.stream.control.datadir import Held, hold
from gauss.stream.flowtest import driver as driving
from gauss.stream.graph import Graph

START_SECONDS = 120.0
LOOK_SECONDS = 0.02


class Bench:
    """The shared processes. Each starts when the first case needs it; `close` stops all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.held: Held = hold(root)
        self.servers: dict[str, EmbeddedServer] = {}
        self._engines_log = self.held.paths.logs / "engines.log"
        self._engines: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._driver: Child | None = None
        self._driver_for: object = None

    # --- engines ---

    def start_engine(self, data_dir: Path) -> int:
        """Starts an engine on a prepared data directory; returns its pid when it is up. Thread-safe."""
        with self._starting:
            return self._start_engine(data_dir)

    def _start_engine(self, data_dir: Path) -> int:
        if self._engines is None:
            with self._engines_log.open("ab") as output:
                self._engines = subprocess.Popen(
                    [sys.executable, "-m", "gauss.stream.flowtest.engines"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    start_new_session=True,  # this process handles Ctrl-C in the terminal
                )
        assert self._engines.stdin is not None and self._engines.stdout is not None
        try:
            self._engines.stdin.write(f"{data_dir}\n".encode())
            self._engines.stdin.flush()
        except BrokenPipeError:
            raise self._no_engines() from None
        try:
            found = read_ready(self._engines.stdout.fileno(), START_SECONDS)
        except TimeoutError:
            raise Unavailable(f"the engine was not up within {START_SECONDS:.0f} s") from None
        except EOFError:
            raise self._no_engines() from None
        if "error" in found:
            raise from_dict(found["error"])
        return int(found["pid"])

    def _no_engines(self) -> GaussError:
        return GaussError(f"the engine can't be started: {last_line(self._engines_log)}")

    # --- Spark ---

    def drive(self, pipeline: Pipeline, base_dir: Path, data_dir: Path) -> None:
        """Assigns a case to the driver and waits until its work runs. Other Spark settings or third-party plugins
        require a new driver."""
        own = any(_is_own(entry.plugin) for entry in pipeline.processors)
        kind = (pipeline.spark.model_dump_json(), str(base_dir) if own else "")
        if kind != self._driver_for:
            self._stop_driver()
            write_private(
                self.held.paths.pipeline_json,
                {**pipeline.model_dump(mode="json"), "base_dir": str(base_dir)},
            )
            command = (sys.executable, "-m", "gauss.stream.flowtest.driver", str(self.root))
            self._driver = Child(ChildSpec("driver", command, ready_seconds=START_SECONDS), self.held.group)
            self._driver_for = kind
            driving.say(driving.assigned(self.held.paths), str(data_dir))
            self._driver.start()
        else:
            driving.say(driving.assigned(self.held.paths), str(data_dir))
        self._await(lambda: driving.said(driving.taken(self.held.paths)) == str(data_dir), "Spark did not start")

    def rest(self) -> None:
        """Removes the case from the driver and waits until its work has stopped."""
        if self._driver is not None:
            driving.say(driving.assigned(self.held.paths), "")
            self._await(lambda: driving.said(driving.taken(self.held.paths)) == "", "Spark's queries did not stop")

    def restart_driver(self) -> None:
        """Kills the driver with its JVM and workers, and waits until the new one runs the case."""
        driver = self._driver
        if driver is None:
            return
        self._await(lambda: driver.state == "ready", "the driver did not start")
        case, before = driving.said(driving.assigned(self.held.paths)), driver.restarts
        driving.say(driving.taken(self.held.paths), "")
        driver.restart("a step of the test kills the driver")
        self._await(lambda: driver.restarts > before, "the driver did not end")
        self._await(lambda: driving.said(driving.taken(self.held.paths)) == case, "the driver did not come back")

    def raise_if_failed(self) -> None:
        """Raises the error of a driver that could not start, or could not run the case."""
        if self._driver is None:
            return
        if self._driver.state == "failed" and self._driver.error is not None:
            raise self._driver.error
        if text := driving.said(driving.trouble(self.held.paths)):
            found = json.loads(text)
            if found.pop("case") == driving.said(driving.assigned(self.held.paths)):
                raise from_dict(found)

    def _await(self, condition: Any, problem: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            self.raise_if_failed()
            if time.monotonic() > deadline:
                raise Unavailable(f"{problem} within {START_SECONDS:.0f} s", hint=f"see the logs in {self.root}")
            time.sleep(LOOK_SECONDS)

    def _stop_driver(self) -> None:
        if self._driver is not None:
            self._driver.kill()
            self._driver.join(10)
            driving.taken(self.held.paths).unlink(missing_ok=True)
            self._driver, self._driver_for = None, None

    # --- servers ---

    def serve(self, graph: Graph, data_dir: Path) -> None:
        """Provides empty embedded servers for a case's tables, linked into its data directory."""
        for system in graph.servers:
            if system not in self.servers:
                self.servers[system] = ensure(system, self.root / system)
            contents(system).drop_tables(self.servers[system].endpoint)
            (data_dir / system).symlink_to(self.root / system, target_is_directory=True)

    def broker(self) -> str:
        """The address of an embedded Kafka broker."""
        if "kafka" not in self.servers:
            self.servers["kafka"] = ensure("kafka", self.root / "kafka")
        found = self.servers["kafka"].endpoint
        return f"{found.host}:{found.port}"

    def close(self) -> None:
        """Stops all processes; the folder may be removed afterwards."""
        self._stop_driver()
        if self._engines is not None:
            for pipe in (self._engines.stdin, self._engines.stdout):
                with contextlib.suppress(BrokenPipeError):
                    if pipe is not None:
                        pipe.close()
            self._engines.wait(10)
        for server in self.servers.values():
            server.stop()
        self.held.release()


def _is_own(plugin: str) -> bool:
    return not registry.spec(ProcessorSpec, plugin).implementation.startswith("gauss.")


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal to an engine and waits until it has ended."""
    try:
        process = os.pidfd_open(pid)  # of nobody else: the parent does not wait for its engines before it ends
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, number)
        if not select.select([process], [], [], START_SECONDS)[0]:
            raise Unavailable(f"the engine did not end within {START_SECONDS:.0f} s", hint="see its log")
    finally:
        os.close(process)
