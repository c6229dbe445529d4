"""The parent process of the engines that `gauss test` uses."""

from __future__ import annotations

from pathlib import Path

import psutil

from gauss.stream.flowtest.bench import kill
from helpers.engine_process import EngineParent, prepare

CONFIG = {"topics": [{"name": "a", "storage": "memory"}]}


def test_the_pid_of_an_ended_engine_stays_its_own(tmp_path: Path) -> None:
    """The parent kills all its engines at the end; a reused pid would be another process."""
    parent = EngineParent()
    pid = parent.start(prepare(tmp_path, CONFIG).root)
    kill(pid)
    assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    kill(pid)  # of an engine that has ended, as after a case whose engine crashed
    parent.close()
    assert not psutil.pid_exists(pid)
