"""An embedded server that a test freezes, kills and starts again at the same address."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.endpoint import Endpoint
from helpers.waiting import suspend


class KillableServer:
    """A server of a directory. Its processes are those that this test has started."""

    def __init__(self, system: str, directory: Path) -> None:
        self._system, self._directory = system, directory
        self._running: EmbeddedServer = ensure(system, directory)
        self.endpoint: Endpoint = self._running.endpoint

    def _processes(self) -> list[psutil.Process]:
        assert self._running.process is not None
        owner = psutil.Process(self._running.process.pid)
        return [*owner.children(recursive=True), owner]

    def kill(self) -> None:
        for each in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        assert self._running.process is not None
        self._running.process.wait()

    def start(self) -> None:
        self._running = ensure(self._system, self._directory, port=self.endpoint.port)

    def freeze(self) -> None:
        """The server accepts nothing and answers nothing, but its connections stay open."""
        for each in self._processes():
            suspend(each)

    def thaw(self) -> None:
        for each in self._processes():
            each.resume()

    def __enter__(self) -> KillableServer:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # it is killed
            self.thaw()
        self._running.stop()
