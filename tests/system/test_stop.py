"""Stopping a run during its start, a drain or a failure."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from helpers.pipelines import doubler
from helpers.run import Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]


@pytest.mark.spark
def test_stop_while_spark_starts_waits_for_nothing_and_kills_nothing(gauss: Make) -> None:
    run = gauss(doubler(free_port())).start(ready=False)
    wait_until(lambda: run.named("org.apache.spark"), 120, "Java is started")
    assert run.stop(60) == 0
    said = run.output.read_text()
    assert "killed" not in said and "ready in" not in said
    wait_until(lambda: not run.tree(), what="nothing left behind")


@pytest.mark.spark
def test_taken_port_is_told_before_spark_is_waited_for(gauss: Make) -> None:
    feed = free_port()
    with socket.create_server(("127.0.0.1", feed)):
        run = gauss(doubler(feed))
        done = run.cli("run", str(run.config), check=False)
    assert done.returncode == 3
    first = done.stderr.partition("stopped in")[0]
    assert str(feed) in first and "in use" in first and "killed" not in done.stderr
