"""What a person would write by hand: a snapshot of a data directory and a server on it, with nothing around."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from gauss.clients.postgres.binaries import bin_folder, run_as
from gauss.dbstates.runtimes.installation import INITDB
from gauss.dbstates.runtimes.process import tuned
from gauss.dbstates.statefs.statefs import choose

POLL_SECONDS = 0.001


class BarePostgres:
    """Clones of one state."""

    def __init__(self, state: Path, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._user = run_as()
        self._programs = str(bin_folder(self._user))
        self._state, self._folder = state, folder
        self._statefs = choose(folder, "auto")
        version = (state / "PG_VERSION").read_text().strip()
        self._settings = [word for name, value in tuned(version).items() for word in ("-c", f"{name}={value}")]
        self._sockets = Path(f"/tmp/gauss-bench-{os.getpid()}")

    def timed(self) -> float:
        """Milliseconds from nothing to the first connection."""
        data = self._folder / "clone"
        began = time.perf_counter()
        self._statefs.clone(self._state, data)
        server = self._spawn(data)
        self._wait(server)
        took = (time.perf_counter() - began) * 1000
        self._end(server, data)
        return took

    def fresh(self, scripts: Sequence[Path]) -> float:
        """Milliseconds for a new cluster with the content of scripts."""
        data = self._folder / "fresh"
        began = time.perf_counter()
        data.mkdir(mode=0o700)
        self._user.give(data)
        options = [*INITDB[:2], *("-A", "trust"), *INITDB[4:]]
        self._initdb(data, options)
        server = self._spawn(data)
        self._wait(server)
        address = [f"--host={self._sockets}", "--username=postgres", "postgres"]
        for script in scripts:
            subprocess.run([f"{self._programs}/psql", "-Xqf", str(script), *address], check=True, capture_output=True)
        took = (time.perf_counter() - began) * 1000
        self._end(server, data)
        return took

    def _initdb(self, data: Path, options: Sequence[str]) -> None:
        descriptor = os.open(data, os.O_RDONLY)
        command = [f"{self._programs}/initdb", "-D", f"/proc/self/fd/{descriptor}", *options]
        subprocess.run(
            command, cwd="/", pass_fds=[descriptor], check=True, capture_output=True, env=_ENVIRONMENT,
            **self._user.options(),
        )  # fmt: skip
        os.close(descriptor)

    def _spawn(self, data: Path) -> subprocess.Popen[bytes]:
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        (self._sockets / "pg_hba.conf").write_text("local all all trust\n")
        for path in (self._sockets, self._sockets / "pg_hba.conf"):
            self._user.give(path)
        descriptor = os.open(data, os.O_RDONLY)
        command = [f"{self._programs}/postgres", "-D", f"/proc/self/fd/{descriptor}", "-h", "", *self._settings]
        command += ["-c", f"unix_socket_directories={self._sockets}", "-c", f"hba_file={self._sockets}/pg_hba.conf"]
        server = subprocess.Popen(
            command, cwd="/", pass_fds=[descriptor], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=_ENVIRONMENT, **self._user.options(),
        )  # fmt: skip
        os.close(descriptor)
        return server

    def _wait(self, server: subprocess.Popen[bytes]) -> None:
        while True:
            try:
                psycopg.connect(host=str(self._sockets), user="postgres", dbname="postgres").close()
                return
            except psycopg.OperationalError:
                if server.poll() is not None:
                    raise
                time.sleep(POLL_SECONDS)

    def _end(self, server: subprocess.Popen[bytes], data: Path) -> None:
        server.send_signal(signal.SIGQUIT)
        server.wait()
        self._statefs.remove_path(data)
        shutil.rmtree(self._sockets, ignore_errors=True)


_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
