"""The parent of the engines that `gauss test` uses."""

from __future__ import annotations

from pathlib import Path

import psutil

from gauss.stream.flowtest.bench import kill
from helpers.engine_process import EngineParent, prepare

CONFIG = {"topics": [{"name": "a", "storage": "memory"}]}


def test_the_pid_of_an_ended_engine_stays_its_own(tmp_path: Path) -> None:
    """The parent kills all its engines at the end: a pid that was given to another process would be killed instead."""
    parent = EngineParent()
    pid = parent.start(prepare(tmp_path, CONFIG).root)
    kill(pid)
    assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    kill(pid)  # of one that has ended, as at the end of a case whose engine broke
    parent.close()
    assert not psutil.pid_exists(pid)
