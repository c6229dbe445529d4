"""A driver process against a real engine: filter and sql, dead letters, restarts, lost checkpoints."""

from __future__ import annotations

import json
import shutil
import signal
from typing import Any

import pytest

from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(800)]

QUOTE_FIELDS = [
    {"name": "symbol", "type": "string"},
    {"name": "bid", "type": "double"},
    {"name": "$.x.id", "type": "int64"},
]
CONFIG: dict[str, Any] = {
    "formats": [{"name": "quote", "plugin": "json", "config": {"fields": QUOTE_FIELDS}}],
    "topics": [{"name": name, "storage": "file"} for name in ("in", "kept", "derived", "guessed")],
    "processors": [
        {
            "name": "keep",
            "plugin": "filter",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "kept"},
            "config": {"input": {"format": "json"}, "where": '.bid > 100 and .symbol == "BTC"'},
        },
        {
            "name": "derive",
            "plugin": "sql",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "derived"},
            "config": {
                "input": {"format": "quote"},
                "query": "SELECT symbol, bid * 2 AS twice, x.id AS id FROM input WHERE bid > 100",
            },
        },
        {
            "name": "guess",
            "plugin": "sql",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "guessed"},
            "config": {"input": {"format": "json"}, "query": "SELECT i.symbol, x.id + 1 AS next FROM input AS i"},
        },
    ],
}


def quotes(start: int, stop: int) -> list[bytes]:
    return [b'{"symbol":"BTC","bid":%d,"x":{"id":%d},"rest":[1]}' % (i, i) for i in range(start, stop)]


def test_records_pass_once_through_restarts_kills_and_lost_checkpoints(make_engine: Any, spawn_driver: Any) -> None:
    run = make_engine(CONFIG)
    run.send("in", [*quotes(0, 200), b"not json", b'{"symbol":"BTC","bid":"text"}'])
    driver = spawn_driver(run)

    # filter passes bytes unchanged; sql encodes its columns; without a schema the types come from the first records.
    assert run.wait_for("kept", 99) == quotes(101, 200)
    assert json.loads(run.wait_for("derived", 99)[0]) == {"symbol": "BTC", "twice": 202.0, "id": 101}
    assert json.loads(run.wait_for("guessed", 201)[0]) == {"symbol": "BTC", "next": 1}

    # A record that cannot be decoded is a dead letter of each processor that decodes it; `guess` does not read `bid`.
    letters = [json.loads(letter) for letter in run.wait_for("_dead", 5)]
    assert sorted((letter["processor"], letter["reason"]) for letter in letters) == [
        ("derive", "bad_json"),
        ("derive", "wrong_type"),
        ("guess", "bad_json"),
        ("keep", "bad_json"),
        ("keep", "wrong_type"),
    ]

    # A killed driver leaves half an epoch; the next one completes it, once.
    run.send("in", quotes(200, 300))
    spawn_driver.end(driver)
    driver = spawn_driver(run)
    assert run.wait_for("kept", 199) == quotes(101, 300)

    # After the loss of its checkpoint a query continues at the ledger's offsets, not at 0.
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(60) == 0
    shutil.rmtree(run.data_dir.checkpoints)
    run.send("in", quotes(300, 400))
    driver = spawn_driver(run)
    assert run.wait_for("kept", 299) == quotes(101, 400)
    assert len(run.wait_for("derived", 299)) == 299

    # The engine is restarted: file topics continue, and nothing is published twice.
    run.kill()
    run.start()
    run.send("in", quotes(400, 500))
    assert run.wait_for("kept", 399) == quotes(101, 500)
    assert len(run.records("_dead")) == 5
    assert driver.poll() is None
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(60) == 0


def test_a_query_that_fails_five_times_at_an_epoch_stops_and_can_skip_it(make_engine: Any, spawn_driver: Any) -> None:
    query = "SELECT IF(n = 13, raise_error('unlucky'), n) AS n FROM input"
    run = make_engine(
        {
            "formats": [{"name": "n", "plugin": "json", "config": {"fields": [{"name": "n", "type": "int64"}]}}],
            "topics": [{"name": name, "storage": "file"} for name in ("in", "out")],
            "processors": [
                {
                    "name": "p",
                    "plugin": "sql",
                    "source": {"topic": "in", "read": "offset"},
                    "target": {"topic": "out"},
                    "config": {"input": {"format": "n"}, "query": query},
                }
            ],
        }
    )
    run.send("in", [b'{"n":1}'])
    driver = spawn_driver(run)
    assert run.wait_for("out", 1) == [b'{"n":1}']
    run.send("in", [b'{"n":%d}' % n for n in range(2, 40)])

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = run.client.command("processors.ls")["processors"][0]
        return found

    def is_failed() -> bool:
        """Whether the processor has failed for good; before that a restart does not make the run healthy."""
        assert run.client.command("health")["status"] == "degraded"
        return bool(shown()["state"] == "failed")

    wait_until(lambda: shown()["failures"], 240)
    wait_until(is_failed, 240)
    assert (shown()["state"], shown()["failures"]) == ("failed", 5)
    assert "unlucky" in shown()["detail"]
    assert "gauss processors retry p" in shown()["detail"]
    assert "gauss processors skip p" in shown()["detail"]
    assert "\tat " not in shown()["detail"]

    # Only the record that fails is skipped, with the reason; other records of the batch pass in order.
    run.client.command("processors.skip", {"name": "p"})
    run.send("in", [b'{"n":999}'])
    others = [b'{"n":%d}' % n for n in (*range(2, 40), 999) if n != 13]
    assert run.wait_for("out", 1 + len(others)) == [b'{"n":1}', *others]
    letters = [json.loads(letter) for letter in run.wait_for("_dead", 1)]
    assert [(letter["reason"], letter["offset"]) for letter in letters] == [("skipped", 12)]
    assert "unlucky" in letters[0]["detail"]
    assert driver.poll() is None
    wait_until(lambda: run.client.command("health")["status"] == "ready", 240)
