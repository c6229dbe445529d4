"""What the cases of a run share: a parent of engines, one warm Spark, the embedded servers."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.clients.embedded import Server, ensure
from gauss.config.spec import Pipeline
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import GaussError, Unavailable, from_dict
from gauss.model.files import write_private
from gauss.stream.control.datadir import Held, hold
from gauss.stream.control.supervise import Child, ChildSpec
from gauss.stream.flowtest import driver as driving
from gauss.stream.graph import Graph

START_SECONDS = 120.0
LOOK_SECONDS = 0.02


class Bench:
    """Made once; each part starts when the first case needs it, and all ends with `close`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.held: Held = hold(root)
        self.servers: dict[str, Server] = {}
        self._engines_log = self.held.paths.logs / "engines.log"
        self._engines: subprocess.Popen[bytes] | None = None
        self._driver: Child | None = None
        self._driver_for: object = None

    # --- engines ---

    def start_engine(self, data_dir: Path) -> int:
        """An engine over a prepared data directory; its pid, once it is up."""
        if self._engines is None:
            with self._engines_log.open("ab") as output:
                self._engines = subprocess.Popen(
                    [sys.executable, "-m", "gauss.stream.flowtest.engines"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    start_new_session=True,  # a Ctrl-C in the terminal is this process's business
                )
        assert self._engines.stdin is not None and self._engines.stdout is not None
        try:
            self._engines.stdin.write(f"{data_dir}\n".encode())
            self._engines.stdin.flush()
        except BrokenPipeError:
            raise self._no_engines() from None
        told: dict[str, Any] = {}
        while not ("pid" in told and "ready" in told):
            if not select.select([self._engines.stdout], [], [], START_SECONDS)[0]:
                raise Unavailable(f"the engine was not up within {START_SECONDS:.0f} s")
            line = self._engines.stdout.readline()
            if not line:
                raise self._no_engines()
            told |= json.loads(line)
            if "error" in told:
                raise from_dict(told["error"])
        return int(told["pid"])

    def _no_engines(self) -> GaussError:
        last = self._engines_log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        return GaussError(f"the engine can't be started: {last[0]}")

    # --- Spark ---

    def drive(self, pipeline: Pipeline, base_dir: Path, data_dir: Path) -> None:
        """Gives a case to the driver, and waits until it has its queries; one with other settings or plugins of its own
        gets a driver of its own."""
        own = any(_is_own(entry.plugin) for entry in pipeline.processors)
        kind = (pipeline.spark.model_dump_json(), str(base_dir) if own else "")
        if kind != self._driver_for:
            self._stop_driver()
            write_private(
                self.held.paths.pipeline_json,
                {**pipeline.model_dump(mode="json"), "base_dir": str(base_dir)},
            )
            command = (sys.executable, "-m", "gauss.stream.flowtest.driver", str(self.root))
            self._driver = Child(ChildSpec("driver", command, ready_seconds=START_SECONDS), self.held)
            self._driver_for = kind
            driving.say(driving.assigned(self.held.paths), str(data_dir))
            self._driver.start()
        else:
            driving.say(driving.assigned(self.held.paths), str(data_dir))
        self._await(lambda: driving.said(driving.taken(self.held.paths)) == str(data_dir), "Spark did not start")

    def rest(self) -> None:
        """Takes the case from the driver, and waits until its queries are gone."""
        if self._driver is not None:
            driving.say(driving.assigned(self.held.paths), "")
            self._await(lambda: driving.said(driving.taken(self.held.paths)) == "", "Spark's queries did not stop")

    def restart_driver(self) -> None:
        """Kills the driver with its JVM and workers, and waits until it has the case again."""
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
        """Why Spark could not be started, or could not take the case."""
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
        """Empty embedded servers for a case's tables, where its data directory is expected to hold them."""
        from gauss.stream.flowtest.tables import emptied

        for system in graph.servers:
            if system not in self.servers:
                self.servers[system] = ensure(system, self.root / system)
            emptied(system, self.servers[system].endpoint)
            (data_dir / system).symlink_to(self.root / system, target_is_directory=True)

    def close(self) -> None:
        """Ends everything; what lies in the folder may be removed then."""
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


def kill(pid: int) -> None:
    """Ends an engine as a crash would, and waits until it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
        while True:
            os.kill(pid, 0)
            time.sleep(0.005)
    except ProcessLookupError:
        return
