"""Starts an embedded server, or finds the one that runs already.

An embedded system is a package of `gauss.clients` with a module `owner`, which runs its server, and, if it has tables,
`contents`, by which tests of pipelines see them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import gauss.clients
from gauss.clients.endpoint import Endpoint, owned, read_endpoint
from gauss.model.errors import GaussError, Unavailable, from_dict
from gauss.process.identity import GROUP_VARIABLE
from gauss.process.ready import VARIABLE, last_line, read_ready, spawn

if TYPE_CHECKING:
    from gauss.contracts.target import TargetSchema

START_SECONDS = 60.0
STOP_SECONDS = 20.0
KEPT_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"),
        *("JAVA_HOME", "XDG_CACHE_HOME", "GAUSS_KAFKA_LIBS"),
        *(GROUP_VARIABLE, VARIABLE),
    }
)
"""Besides these, names that begin with LC_ or PYTHON."""


class Contents(Protocol):
    """The module `contents` of an embedded system."""

    def drop_tables(self, endpoint: Endpoint) -> None: ...

    def table_rows(
        self,
        endpoint: str | Endpoint,
        target: TargetSchema,
        columns: list[str],
        *,
        order_by: str,
        replaced: bool,
    ) -> list[Any]: ...


@functools.cache
def systems() -> tuple[str, ...]:
    """The names of the embedded systems."""
    packages = [found.name for found in pkgutil.iter_modules(gauss.clients.__path__) if found.ispkg]
    return tuple(name for name in packages if importlib.util.find_spec(_owner(name)))


def contents(system: str) -> Contents:
    """What an embedded system lets tests see."""
    return cast(Contents, importlib.import_module(f"gauss.clients.{system}.contents"))


def _owner(system: str) -> str:
    return f"gauss.clients.{system}.owner"


@dataclass
class EmbeddedServer:
    """An embedded server; `process` is its owner if this process started it, and then ends with this one."""

    endpoint: Endpoint
    process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """Shuts the server down if this process started it."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        self.process = None

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def environment() -> dict[str, str]:
    """The variables that an embedded server needs: any other may hold a secret of the user."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in KEPT_VARIABLES or name.startswith(("LC_", "PYTHON"))
    }


def command(system: str, directory: Path, port: int = 0) -> list[str]:
    """The command of the owner process, which reports readiness (`process/ready.py`) and ends on SIGTERM."""
    return [sys.executable, "-m", _owner(system), str(directory), *(["--port", str(port)] if port else [])]


def ensure(system: str, directory: Path, *, port: int = 0) -> EmbeddedServer:
    """The running server of a directory, or a new one that ends when this process does."""
    directory.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + START_SECONDS
    log = directory / "owner.log"
    while True:
        if owned(directory):
            found = read_endpoint(directory)
            if found:
                return EmbeddedServer(found)
        else:
            try:
                return _start(system, directory, log, port)
            except GaussError:
                if not owned(directory):  # else another process was faster, and its server is the one
                    raise
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the embedded {system} in {directory} did not start within {START_SECONDS:.0f} s",
                hint=f"see {log}",
            )
        time.sleep(0.05)


def _start(system: str, directory: Path, log: Path, port: int) -> EmbeddedServer:
    with log.open("ab") as output:
        process, ready = spawn(
            [*command(system, directory, port), "--watch-stdin"],
            environment=environment(),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C in the terminal is for the process that started it
        )
    happened = ""
    try:
        message = read_ready(ready, START_SECONDS)
    except TimeoutError:
        message, happened = {}, f"did not start within {START_SECONDS:.0f} s"
    except EOFError:
        message = {}
    finally:
        os.close(ready)
    if "error" in message:
        process.wait()
        raise from_dict(message["error"])
    endpoint = read_endpoint(directory)
    if not message or endpoint is None:
        process.kill()
        process.wait()
        happened = happened or f"ended while it started: {last_line(log)}"
        raise Unavailable(f"the embedded {system} in {directory} {happened}", hint=f"see {log}")
    return EmbeddedServer(endpoint, process)
