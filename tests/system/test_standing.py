"""Standing tasks in whole runs: chains that hang, die or raise beside others, and kills of every process at any
moment."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from helpers.feeds import Counter, send
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import suspend, wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(900)]

HEAD = """
[spark]
master = "local[2]"
stall_after = "10s"

[[formats]]
name = "number"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }
"""
FUNCTIONS = """
import os
import time

import pyarrow.compute as pc

from gauss.contracts.function import arrow_function


@arrow_function()
def slow(batch, seconds=0.1):
    time.sleep(seconds)
    return batch


@arrow_function()
def wild(batch, hangs_at=-1, exits_at=-1, raises_at=-1):
    numbers = set(batch.column("n").to_pylist())
    if hangs_at in numbers:
        while True:
            time.sleep(0.1)
    if exits_at in numbers:
        os._exit(3)
    if raises_at in numbers:
        raise ValueError(f"{raises_at} is not to my taste")
    return batch
"""


def topic(name: str, storage: str = "memory") -> str:
    return f'\n[[topics]]\nname = "{name}"\nstorage = "{storage}"\n'


def feed(port: int, target: str = "in") -> str:
    return f"""
[[processors]]
name = "feed.{target}"
plugin = "tcp-source"
target = {{ topic = "{target}" }}
config = {{ port = {port}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}
"""


def processor(name: str, plugin: str, source: str, config: str) -> str:
    return f"""
[[processors]]
name = "{name}"
plugin = "{plugin}"
source = {{ topic = "{source}", read = "offset" }}
target = {{ topic = "{name}" }}
config = {{ input = {{ format = "number" }}, {config} }}
"""


def rows(run: Run) -> dict[str, dict[str, Any]]:
    found = json.loads(run.cli("processors", "ls", "--json").stdout)["processors"]
    return {row["name"]: row for row in found}


def numbers(run: Run, name: str) -> list[int]:
    lines = run.cli("query", name, "--json").stdout.splitlines()
    return [json.loads(json.loads(line)["data"])["n"] for line in lines]


def lines(first: int, last: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in range(first, last))


def test_one_of_many_that_hangs_exits_or_raises_holds_up_nobody_and_comes_back(gauss: Make) -> None:
    port = free_port()
    good = [f"f{number}" for number in range(12)]
    wild = {"hangs": "hangs_at = 50", "exits": "exits_at = 50", "raises": "raises_at = 50"}
    text = HEAD + topic("in") + feed(port) + "".join(topic(name) for name in (*good, *wild))
    text += "".join(processor(name, "filter", "in", 'where = ".n >= 0"') for name in good)
    text += "".join(
        processor(name, "functions:wild", "in", f"options = {{ {option} }}") for name, option in wild.items()
    )
    run = gauss(text)
    (run.folder / "functions.py").write_text(FUNCTIONS)
    run.start()
    send(port, lines(0, 50))
    wait_until(lambda: all(run.topic(name)["end"] == 50 for name in (*good, *wild)), 120, "all have the first fifty")
    assert "in the task of f0" in rows(run)["f11"]["detail"]
    send(port, lines(50, 100))
    wait_until(lambda: all(run.topic(name)["end"] == 100 for name in good), 120, "the others go on")
    send(port, lines(100, 110))
    wait_until(lambda: all(run.topic(name)["end"] == 110 for name in good), 60, "and on")
    wait_until(lambda: all(rows(run)[name]["state"] == "failed" for name in wild), 240, "the wild ones are failed")
    assert all(row["state"] == "running" for name, row in rows(run).items() if name in good)
    told = rows(run)
    assert "not to my taste" in told["raises"]["detail"]
    assert "no epoch has passed for 10 s" in told["hangs"]["detail"]
    # Records that make them fail become dead letters, in ever smaller epochs; then the chains share a task with the
    # others again.
    for name in ("raises", "exits"):
        run.cli("processors", "skip", name)
    wait_until(lambda: run.topic("raises")["end"] == run.topic("exits")["end"] == 109, 240, "all but one passes")
    letters = json.loads(run.cli("dlq", "show", "--json").stdout)["letters"]
    assert sorted((each["processor"], each["offset"]) for each in letters) == [("exits", 50), ("raises", 50)]
    wait_until(lambda: "in the task of f0" in rows(run)["raises"]["detail"], 120, "it shares the task again")
    send(port, lines(110, 120))
    wait_until(lambda: all(run.topic(name)["end"] == 120 for name in good), 60, "all of them")
    wait_until(lambda: run.topic("raises")["end"] == 119, 60, "in the task with the others")
    for name in good:
        assert numbers(run, name) == list(range(120))
    assert numbers(run, "raises") == [n for n in range(120) if n != 50]


def test_kills_and_stops_of_workers_driver_and_engine_lose_and_double_nothing(gauss: Make) -> None:
    port = free_port()
    names = ["even", "third", "chained"]
    text = HEAD + topic("in", "file") + feed(port) + "".join(topic(name, "file") for name in names)
    text += processor("even", "filter", "in", 'where = ".n % 2 == 0"')
    text += processor("third", "filter", "in", 'where = ".n % 3 == 0"')
    text += processor("chained", "expression", "even", 'program = "{n}"')
    run = gauss(text).start()
    feeder = Counter(port, per_second=2_000)
    random_ = random.Random(7)
    wait_until(lambda: run.topic("chained")["end"] > 100, 120, "records pass")
    for turn in range(12):
        time.sleep(random_.uniform(0.2, 1.0))
        what = ["worker", "worker", "stopped worker", "driver", "engine", "worker"][turn % 6]
        if what == "engine":
            run.kill("gauss.stream.engine")
        elif what == "driver":
            run.kill(DRIVER)
        elif what == "worker":
            run.kill_worker(random_.choice)
        else:
            with contextlib.suppress(psutil.NoSuchProcess):
                stopped = random_.choice(run.workers())
                suspend(stopped)
                time.sleep(1.5)
                stopped.resume()
    sent = feeder.finish()
    wait_until(lambda: run.topic("in")["end"] >= sent, 120, "all that was acknowledged is there")
    total = int(run.topic("in")["end"])
    wait_until(lambda: run.topic("even")["end"] >= (total + 1) // 2, 180, "every even one")
    wait_until(lambda: run.topic("third")["end"] >= (total + 2) // 3, 180, "every third one")
    wait_until(lambda: run.topic("chained")["end"] >= (total + 1) // 2, 180, "through the chain")
    everything = numbers(run, "in")
    assert numbers(run, "even") == [n for n in everything if n % 2 == 0]
    assert numbers(run, "third") == [n for n in everything if n % 3 == 0]
    assert numbers(run, "chained") == [n for n in everything if n % 2 == 0]


def test_one_of_thirty_chains_that_hangs_holds_up_none_of_the_others(gauss: Make) -> None:
    ports = [free_port() for _ in range(30)]
    text = HEAD
    for number, port in enumerate(ports):
        text += topic(f"in{number}") + topic(f"out{number}") + topic(f"end{number}") + feed(port, f"in{number}")
        text += processor(f"out{number}", "functions:wild", f"in{number}", "options = { hangs_at = 5 }")
        text += processor(f"end{number}", "filter", f"out{number}", 'where = ".n >= 0"')
    run = gauss(text)
    (run.folder / "functions.py").write_text(FUNCTIONS)
    run.start()
    for port in ports:
        send(port, lines(0, 5))
    wait_until(lambda: all(run.topic(f"end{number}")["end"] == 5 for number in range(30)), 240, "all begin")
    send(ports[7], lines(5, 6))
    others = [number for number in range(30) if number != 7]
    sent = itertools.count(6)

    def is_reported() -> bool:
        """Whether the stuck chain is reported, while the others each pass one more record."""
        number = next(sent)
        for other in others:
            send(ports[other], lines(number, number + 1))
        wait_until(lambda: all(run.topic(f"end{n}")["end"] == number for n in others), 30, "the others go on")
        return "no epoch has passed for 10 s" in rows(run)["out7"]["detail"]

    wait_until(is_reported, 120, "the stuck chain is reported")
    assert next(sent) > 8, "the others passed records while it was stuck"
    assert all(rows(run)[f"end{number}"]["state"] == "running" for number in others)
    assert run.topic("end7")["end"] == 5


def test_tasks_that_lag_become_more_keep_the_order_and_become_one_again(gauss: Make) -> None:
    port = free_port()
    text = HEAD.replace('stall_after = "10s"', 'stall_after = "60s"\ntarget_batch_ms = 200')
    text += topic("in", "file") + topic("out", "file") + feed(port)
    text += processor("out", "functions:slow", "in", "options = { seconds = 0.4 }")
    run = gauss(text)
    (run.folder / "functions.py").write_text(FUNCTIONS)
    run.start()
    send(port, lines(0, 10))
    wait_until(lambda: run.topic("out")["end"] == 10, 120, "it begins")
    sent, most = 10, 1
    until = time.monotonic() + 120
    while most < 2 and time.monotonic() < until:
        send(port, lines(sent, sent + 40_000))
        sent += 40_000
        time.sleep(0.5)
        most = max(most, len(rows(run)["out"].get("tasks", [])))
    assert most == 2
    wait_until(lambda: run.topic("out")["end"] == sent, 240, "all of it")
    assert numbers(run, "out") == list(range(sent))
    wait_until(lambda: len(rows(run)["out"]["tasks"]) == 1, 120, "one is enough again")
    send(port, lines(sent, sent + 10))
    wait_until(lambda: run.topic("out")["end"] == sent + 10, 60, "and it goes on")


def test_what_a_transform_hangs_at_can_be_skipped(gauss: Make) -> None:
    port = free_port()
    text = HEAD.replace("10s", "3s") + topic("in", "file") + topic("out", "file") + feed(port)
    text += processor("out", "functions:wild", "in", "options = { hangs_at = 1 }")
    run = gauss(text)
    (run.folder / "functions.py").write_text(FUNCTIONS)
    run.start()
    send(port, lines(0, 3))
    wait_until(lambda: rows(run)["out"]["state"] == "failed", 240, "it is given up")
    run.cli("processors", "skip", "out")
    wait_until(lambda: run.topic("out")["end"] == 2, 240, "all but one passes")
    assert numbers(run, "out") == [0, 2]
    letters = json.loads(run.cli("dlq", "show", "--json").stdout)["letters"]
    assert [(each["processor"], each["offset"]) for each in letters] == [("out", 1)]
    send(port, lines(3, 5))
    wait_until(lambda: run.topic("out")["end"] == 4, 60, "and it goes on")
