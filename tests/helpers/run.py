"""A `gauss run` for a test: started, queried, killed in parts, and always removed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from helpers.waiting import wait_until

GAUSS = str(Path(sys.executable).with_name("gauss"))
PORTS = range(
    10_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0),
    32_000,
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)
"""Each pytest worker has its own ports, so that no other worker takes one between its choice and its use."""
_given: set[int] = set()
DRIVER = "gauss.stream.driver "
"""Identifies the driver by its command line. The JVM and Spark's Python processes have the module's name without the
space."""
WORKER = "-m gauss.spark.daemon"


def free_port() -> int:
    """A free port below the ephemeral range, so that the kernel does not give it to a client before it is used."""
    while True:
        port = secrets.choice(PORTS)  # test libraries seed `random` equally in every process
        if port in _given:  # may be chosen and not yet in use
            continue
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port


class Run:
    """One `gauss run` of a config in its own folder."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder
        self.data_dir = folder / ".gauss"
        self.config = folder / "pipeline.toml"
        self.config.write_text(config)
        self.process: subprocess.Popen[bytes] | None = None
        self.output = folder / "output.txt"
        self.environment = dict(os.environ)

    def start(self, *, ready: bool = True, seconds: float = 180.0) -> Run:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [GAUSS, "run", str(self.config), "--quiet", "--data-dir", str(self.data_dir)],
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )
        if ready:
            self.wait_ready(seconds)
        return self

    def wait_ready(self, seconds: float = 180.0) -> None:
        def up() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"gauss run ended:\n{self.output.read_text()}\n{self.logs()}"
            try:
                return bool(self.api("/api/health")["status"] == "ready")
            except (OSError, KeyError, ValueError):
                return False

        wait_until(up, seconds, self.state)

    def state(self) -> str:
        """Health, processes and logs, for the message of a failed start."""
        try:
            health = json.dumps(self.api("/api/health"))
        except (OSError, KeyError, ValueError) as error:
            health = f"no answer: {error!r}"
        lives = "\n".join(f"{each.pid} {each.status()} {' '.join(each.cmdline())[:200]}" for each in self.tree())
        return f"ready\n{health}\n{self.output.read_text()}\n{lives}\n{self.logs()}"

    def logs(self) -> str:
        parts = [f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in self.log_files()]
        return "\n".join(parts)

    def log_files(self) -> list[Path]:
        return sorted((self.data_dir / "logs").glob("*.log"))

    def api(self, path: str, method: str = "GET", body: bytes | None = None) -> Any:
        found = json.loads((self.data_dir / "engine.json").read_text())
        request = urllib.request.Request(found["endpoint"] + path, data=body, method=method)
        request.add_header("Authorization", f"Bearer {found['token']}")
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.loads(reply.read())

    def topic(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api(f"/api/topics/{name}")
        return found

    def cli(self, *args: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [GAUSS, *args, "--data-dir", str(self.data_dir)],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=180,
            input=text,
            check=False,
        )
        assert not check or done.returncode == 0, f"{args}: {done.stdout}\n{done.stderr}"
        return done

    def tree(self) -> list[psutil.Process]:
        """All processes of this run, found by the data directory in their arguments or environment."""
        mine = []
        psutil.process_iter.cache_clear()  # otherwise psutil may confuse a process with an ended one of the same pid
        for process in psutil.process_iter():
            try:
                if (
                    process.pid != os.getpid()
                    and str(self.data_dir) in " ".join([*process.cmdline(), *process.environ().values()])
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    mine.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return mine

    def part(self, marker: str) -> psutil.Process:
        """The process whose command line contains `marker`, without its guard. Waits for it, since a killed process is
        restarted."""
        found: list[psutil.Process] = wait_until(
            lambda: [each for each in self.named(marker) if not _holds(each, "guard")], 120, marker
        )
        return found[0]

    def workers(self) -> list[psutil.Process]:
        """Spark's Python workers and the daemons that fork them (not the JVM, whose settings name the daemon). Waits
        for them."""
        found: list[psutil.Process] = wait_until(
            lambda: [each for each in self.tree() if _is_worker(each)], 180, "workers of Spark"
        )
        return found

    def named(self, marker: str) -> list[psutil.Process]:
        """Processes of the run whose command line contains `marker`."""
        return [each for each in self.tree() if _holds(each, marker)]

    def kill(self, marker: str) -> None:
        """Kills a part of the run; tries again if it exits by itself first."""
        while True:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.part(marker).send_signal(signal.SIGKILL)
                return

    def kill_worker(self, choose: Callable[[list[psutil.Process]], psutil.Process]) -> None:
        """Kills one of Spark's workers; tries again if it exits by itself first."""
        while True:
            with contextlib.suppress(psutil.NoSuchProcess):
                choose(self.workers()).kill()
                return

    def stop(self, seconds: float = 15.0) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(seconds)

    def end(self) -> None:
        """Kills all processes of the run. Servers get time for a clean stop, since a killed Postgres leaves shared
        memory behind; engine and Spark do not."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        for process in [*self.named("org.apache.spark"), *self.named("gauss.stream.")]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        deadline = time.monotonic() + 10
        while (left := self.tree()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _is_worker(process: psutil.Process) -> bool:
    """Whether a process is a worker of Spark; a fork has the zygote's command line and a name of its own."""
    try:
        forked = process.name() == "daemon" and _holds(process, "gauss.spark.zygote")
    except psutil.NoSuchProcess:
        return False
    return forked or _holds(process, WORKER)


def _holds(process: psutil.Process, marker: str) -> bool:
    try:
        return marker in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
