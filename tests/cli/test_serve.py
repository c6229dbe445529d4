"""`gauss serve`: announces itself once it answers, keeps its token, and is alone in its directory."""

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
import pytest

from helpers.waiting import wait_until


class Server:
    """A `gauss serve` process."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "data" / "serve.json"
        command = [sys.executable, "-m", "gauss.cli.main", "serve", "--port", "0", "--data-dir", str(self.file.parent)]
        environment = {**os.environ, "GAUSS_KEY_FILE": str(folder / "fleet.key")}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def announced(self) -> dict[str, Any]:
        wait_until(lambda: self.file.exists() or self.process.poll() is not None)
        found: dict[str, Any] = json.loads(self.file.read_text())
        return found

    def stop(self, number: int = signal.SIGTERM) -> str:
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[0].decode()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.process.kill()
    server.process.communicate()


@pytest.mark.system
def test_the_announced_token_works_also_after_a_kill_and_no_second_server_starts(
    started: Server, tmp_path: Path
) -> None:
    found = started.announced()
    assert started.file.stat().st_mode & 0o777 == 0o600
    headers = {"Authorization": f"Bearer {found['token']}"}
    assert httpx.get(f"{found['endpoint']}/api/pipelines", headers=headers).json() == []
    second = Server(tmp_path)
    assert "another gauss serve uses the data directory" in second.process.communicate(timeout=60)[0].decode()
    assert second.process.returncode == 1
    started.stop(signal.SIGKILL)
    third = Server(tmp_path)
    wait_until(lambda: third.file.exists() and json.loads(third.file.read_text())["endpoint"] != found["endpoint"])
    again = third.announced()
    assert again["token"] == found["token"]
    assert found["token"] not in third.stop()
    assert third.process.returncode == 0
    assert not third.file.exists()
