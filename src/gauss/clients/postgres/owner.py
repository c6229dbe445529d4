"""The process that owns an embedded Postgres: makes its cluster once, runs it on loopback, stops it by its own pid."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from gauss.clients.endpoint import Endpoint, Identity
from gauss.clients.owner import own
from gauss.clients.postgres.binaries import RunAs, bin_folder, run_as
from gauss.model.errors import StorageError, Unavailable

USER = DATABASE = "postgres"
START_SECONDS = 60.0
STOP_SECONDS = 4.0
QUIT_SECONDS = 20.0
"""Postgres itself gives its processes five seconds to follow a SIGQUIT before it kills them."""
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # A data directory's path is often longer than a socket's may be.
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_PR_SET_PDEATHSIG = 1


class EmbeddedPostgres:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, directory: Path, known: Identity) -> Endpoint:
        user, cluster = run_as(), directory / "cluster"
        programs = bin_folder(user)
        # Folders above may be closed to that user; through a descriptor they need not be passed.
        if not (cluster / "PG_VERSION").exists():
            _make(cluster, known.password, user, programs)
        folder = os.open(cluster, os.O_RDONLY | os.O_DIRECTORY)
        _end_predecessor(cluster)
        command = [str(programs / "postgres"), "-D", f"/proc/self/fd/{folder}", "-p", str(known.port)]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            cwd="/",
            pass_fds=[folder],
            preexec_fn=_end_with_parent,  # noqa: PLW1509 (this process has one thread)
            **user.options(),
        )
        os.close(folder)
        endpoint = Endpoint("postgresql", "127.0.0.1", known.port, USER, known.password, DATABASE, os.getpid())
        self._wait_ready(endpoint)
        return endpoint

    def _wait_ready(self, endpoint: Endpoint) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(endpoint.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if died := self.died():
                    raise StorageError(died, hint="see owner.log") from error
                if time.monotonic() > deadline:
                    raise Unavailable(f"Postgres did not come up: {error}", hint="see owner.log") from error
            time.sleep(0.02)

    def died(self) -> str:
        if self._process is None or self._process.poll() is None:
            return ""
        return f"Postgres ended with code {self._process.returncode}"

    def stop(self) -> None:
        """A fast shutdown: clients are cut off, what is committed is on disk."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()


def _end_with_parent() -> None:
    """In the child: a fast shutdown when the owner dies in whatever way."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _make(cluster: Path, password: str, user: RunAs, programs: Path) -> None:
    """`initdb`, at first beside its place: a half-made cluster is never taken for one."""
    fresh = cluster.with_name("cluster.new")
    if fresh.exists():
        subprocess.run(["rm", "-rf", "--", str(fresh)], check=True)
    fresh.mkdir(mode=0o700)
    user.give(fresh)
    folder = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
    secret = os.memfd_create("secret")  # in no file, and open to that user alone
    os.write(secret, password.encode() + b"\n")
    os.fchown(secret, user.uid, user.gid)
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
    os.close(folder)
    os.close(secret)
    if made.returncode:
        why = (made.stderr.strip().splitlines() or ["it said nothing"])[0]
        raise StorageError(
            f"initdb failed in {fresh}: {why}",
            hint="is there space on the disk?",
        )
    fresh.rename(cluster)


def _end_predecessor(cluster: Path) -> None:
    """Waits for the server of a killed owner; ends it if it stays. Known by its pid file and its working folder."""
    deadline, sent = time.monotonic() + STOP_SECONDS, False
    while pid := _live_pid(cluster):
        if time.monotonic() > deadline:
            if sent:
                raise StorageError(f"process {pid} still serves {cluster}", hint=f"end it with kill {pid}")
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGQUIT)
            deadline, sent = time.monotonic() + QUIT_SECONDS, True
        time.sleep(0.02)


def _live_pid(cluster: Path) -> int:
    try:
        pid = int((cluster / "postmaster.pid").read_text().split("\n", 1)[0])
        return pid if Path(f"/proc/{pid}/cwd").readlink() == cluster.resolve() else 0
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    sys.exit(own(EmbeddedPostgres(), sys.argv[1:]))
