"""A chain as the one query of a real driver that is killed in the middle: every topic is as if nothing had happened."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(500)]

COUNT = 60_000
NUMBERS = {"name": "numbers", "plugin": "json", "config": {"fields": [{"name": n, "type": "int64"} for n in "ab"]}}
INPUT = {"input": {"format": "numbers"}}
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("filter", {**INPUT, "where": ".a % 5 != 0"}),
    ("filter", {**INPUT, "where": ".b >= 0"}),  # finds bad what the first did not look at
    ("expression", {**INPUT, "program": "{a, c: (.a + .b)}"}),
]
CONFIG: dict[str, Any] = {
    "formats": [NUMBERS],
    "topics": [
        {"name": "t0", "storage": "file"},
        {"name": "t1", "storage": "file"},
        {"name": "t2", "storage": "memory", "storage_config": {"storage_size": "unlimited"}},
        {"name": "t3", "storage": "file"},
    ],
    "processors": [
        {
            "name": f"step{place}",
            "plugin": plugin,
            "source": {"topic": f"t{place}", "read": "offset"},
            "target": {"topic": f"t{place + 1}"},
            "config": config,
        }
        for place, (plugin, config) in enumerate(STEPS)
    ],
}


def record(n: int) -> bytes:
    return b'{"a":%d,"b":%s}' % (n, b'"bad"' if n % 1000 == 7 else b"%d" % (n % 7))


def test_killed_driver_changes_no_topic_of_a_chain(make_engine: Any, spawn_driver: Any) -> None:
    run = make_engine(CONFIG)
    driver = spawn_driver(run)
    for part in range(6):
        run.send("t0", [record(n) for n in range(part * COUNT // 6, (part + 1) * COUNT // 6)])
        if part == 2:
            run.wait_for("t3", 1, 200)
            spawn_driver.end(driver)
            driver = spawn_driver(run)
        time.sleep(0.2)
    first = [n for n in range(COUNT) if n % 5]
    second = [n for n in first if n % 1000 != 7]
    found = run.wait_for("t3", len(second), 200)
    assert run.records("t1") == [record(n) for n in first]
    assert run.records("t2") == [record(n) for n in second]
    assert found == [b'{"a":%d,"c":%d.0}' % (n, n + n % 7) for n in second]
    letters = [json.loads(letter) for letter in run.records("_dead")]
    bad = [(place, n) for place, n in enumerate(first) if n % 1000 == 7]
    assert sorted((each["processor"], each["topic"], each["offset"]) for each in letters) == sorted(
        ("step1", "t1", place) for place, _ in bad
    )
    rows = {row["name"]: row for row in run.client.command("processors.ls", {})["processors"]}
    assert [rows[f"step{place}"]["behind"] for place in range(3)] == [0, 0, 0]
    assert "in the query of step0" in rows["step2"]["detail"]
