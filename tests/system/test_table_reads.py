"""Tables read by users and by processors in a whole run: ClickHouse, Postgres and a memory table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from helpers.run import DRIVER, Run
from helpers.waiting import wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

TABLES = """
[spark]
master = "local[2]"

[[formats]]
name = "quote"
plugin = "json"
config = { fields = [
    { name = "symbol", type = "string" },
    { name = "bid", type = "double" },
    { name = "size", type = { name = "decimal", attrs = { precision = 18, scale = 8 } } },
] }

[[topics]]
name = "quotes.ch"
storage = "clickhouse"
storage_config = { format = "quote", flush_interval = "200ms" }

[[topics]]
name = "quotes.pg"
storage = "postgres"
storage_config = { format = "quote", flush_interval = "200ms", key = "symbol" }

[[topics]]
name = "quotes.mem"
storage = "memory"
storage_config = { mode = "table", format = "quote", key_field = "symbol" }
"""

READERS = """
[[topics]]
name = "dear"
storage = "file"

[[topics]]
name = "mids"
storage = "file"

[[topics]]
name = "copied"
storage = "file"

[[topics]]
name = "all.pg"
storage = "postgres"
storage_config = { format = "quote", flush_interval = "200ms" }

[[processors]]
name = "keep-dear"
plugin = "filter"
source = { topic = "quotes.ch", read = "snapshot" }
target = { topic = "dear" }
config = { input = {}, where = ".bid >= 990" }

[[processors]]
name = "mid"
plugin = "sql"
source = { topic = "quotes.pg", read = "query" }
target = { topic = "mids" }
config = { input = {}, output = { format = "json" }, query = "SELECT symbol, size * 2 AS twice FROM input" }

[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "quotes.mem", read = "snapshot", every = "2s" }
target = { topic = "copied" }

[[processors]]
name = "onward"
plugin = "passthrough"
source = { topic = "quotes.ch", read = "snapshot" }
target = { topic = "all.pg" }
"""


def lines(run: Run, *args: str) -> list[dict[str, Any]]:
    found = run.cli(*args, "--json", check=False)
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]


def records(run: Run, topic: str) -> list[dict[str, Any]]:
    return [json.loads(row["data"]) for row in lines(run, "query", topic)]


def row(run: Run, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = run.api("/api/processors")["processors"]
    return next(each for each in found if each["name"] == name)


def feed(run: Run, topic: str, start: int, stop: int) -> None:
    quotes = [{"symbol": f"s{n}", "bid": n + 0.5, "size": "0.00000001"} for n in range(start, stop)]
    run.api(f"/api/topics/{topic}/records", "POST", "\n".join(map(json.dumps, quotes)).encode())


def test_tables_are_queried_scanned_and_read_by_processors_once(gauss: Make) -> None:
    run = gauss(TABLES).start(seconds=180)
    assert run.api("/api/topics/quotes.ch/query")["records"] == []
    for topic in ("quotes.ch", "quotes.pg", "quotes.mem"):
        feed(run, topic, 0, 1_000)
    for topic in ("quotes.ch", "quotes.pg"):
        wait_until(lambda topic=topic: lines(run, "scan", topic, "agg(n: count)") == [{"n": 1_000}], 180, topic)  # type: ignore[misc]
        assert lines(run, "scan", topic, "select(.bid > 998) | {symbol, bid}") == [
            {"symbol": "s998", "bid": 998.5},
            {"symbol": "s999", "bid": 999.5},
        ]
        [first] = lines(run, "query", topic, "--limit", "1")
        assert first["data"]["symbol"] == "s0" and first["data"]["ts_ms"] == first["ts_ms"] > 0
        assert lines(run, "query", topic, "--to", "2020-01-01") == []
        plan = run.cli("scan", topic, "select(.bid > 998) | {symbol}", "--explain").stdout
        assert "SELECT" in plan and "WHERE" in plan and "size" not in plan
    pages, after = [], ""
    while True:
        page = run.api(f"/api/topics/quotes.ch/query?limit=300{after}")
        pages.append([each["data"]["symbol"] for each in page["records"]])
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert [len(page) for page in pages] == [300, 300, 300, 100]
    assert [symbol for page in pages for symbol in page] == [f"s{n}" for n in range(1_000)]
    whole = run.api("/api/topics/quotes.pg/snapshot")
    assert len(whole) == 1_000 and whole["s7"]["bid"] == 7.5
    assert len(run.api("/api/topics/quotes.ch/snapshot")) == 1_000
    refused = run.cli("tap", "quotes.ch", check=False)
    assert refused.returncode != 0 and "live" in refused.stderr
    assert run.stop() == 0

    run.config.write_text(TABLES + READERS)
    run.start(seconds=180)
    feed(run, "quotes.mem", 0, 10)
    for name in ("keep-dear", "mid", "onward"):
        wait_until(lambda name=name: row(run, name)["state"] == "done", 180, f"{name}: {row(run, name)}")  # type: ignore[misc]
    wait_until(lambda: (run.topic("dear")["end"], run.topic("mids")["end"]) == (10, 1_000), what="all shown")
    assert [each["symbol"] for each in records(run, "dear")] == [f"s{n}" for n in range(990, 1_000)]
    assert sorted(each["symbol"] for each in records(run, "mids")) == sorted(f"s{n}" for n in range(1_000))
    assert float(records(run, "mids")[0]["twice"]) == 2e-08
    wait_until(lambda: lines(run, "scan", "all.pg", "agg(n: count)") == [{"n": 1_000}], 120, "rows from table to table")
    assert lines(run, "scan", "all.pg", 'select(.symbol == "s5") | {bid}') == [{"bid": 5.5}]
    wait_until(lambda: run.topic("copied")["end"] >= 20, what="two snapshots of ten rows")
    assert run.topic("copied")["end"] % 10 == 0
    run.kill(DRIVER)
    wait_until(lambda: run.topic("copied")["end"] >= 40, 120, "snapshots after the driver was killed")
    assert run.stop() == 0
    run.start(seconds=180)
    wait_until(lambda: row(run, "keep-dear")["state"] == "done", 120, "done still")
    assert run.topic("dear")["end"] == 10
    assert lines(run, "scan", "all.pg", "agg(n: count)") == [{"n": 1_000}]


SUBSCRIBED = (
    TABLES
    + """
[[topics]]
name = "copied"
storage = "file"

[[topics]]
name = "dear"
storage = "file"

[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "quotes.mem", read = "subscribe" }
target = { topic = "copied" }

[[processors]]
name = "keep-dear"
plugin = "filter"
source = { topic = "quotes.mem", read = "subscribe" }
target = { topic = "dear" }
config = { input = { format = "quote" }, where = ".bid >= 5" }
"""
)


def test_transforms_subscribe_to_a_table_snapshot_by_snapshot(gauss: Make) -> None:
    run = gauss(SUBSCRIBED).start(seconds=180)
    feed(run, "quotes.mem", 0, 10)
    wait_until(lambda: run.topic("copied")["end"] >= 10 and run.topic("dear")["end"] >= 5, 120, "a first snapshot")
    assert row(run, "copy")["state"] == "running"
    for number in range(20):  # conflated: there are far fewer snapshots than changes
        feed(run, "quotes.mem", number % 10, number % 10 + 1)
    feed(run, "quotes.mem", 10, 11)
    wait_until(lambda: [each["symbol"] for each in records(run, "copied")[-11:]] == KEYS, 120, "the newest snapshot")
    wait_until(lambda: records(run, "dear")[-1]["symbol"] == "s9", 60, "the filtered snapshot")
    run.kill(DRIVER)
    before = run.topic("copied")["end"]
    feed(run, "quotes.mem", 0, 1)
    wait_until(lambda: run.topic("copied")["end"] > before, 120, "a snapshot after the driver was killed")
    found = [each["symbol"] for each in records(run, "copied")]
    while found:  # only complete snapshots, each once
        count = 11 if found[:11] == KEYS else 10
        assert found[:count] == sorted(found[:count]) and len(set(found[:count])) == count, found[:12]
        found = found[count:]
    assert run.stop() == 0


KEYS = sorted(f"s{n}" for n in range(11))
