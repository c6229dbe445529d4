"""`ready` means that records can be processed, not that some have been."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PROCESSORS: dict[str, dict[str, Any]] = {
    "ohlc": {"intervals": ["1s"], "output": {"format": "json"}},
    "aggregator": {"interval": "1s", "group_by": ["symbol"], "aggregates": {"most": "max(.bid)"}},
    "window": {"type": "tumbling", "size": "1s", "group_by": ["symbol"], "aggregates": {"most": "max(.bid)"}},
    "sql": {"query": "SELECT symbol, bid FROM input"},
}
CONFIG: dict[str, Any] = {
    "topics": [{"name": name, "storage": "memory"} for name in ("in", *PROCESSORS)],
    "processors": [
        {
            "name": name,
            "plugin": name,
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": name},
            "config": {"input": {"format": "json"}, **config},
        }
        for name, config in PROCESSORS.items()
    ],
}


def test_queries_whose_types_only_records_tell_are_ready_before_the_first_one(
    make_engine: Any, spawn_driver: Any
) -> None:
    run = make_engine(CONFIG)
    spawn_driver(run)
    wait_until(
        lambda: run.client.command("health")["status"] == "ready",
        120,
        lambda: (run.client.command("health"), run.client.command("processors.ls")),
    )
    assert all(run.processor(name)["detail"].startswith("detecting") for name in PROCESSORS)
    run.send("in", [b'{"symbol":"a","bid":1.5}'])
    for name in PROCESSORS:
        assert json.loads(run.wait_for(name, 1, 300)[0])["symbol"] == "a"
