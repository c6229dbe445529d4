"""REST client of the engine of database states, found by `dbstates/engine.json` of a data directory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gauss.clients.rest import NDJSON, RestClient
from gauss.model.errors import GaussError, StorageError, Unavailable, from_dict
from gauss.model.files import PRIVATE_FILE, make_private, read_json
from gauss.process import locks
from gauss.process.ready import last_line, read_ready, spawn

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

START_SECONDS = 60.0
CONNECT_SECONDS = 10.0


class DatabaseStates(RestClient):
    """A client of one engine. Streams and shutdowns may take as long as they need."""

    prefix = "/v1/"
    server = "the engine of database states"
    hint = "run the command again: it starts an engine"
    results = frozenset({409})

    def __init__(self, place: dict[str, Any]) -> None:
        super().__init__(str(place["endpoint"]), str(place["authToken"]))
        self.place = place

    def connection(self) -> HTTPConnection:
        from http.client import HTTPConnection

        path = self.place.get("socket_path")
        if path is None:
            return HTTPConnection("127.0.0.1", urlsplit(self.endpoint).port)
        return _unix_connection(str(path))

    def prepare(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Starts a job; its events, the first one with the job's id. The last one is that of its end."""
        made = self.post("prepare-jobs", body=request)
        yield {"type": "job", **made}
        yield from self.events(made["job_id"])

    def dsn(self, instance: str) -> str:
        """The address of an instance, with its password."""
        return str(self.get("instances", instance, connections="false")["dsn"])

    def events(self, job: str, first: int = 1) -> Iterator[dict[str, Any]]:
        """The events of a job until its end."""
        for line in self.lines("prepare-jobs", job, "events", from_=first):
            yield json.loads(line)

    def watch(self, job: str, first: int = 1) -> JobEvents:
        """The same as lines, for a thread of their own."""
        response = self._open("GET", ("prepare-jobs", job, "events"), {"from_": first}, accept=NDJSON)
        return JobEvents(response, self._lines(response))

    def remove(self, kind: str, given: str, **flags: Any) -> dict[str, Any]:
        """The result of a deletion, which a rule may have blocked."""
        found: dict[str, Any] = self.delete(kind, given, **flags)
        if "error" in found:
            raise from_dict(found["error"])
        return found

    def run(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a run."""
        for line in self.stream("runs", method="POST", body=request)[1]:
            yield json.loads(line)


class JobEvents:
    """The events of a job as lines, until its end; another thread may cancel them."""

    def __init__(self, response: HTTPResponse, lines: Iterator[bytes]) -> None:
        self._response, self._lines = response, lines

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def keep(self) -> None:
        """The engine keeps nothing for a watcher."""

    def cancel(self) -> None:
        """Ends the connection, and so a read that waits."""
        with (
            suppress(OSError, ValueError, AttributeError),
            socket.socket(fileno=os.dup(self._response.fileno())) as own,
        ):
            own.shutdown(socket.SHUT_RDWR)


def running(data_dir: Path) -> DatabaseStates | None:
    """The engine of a data directory; None if none runs."""
    place = read_json(_folder(data_dir) / "engine.json")
    if place is None or not _is_alive(place):
        return None
    return DatabaseStates(place)


def was_started(data_dir: Path) -> bool:
    """Whether an engine ever ran with a data directory."""
    return (_folder(data_dir) / "engine.log").exists()


def start(data_dir: Path) -> DatabaseStates:
    """The engine of a data directory, started if none runs."""
    found = running(data_dir)
    if found is not None:
        return found
    folder = _folder(data_dir)
    try:
        make_private(folder)
    except OSError as error:
        raise Unavailable(f"{folder} can't be made: {error.strerror}", hint="choose another --data-dir") from error
    lock = locks.take(folder / "start.lock", wait_seconds=START_SECONDS)
    if lock is None:
        raise Unavailable("another command has been starting the engine for a minute", hint=f"see {folder}/engine.log")
    try:
        found = running(data_dir)
        if found is None:
            _spawn(data_dir, folder / "engine.log")
            found = running(data_dir)
        if found is None:
            raise Unavailable("the engine of database states ended at once", hint=f"see {folder}/engine.log")
        return found
    finally:
        os.close(lock)


def _spawn(data_dir: Path, log: Path) -> None:
    """Starts the process, which outlives this one."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    command = [sys.executable, "-m", "gauss.dbstates.engine", str(data_dir.absolute())]
    try:
        process, ready = spawn(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/"
        )
    finally:
        os.close(output)
    try:
        told = read_ready(ready, START_SECONDS)
    except TimeoutError:
        process.kill()
        raise Unavailable(f"the engine was not up within {START_SECONDS:.0f} s", hint=f"see {log}") from None
    except EOFError:
        raise StorageError(f"the engine ended before it was up: {last_line(log)}", hint=f"see {log}") from None
    finally:
        os.close(ready)
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()  # no zombie in a process that lasts
    if "error" in told:
        error: GaussError = from_dict(told["error"])
        raise error


def _folder(data_dir: Path) -> Path:
    return data_dir.absolute() / "dbstates"


def _is_alive(place: dict[str, Any]) -> bool:
    """Whether the engine holds the lock that it had announced: its pid may be another process's by now."""
    try:
        return locks.is_locked(Path(place["lockfile"]))
    except (OSError, KeyError, TypeError):
        return False


def _unix_connection(path: str) -> HTTPConnection:
    from http.client import HTTPConnection

    class UnixConnection(HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(CONNECT_SECONDS)
            self.sock.connect(path)
            self.sock.settimeout(None)

    return UnixConnection("localhost")
