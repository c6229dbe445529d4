"""A whole `gauss run` under test: started, spoken to, killed in parts, and never left behind."""

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
"""Each worker of a run has its own: between the choice and the use of a port nobody else chooses it."""
_given: set[int] = set()
DRIVER = "gauss.stream.driver "
"""How the driver is told from what has its module's name in an argument: the JVM, and Spark's Python processes."""
WORKER = "-m gauss.spark.daemon"


def free_port() -> int:
    """A port below the range from which the kernel gives ports to clients: nobody gets it in the meantime."""
    while True:
        port = secrets.choice(PORTS)  # hypothesis and its like seed `random` alike in every process
        if port in _given:  # perhaps a moment ago, and not yet listened on
            continue
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port


class Run:
    """One `gauss run` of a config text in a folder of its own."""

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
        """What there is to see of a run that is not ready: health, processes and logs."""
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
        """Every process of this run, found by the data directory in its arguments or environment."""
        mine = []
        psutil.process_iter.cache_clear()  # else it takes whoever got the number of one that has ended for that one
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
        """The one process whose command line holds `marker` and whose children do the work (not its guard); waited
        for, since what was killed a moment ago comes again by itself."""
        found: list[psutil.Process] = wait_until(
            lambda: [each for each in self.named(marker) if not _holds(each, "guard")], 120, marker
        )
        return found[0]

    def workers(self) -> list[psutil.Process]:
        """Spark's Python workers and the daemons that fork them (not the JVM, whose settings name the daemon); waited
        for likewise."""
        found: list[psutil.Process] = wait_until(
            lambda: [each for each in self.tree() if _is_worker(each)], 180, "workers of Spark"
        )
        return found

    def named(self, marker: str) -> list[psutil.Process]:
        """Those of its processes whose command line holds `marker`."""
        return [each for each in self.tree() if _holds(each, marker)]

    def kill(self, marker: str) -> None:
        """One that ends by itself before it is killed does not count."""
        while True:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.part(marker).send_signal(signal.SIGKILL)
                return

    def kill_worker(self, choose: Callable[[list[psutil.Process]], psutil.Process]) -> None:
        """The same with one of Spark's workers, which come and go."""
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
        """Whatever happened, nothing of it stays. Engine and Spark do not get the seconds in which they would end in
        order; servers do, since Postgres leaves shared memory behind when it is killed."""
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
    """A fork has the command line of the zygote, and the name of what it runs."""
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
