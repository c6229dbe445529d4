"""A Postgres cluster in a directory: initdb, start, readiness, stop. It does not know which process owns it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg

from gauss.clients.postgres.binaries import RunAs, bin_folder, run_as
from gauss.model.errors import StorageError, Unavailable

USER = DATABASE = "postgres"
HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 4.0
"""A fast shutdown that takes longer becomes an immediate one."""
QUIT_SECONDS = 20.0
"""Postgres itself waits five seconds after SIGQUIT before it kills its own processes."""
SETTINGS: Mapping[str, str] = {
    "listen_addresses": HOST,
    # The path of a data directory is often longer than a socket address allows.
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
"""Server settings of every cluster, given on the command line and so not stored in it."""
_PR_SET_PDEATHSIG = 1


class Cluster:
    """One cluster directory and the server process that this process started on it.

    The server listens on loopback and shuts down when the thread that called `start` ends, even if it is killed.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self.directory = directory
        self._settings = settings
        self._user = run_as()
        self._programs = bin_folder(self._user)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def exists(self) -> bool:
        """Whether `initdb` has completed in the directory."""
        return (self.directory / "PG_VERSION").exists()

    def create(self, password: str) -> None:
        """Runs `initdb` in a sibling directory and renames that, so that a half-made cluster is never used."""
        fresh = self.directory.with_name(f"{self.directory.name}.new")
        if fresh.exists():
            shutil.rmtree(fresh)
        fresh.mkdir(mode=0o700)
        self._user.give(fresh)
        _initdb(fresh, password, self._user, self._programs)
        fresh.rename(self.directory)

    def start(self, port: int, password: str) -> None:
        """Starts the server and waits until it accepts connections; stops a server that an earlier owner left."""
        _end_predecessor(self.directory)
        # The user that runs Postgres may have no access to the parent folders; a descriptor needs none.
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            command = [str(self._programs / "postgres"), "-D", f"/proc/self/fd/{folder}", "-p", str(port)]
            for name, value in self._settings.items():
                command += ["-c", f"{name}={value}"]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                cwd="/",
                pass_fds=[folder],
                preexec_fn=_end_with_parent,  # noqa: PLW1509 (one prctl call, safe between fork and exec)
                **self._user.options(),
            )
        finally:
            os.close(folder)
        self._wait_ready(port, password)

    def _wait_ready(self, port: int, password: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(
                    host=HOST, port=port, user=USER, password=password, dbname=DATABASE, connect_timeout=5
                ).close()
                return
            except psycopg.OperationalError as error:
                if died := self.died():
                    raise StorageError(died, hint="see owner.log") from error
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"Postgres did not accept connections within {START_SECONDS:.0f} s: {error}",
                        hint="see owner.log",
                    ) from error
            time.sleep(0.02)

    def died(self) -> str:
        """Why the server is gone; empty while it runs, and before the first start."""
        if self._process is None or self._process.poll() is None:
            return ""
        return f"Postgres ended with exit code {self._process.returncode}"

    def stop(self) -> None:
        """A fast shutdown: clients are disconnected, everything committed is on disk. Idempotent."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()


def _end_with_parent() -> None:
    """In the child: asks the kernel for a fast shutdown when the parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _initdb(directory: Path, password: str, user: RunAs, programs: Path) -> None:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    secret = os.memfd_create("password")  # never in a file, and readable by that user only
    os.write(secret, password.encode() + b"\n")
    os.fchown(secret, user.uid, user.gid)
    try:
        made = subprocess.run(
            [
                *(str(programs / "initdb"), "-D", f"/proc/self/fd/{folder}", "-U", USER, "-A", "scram-sha-256"),
                *(f"--pwfile=/proc/self/fd/{secret}", "-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"),
            ],
            cwd="/",
            pass_fds=[folder, secret],
            capture_output=True,
            text=True,
            check=False,
            **user.options(),
        )
    finally:
        os.close(folder)
        os.close(secret)
    if made.returncode:
        why = (made.stderr.strip().splitlines() or ["no error output"])[0]
        raise StorageError(f"initdb failed in {directory}: {why}", hint="check the free space on the disk")


def _end_predecessor(directory: Path) -> None:
    """Waits for the server of a killed owner to exit and kills it after a timeout. It is identified by its pid file and
    working directory."""
    deadline, sent = time.monotonic() + STOP_SECONDS, False
    while pid := _server_pid(directory):
        if time.monotonic() > deadline:
            if sent:
                raise StorageError(f"process {pid} still serves {directory}", hint=f"end it with kill {pid}")
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGQUIT)
            deadline, sent = time.monotonic() + QUIT_SECONDS, True
        time.sleep(0.02)


def _server_pid(directory: Path) -> int:
    """The pid of the server that runs on the directory; 0 if none does."""
    try:
        pid = int((directory / "postmaster.pid").read_text().split("\n", 1)[0])
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            # A killed server that nobody has waited for, as in a container whose first process does not: Postgres would
            # take it for a running one.
            (directory / "postmaster.pid").unlink()
        return pid if Path(f"/proc/{pid}/cwd").readlink() == directory.resolve() else 0
    except (OSError, ValueError):
        return 0
