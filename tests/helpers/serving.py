"""`gauss serve` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil

from helpers.waiting import wait_until


class Serving:
    """`gauss serve` on a data directory, started as often as needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        stale = self.file.read_text() if self.file.exists() else ""
        command = [sys.executable, "-m", "gauss.cli.main", "serve", "--port", "0", "--data-dir", str(self.folder)]
        environment = {**os.environ, "GAUSS_KEY_FILE": str(self.folder.with_name("fleet.key"))}
        with self.folder.with_name("serve.log").open("ab") as output:
            self.process = subprocess.Popen([*command, *options], env=environment, stdout=output, stderr=output)
        wait_until(lambda: self.ended or (self.file.exists() and self.file.read_text() != stale))
        assert not self.ended, self.folder.with_name("serve.log").read_text()

    @property
    def file(self) -> Path:
        return self.folder / "serve.json"

    @property
    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    @property
    def tree(self) -> list[psutil.Process]:
        """All processes below it: its worker, the guard, the JVM."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def get(self, path: str) -> Any:
        found = json.loads(self.file.read_text())
        headers = {"Authorization": f"Bearer {found['token']}"}
        return httpx.get(f"{found['endpoint']}{path}", headers=headers, timeout=20).raise_for_status().json()

    def worker(self, not_pid: int = 0) -> int:
        """The pid of a live worker."""

        def live() -> int:
            assert not self.ended
            return next(
                (each["pid"] for each in self.get("/api/workers") if each["live"] and each["pid"] != not_pid), 0
            )

        return int(wait_until(live, 120, what=(self.folder / "logs" / "worker.out.log").read_text))

    def signal(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def kill(self) -> None:
        """Ends it and all processes below it."""
        if self.process is None or self.ended:
            return
        tree = self.tree
        self.signal(signal.SIGKILL)
        for each in tree:
            if each.is_running():
                each.kill()
