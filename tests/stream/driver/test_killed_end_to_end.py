"""Queries of a real driver that is killed while they run: a chain, and join, window-join and dedup. Every topic has the
contents of an undisturbed run."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest

from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(900)]

PARTS = 6

# --- a chain, which is one query ---

CHAINED = 60_000
NUMBERS = {"name": "numbers", "plugin": "json", "config": {"fields": [{"name": n, "type": "int64"} for n in "ab"]}}
TYPED = {"input": {"format": "numbers"}}
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("filter", {**TYPED, "where": ".a % 5 != 0"}),
    ("filter", {**TYPED, "where": ".b >= 0"}),  # rejects records that the first does not look at
    ("expression", {**TYPED, "program": "{a, c: (.a + .b)}"}),
]
CHAIN_TOPICS: list[dict[str, Any]] = [
    {"name": "t0", "storage": "file"},
    {"name": "t1", "storage": "file"},
    {"name": "t2", "storage": "memory", "storage_config": {"storage_size": "unlimited"}},
    {"name": "t3", "storage": "file"},
]


def number(n: int) -> bytes:
    return b'{"a":%d,"b":%s}' % (n, b'"bad"' if n % 1000 == 7 else b"%d" % (n % 7))


def chain_is_whole(run: Any) -> None:
    first = [n for n in range(CHAINED) if n % 5]
    second = [n for n in first if n % 1000 != 7]
    found = run.wait_for("t3", len(second), 200)
    assert run.records("t1") == [number(n) for n in first]
    assert run.records("t2") == [number(n) for n in second]
    assert found == [b'{"a":%d,"c":%d.0}' % (n, n + n % 7) for n in second]
    letters = [json.loads(letter) for letter in run.records("_dead")]
    bad = [(place, n) for place, n in enumerate(first) if n % 1000 == 7]
    assert sorted((each["processor"], each["topic"], each["offset"]) for each in letters) == sorted(
        ("step1", "t1", place) for place, _ in bad
    )

    def rows() -> dict[str, Any]:
        return {row["name"]: row for row in run.client.command("processors.ls", {})["processors"]}

    assert [rows()[f"step{place}"]["behind"] for place in range(3)] == [0, 0, 0]
    # The driver reports its queries about every second.
    wait_until(lambda: "in the task of step0" in rows()["step2"]["detail"], 60, "the chain is one query")


# --- dedup → window-join → join ---

T = 1_700_000_000_000
JOINED = 3_000
ANY = {"input": {"format": "json"}}
BY_TIME = {**ANY, "event_time_field": "t", "watermark": "1h"}
NEAR = {"join_topic": "orders", "join_key": "id", "window": "5s"}
JOIN_TOPICS: list[dict[str, Any]] = [
    *({"name": name, "storage": "memory"} for name in ("raw", "trades", "orders", "matched", "named")),
    {
        "name": "accounts",
        "storage": "memory",
        "storage_config": {"mode": "table", "format": "json", "key_field": "account"},
    },
]


def joins_are_whole(run: Any) -> None:
    run.wait_read("dedup", "window-join", "join")
    run.wait_for("named", JOINED, 200)
    found = Counter(run.records("named"))
    wanted = Counter(
        json.dumps({"id": f"o{n}", "n": n, "t": T + n, "account": n % 11}, separators=(",", ":")).encode()[:-1]
        + (b',"owner":"owner %d"}' % (n % 11) if n % 11 < 10 else b"}")
        for n in range(JOINED)
    )
    assert found == wanted


def step(name: str, plugin: str, source: str, target: str, **config: Any) -> dict[str, Any]:
    ends = {"source": {"topic": source, "read": "offset"}, "target": {"topic": target}}
    return {"name": name, "plugin": plugin, **ends, "config": config}


CONFIG: dict[str, Any] = {
    "formats": [NUMBERS],
    "topics": [*CHAIN_TOPICS, *JOIN_TOPICS],
    "processors": [
        *(step(f"step{n}", plugin, f"t{n}", f"t{n + 1}", **config) for n, (plugin, config) in enumerate(STEPS)),
        step("dedup", "dedup", "raw", "trades", **BY_TIME, key="id", within="1h"),
        step("window-join", "window-join", "trades", "matched", **BY_TIME, **NEAR),
        step("join", "join", "matched", "named", **ANY, join_topic="accounts", join_key="account", join_type="left"),
    ],
}


def test_killed_driver_changes_no_topic_of_a_chain_and_no_result_of_a_join(make_engine: Any, spawn_driver: Any) -> None:
    run = make_engine(CONFIG)
    run.send("accounts", [b'{"account":%d,"owner":"owner %d"}' % (n, n) for n in range(10)])
    driver = spawn_driver(run)
    for part in range(PARTS):
        if part == 2:
            for topic in ("t3", "named"):
                run.wait_for(topic, 1, 200)
        run.send("t0", [number(n) for n in range(part * CHAINED // PARTS, (part + 1) * CHAINED // PARTS)])
        numbers = range(part * JOINED // PARTS, (part + 1) * JOINED // PARTS)
        run.send("raw", [b'{"id":"o%d","n":%d,"t":%d}' % (n, n, T + n) for n in numbers for _ in range(2)])
        run.send("orders", [b'{"id":"o%d","account":%d,"t":%d}' % (n, n % 11, T + n) for n in numbers])
        if part == 2:  # while all queries have work
            spawn_driver.end(driver)
            driver = spawn_driver(run)
        time.sleep(0.3)
    chain_is_whole(run)
    joins_are_whole(run)
