"""`gauss serve --with-worker` as processes: the worker is killed, then the server; both come back on their own data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from helpers.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.fault]


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


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made = Serving(tmp_path / "data")
    yield made
    if made.process is not None and not made.ended:
        tree = made.tree
        made.signal(signal.SIGKILL)
        for each in tree:
            if each.is_running():
                each.kill()


@pytest.mark.spark
def test_a_killed_worker_is_restarted_and_a_killed_server_leaves_no_process(serving: Serving) -> None:
    serving.start("--with-worker")
    token = json.loads(serving.file.read_text())["token"]
    assert serving.file.stat().st_mode & 0o777 == 0o600
    first = serving.worker()
    os.kill(first, signal.SIGKILL)
    second = serving.worker(not_pid=first)
    assert {each["pid"]: each["slots"] for each in serving.get("/api/workers")}.keys() == {first, second}
    left = serving.tree
    assert any("java" in each.name() for each in left)
    serving.signal(signal.SIGKILL)
    wait_until(lambda: not [each for each in left if each.is_running() and each.status() != psutil.STATUS_ZOMBIE])

    serving.start()
    assert json.loads(serving.file.read_text())["token"] == token
    assert serving.signal(signal.SIGTERM) == 0
    assert not serving.file.exists()


@pytest.mark.spark
def test_a_worker_that_can_not_start_ends_the_server_with_its_reason(serving: Serving, tmp_path: Path) -> None:
    serving.folder.mkdir(mode=0o700)
    (serving.folder / "worker").write_text("a file where its directory should be")
    serving.start("--with-worker")
    assert serving.process is not None
    assert serving.process.wait(120) != 0
    assert "worker" in (tmp_path / "serve.log").read_text()
    assert not serving.file.exists()
