"""Processes that are alive but hang: each is killed and restarted, and no record is lost or duplicated."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from helpers.feeds import Counter
from helpers.pipelines import doubler
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import suspend, wait_until

Make = Callable[[str], Run]
pytestmark = pytest.mark.fault


def copier(port: int) -> str:
    return f"""
[engine]
hang_after = "6s"

[[topics]]
name = "raw"
storage = "file"

[[topics]]
name = "copied"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "raw" }}
config = {{ port = {port}, ack = "count", input = {{ framing = "newline" }} }}

[[processors]]
name = "copy"
plugin = "passthrough"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "copied" }}
"""


def restarts(run: Run, child: str) -> int:
    found: list[dict[str, Any]] = run.api("/api/health")["processes"]
    return next(int(entry["restarts"]) for entry in found if entry["name"] == child)


def records(run: Run, topic: str) -> list[int]:
    lines = run.cli("query", topic, "--json").stdout.splitlines()
    return [int(json.loads(json.loads(line)["data"])["n"]) for line in lines]


def end_or_none(run: Run, topic: str) -> int | None:
    try:
        return int(run.topic(topic)["end"])
    except (OSError, ValueError, KeyError):
        return None


def test_stopped_engine_is_restarted_and_file_topics_hold_everything_once(gauss: Make) -> None:
    port = free_port()
    run = gauss(copier(port)).start()
    counter = Counter(port)
    wait_until(lambda: (end_or_none(run, "copied") or 0) > 2_000, what="flow")
    stopped = run.part("gauss.stream.engine")
    stopped.send_signal(signal.SIGSTOP)
    wait_until(lambda: restarts(run, "engine") == 1, 90, "a restart")
    assert not psutil.pid_exists(stopped.pid)
    assert "did not answer for 6 s" in (run.data_dir / "logs" / "control.log").read_text()
    run.wait_ready()
    seen = end_or_none(run, "copied") or 0
    wait_until(lambda: (end_or_none(run, "copied") or 0) > seen + 1_000, what="flow again")
    total = counter.finish()
    wait_until(lambda: end_or_none(run, "copied") == end_or_none(run, "raw"), what="all copied")
    # The sender repeats what was not acknowledged; the copy must hold what the topic holds, in order, once.
    raw = records(run, "raw")
    assert sorted(set(raw)) == list(range(total))
    assert records(run, "copied") == raw


def test_engine_that_answers_is_left_alone_when_control_was_held_up(gauss: Make) -> None:
    port = free_port()
    run = gauss(copier(port)).start()
    assert run.process is not None
    control = psutil.Process(run.process.pid)
    suspend(control)
    engine = run.part("gauss.stream.engine")
    suspend(engine)
    try:
        control.wait(9)
    except psutil.TimeoutExpired:
        pass
    engine.resume()
    control.resume()
    run.wait_ready()
    assert restarts(run, "engine") == 0


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_each_stopped_part_of_spark_brings_the_driver_down_and_up_again(gauss: Make) -> None:
    port = free_port()
    run = gauss(doubler(port).replace("[spark]", '[spark]\nstall_after = "15s"'))
    run.start()
    counter = Counter(port, per_second=1_000)
    wait_until(lambda: (end_or_none(run, "doubles") or 0) > 500, 120, "flow")
    for victim in ("worker", "jvm", "driver"):
        before = restarts(run, "driver")
        for process in parts(run, victim):
            with contextlib.suppress(psutil.NoSuchProcess):  # Spark starts and ends workers at any time
                suspend(process)
        wait_until(lambda before=before: restarts(run, "driver") > before, 180, f"a restart after {victim} stopped")  # type: ignore[misc]
        seen = end_or_none(run, "doubles") or 0
        wait_until(lambda seen=seen: (end_or_none(run, "doubles") or 0) > seen + 100, 180, "flow again")  # type: ignore[misc]
    total = counter.finish()
    wait_until(lambda: run.api("/api/processors")["processors"][1]["behind"] == 0, 120, "all read")
    raw = records(run, "numbers")
    assert sorted(set(raw)) == list(range(total))
    assert records(run, "doubles") == [n for n in raw if n % 2 == 0]


def parts(run: Run, victim: str) -> list[psutil.Process]:
    if victim == "worker":
        return run.workers()
    return [run.part({"driver": DRIVER, "jvm": "org.apache.spark.deploy"}[victim])]
