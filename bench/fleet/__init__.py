"""A fleet: its throughput, idle pipelines, the load of the store, failover, and answers with a thousand pipelines."""

from __future__ import annotations

import importlib

PARTS = ("store", "pages", "idle", "failover", "throughput")


def run() -> list[dict[str, object]]:
    return [row for part in PARTS for row in importlib.import_module(f"bench.fleet.{part}").run()]
