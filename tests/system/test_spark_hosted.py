"""A hosted processor under real kills: its tasks stage at the engine by themselves, and still nothing doubles."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from helpers.feeds import Counter
from helpers.pipelines import doubler
from helpers.run import Run, free_port, wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(400)]

SQL = 'plugin = "sql"', 'query = "SELECT n, n * 2 AS d FROM input WHERE n % 2 = 0"'
HOSTED = 'plugin = "expression"', 'program = "select(.n % 2 == 0) | {n, d: .n * 2}"'


def hosted(feed: int) -> str:
    text = doubler(feed)
    for before, after in zip(SQL, HOSTED, strict=True):
        assert before in text
        text = text.replace(before, after)
    return text


def rows(run: Run, topic: str) -> list[dict[str, Any]]:
    done = run.cli("query", topic, "--json")
    return [json.loads(json.loads(line)["data"]) for line in done.stdout.splitlines()]


def end(run: Run) -> int:
    return int(run.topic("doubles")["end"])


def test_hosted_query_whose_jvm_worker_and_driver_are_killed_publishes_all_once(gauss: Make) -> None:
    feed = free_port()
    run = gauss(hosted(feed)).start()
    counter = Counter(feed, per_second=2_000)
    wait_until(lambda: end(run) > 1_000, 90, "flow")
    for victim in ("jvm", "worker", "driver"):
        match victim:
            case "jvm":
                next(p for p in run.tree() if p.name() == "java").kill()
            case "worker":
                [p for p in run.tree() if "daemon" in " ".join(p.cmdline()) and p.parent() is not None][-1].kill()
            case "driver":
                run.kill("gauss.stream.driver")
        seen = end(run)
        wait_until(lambda seen=seen: end(run) > seen, 120, f"flow after {victim} died")  # type: ignore[misc]
    total = counter.finish()
    inputs = [row["n"] for row in rows(run, "numbers")]
    assert sorted(set(inputs)) == list(range(total))
    kept = [n for n in inputs if n % 2 == 0]
    wait_until(lambda: end(run) >= len(kept), 120, "all published")
    assert rows(run, "doubles") == [{"n": n, "d": 2.0 * n} for n in kept]
    listed = json.loads(run.cli("processors", "ls", "--json").stdout)["processors"]
    assert next(entry for entry in listed if entry["name"] == "doubler")["runs"] == "hosted"
