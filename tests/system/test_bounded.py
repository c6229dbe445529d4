"""Bounded reads in a whole run: they finish at the end of their range, repeat at each interval, and deliver nothing
twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from helpers.feeds import send
from helpers.pipelines import doubler
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]

COPY = """
[[topics]]
name = "copied"
storage = "file"

[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "quotes", read = "query" }
target = { topic = "copied" }
"""


def feed_only(port: int) -> str:
    return f"""
[[topics]]
name = "quotes"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "quotes" }}
config = {{ port = {port}, input = {{ framing = "newline" }} }}
"""


def processor(run: Run, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = run.api("/api/processors")["processors"]
    return next(row for row in found if row["name"] == name)


def end(run: Run, topic: str) -> int:
    return int(run.topic(topic)["end"])


def test_query_in_the_engine_copies_what_was_there_and_is_done_for_good(gauss: Make) -> None:
    port = free_port()
    run = gauss(feed_only(port)).start()
    send(port, b"".join(b"%d\n" % n for n in range(100)))
    wait_until(lambda: end(run, "quotes") == 100)
    run.stop()
    run.config.write_text(feed_only(port) + COPY)
    run.start()
    wait_until(lambda: processor(run, "copy")["state"] == "done", what="done")
    wait_until(lambda: end(run, "copied") == 100, what="what was committed is shown")
    send(port, b"later\n")
    wait_until(lambda: end(run, "quotes") == 101)
    run.stop()
    run.start()
    wait_until(lambda: processor(run, "copy")["state"] == "done", what="done still")
    assert (end(run, "copied"), processor(run, "copy")["behind"]) == (100, 0)
    refused = run.cli("processors", "rebuild", "copy", check=False)
    assert refused.returncode != 0 and "--yes" in refused.stderr
    run.cli("processors", "rebuild", "copy", "--yes")
    # After the rebuild `to` is the current time: the later record is in the range too, and the target was emptied.
    wait_until(lambda: end(run, "copied") == 202, what="the copy, made anew")
    assert run.topic("copied")["floor"] == 101


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_query_on_spark_repeats_at_each_interval_and_survives_a_restart(gauss: Make) -> None:
    port = free_port()
    config = doubler(port).replace('read = "offset"', 'read = "query", from = "-1h", every = "2s"')
    run = gauss(config).start()
    for number in range(3):
        send(port, b"".join(b'{"n":%d}\n' % n for n in range(number * 100, number * 100 + 100)))
        wait_until(lambda number=number: end(run, "doubles") == 50 * (number + 1), 180, "the doubles of a query")  # type: ignore[misc]
        # Both in one request: two seconds later it is no longer done.
        wait_until(
            lambda: (row := processor(run, "doubler"))["state"] == "done" and "the next query begins" in row["detail"],
            what="done until the next query",
        )
        run.wait_ready()
        if number == 1:
            run.kill(DRIVER)
    assert run.stop(30) == 0
    run.start()
    send(port, b'{"n":1000}\n')
    wait_until(lambda: end(run, "doubles") == 151, 180, "the double of the next run")
    assert len(run.cli("query", "doubles", "--json").stdout.splitlines()) == 151
