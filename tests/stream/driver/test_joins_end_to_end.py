"""join, window-join and dedup as queries of a real driver that is killed in the middle: the result is the same."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(500)]

T = 1_700_000_000_000
COUNT = 3_000
ANY = {"input": {"format": "json"}}
BY_TIME = {**ANY, "event_time_field": "t", "watermark": "1h"}
NEAR = {"join_topic": "orders", "join_key": "id", "window": "5s"}


def step(plugin: str, source: str, target: str, **config: Any) -> dict[str, Any]:
    ends = {"source": {"topic": source, "read": "offset"}, "target": {"topic": target}}
    return {"name": plugin, "plugin": plugin, **ends, "config": config}


CONFIG: dict[str, Any] = {
    "topics": [
        *({"name": name, "storage": "memory"} for name in ("raw", "trades", "orders", "matched", "named")),
        {
            "name": "accounts",
            "storage": "memory",
            "storage_config": {"mode": "table", "format": "json", "key_field": "account"},
        },
    ],
    "processors": [
        step("dedup", "raw", "trades", **BY_TIME, key="id", within="1h"),
        step("window-join", "trades", "matched", **BY_TIME, **NEAR),
        step("join", "matched", "named", **ANY, join_topic="accounts", join_key="account", join_type="left"),
    ],
}


def test_killed_driver_changes_no_result(make_engine: Any, spawn_driver: Any) -> None:
    run = make_engine(CONFIG)
    run.send("accounts", [b'{"account":%d,"owner":"owner %d"}' % (n, n) for n in range(10)])
    driver = spawn_driver(run)
    for part in range(6):
        numbers = range(part * COUNT // 6, (part + 1) * COUNT // 6)
        run.send("raw", [b'{"id":"o%d","n":%d,"t":%d}' % (n, n, T + n) for n in numbers for _ in range(2)])
        run.send("orders", [b'{"id":"o%d","account":%d,"t":%d}' % (n, n % 11, T + n) for n in numbers])
        if part == 2:
            run.wait_for("named", 1, 200)
            spawn_driver.end(driver)
            driver = spawn_driver(run)
        time.sleep(0.3)
    run.wait_for("named", COUNT, 200)
    time.sleep(1)
    found = Counter(run.records("named"))
    wanted = Counter(
        json.dumps({"id": f"o{n}", "n": n, "t": T + n, "account": n % 11}, separators=(",", ":")).encode()[:-1]
        + (b',"owner":"owner %d"}' % (n % 11) if n % 11 < 10 else b"}")
        for n in range(COUNT)
    )
    assert found == wanted
