"""`gauss serve --with-worker` as processes: the worker is killed, then the server; both come back on their own data."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from helpers.serving import Serving
from helpers.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.fault]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made = Serving(tmp_path / "data")
    yield made
    made.kill()


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
