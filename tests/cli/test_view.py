from __future__ import annotations

import copy
from typing import Any

import pytest
from rich.console import Console

from gauss.cli.view import render, uptime

STATUS: dict[str, Any] = {
    "status": "degraded",
    "reasons": ["sink out: client 10.1.2.3 has not read for 312 s"],
    "uptime_s": 75.0,
    "url": "http://127.0.0.1:4000",
    "config": "/somewhere/pipeline.toml",
    "topics": [
        {"name": "b.raw", "storage": "memory", "kind": "log", "hidden": False, "records": 50_000, "bytes": 5 << 20,
         "fill": 0.76, "appended": 1_204_331, "dropped": 0, "overwritten": 0, "lost": 0, "blocked_s": 0,
         "blocked_by": "", "rates": {"appended": 24_012.4}},
        {"name": "a.out", "storage": "file", "kind": "log", "hidden": False, "records": 1, "bytes": 10, "fill": None,
         "appended": 1, "dropped": 2, "overwritten": 0, "lost": 0, "blocked_s": 0, "blocked_by": "", "rates": {}},
        {"name": "_dead", "storage": "file", "kind": "log", "hidden": True, "records": 3, "bytes": 10, "fill": None,
         "appended": 3, "dropped": 0, "overwritten": 0, "lost": 0, "blocked_s": 0, "blocked_by": "", "rates": {}},
    ],
    "processors": [
        {"name": "feed", "role": "source", "where": "engine", "state": "running", "records": 10, "dead": 0,
         "behind": None, "behind_ms": None, "connections": 1, "rates": {"records": 5.0},
         "address": "tcp-server 127.0.0.1:9100", "detail": "10.1.2.3:5067: reset"},
        {"name": "mid", "role": "transform", "where": "spark", "state": "failed", "detail": "no such column: bidd",
         "records": 10, "dead": 3, "behind": 120, "behind_ms": 1500, "batch_rows": 99, "batch_ms": 40, "rates": {}},
    ],
}  # fmt: skip


def drawn(width: int = 140, status: dict[str, Any] = STATUS, **options: Any) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(render(copy.deepcopy(status), **options))
    return console.export_text()


def test_header_names_state_url_uptime_and_interval() -> None:
    head = drawn(interval="2s").splitlines()[0]
    assert all(
        part in head for part in ("degraded", "pipeline.toml", "http://127.0.0.1:4000", "up 1 min 15 s", "every 2s")
    )


def test_cells_give_total_and_rate() -> None:
    assert "1,204,331 (24,012/s)" in drawn()


def test_reason_lag_last_batch_and_dead_letters_are_shown() -> None:
    text = drawn()
    for part in ("has not read for 312 s", "120 (1.5 s)", "99 in 40 ms", "no such column: bidd", "3 dead letters"):
        assert part in text


def test_listener_shows_its_address_its_connections_and_what_went_wrong_last() -> None:
    assert "tcp-server 127.0.0.1:9100 · 1 connection · 10.1.2.3:5067: reset" in drawn()


def test_hidden_topics_are_left_out() -> None:
    assert "_dead" not in drawn()


def test_sort_marks_its_column_and_orders_rows() -> None:
    text = drawn(sort="name")
    assert "topic ▼" in text
    assert text.index("a.out") < text.index("b.raw")


def test_filter_keeps_matching_names() -> None:
    text = drawn(pattern="b.*")
    assert "b.raw" in text and "a.out" not in text and "feed" not in text


def test_uptime_for_people() -> None:
    assert [uptime(s) for s in (5.2, 61, 3661)] == ["5 s", "1 min 1 s", "1 h 1 min"]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_names_states_and_totals_are_whole_at_every_usual_width(width: int) -> None:
    status = copy.deepcopy(STATUS)
    status["topics"][0]["name"] = "orders.enriched"
    status["processors"][0]["name"] = "market-feed-europe"
    text = drawn(width, status)
    wanted = ("orders.enriched", "market-feed-europe", "running", "failed", "1,204,331 (24,012/s)", "120 (1.5 s)")
    assert [part for part in wanted if part not in text] == []
    assert "tcp-server 127.0.0.1:9100" in text and "no such column: bidd" in text
    assert max(map(len, text.splitlines())) <= width


def test_control_characters_of_an_error_are_shown_as_escapes_and_brackets_as_they_are() -> None:
    status = copy.deepcopy(STATUS)
    status["reasons"] = ["bad record \x1b]0;owned\x07"]
    status["processors"][1]["detail"] = "[red]\x9b2J\u202e[/red]"
    text = drawn(140, status)
    assert r"bad record \x1b]0;owned\x07" in text and r"[red]\x9b2J\u202e[/red]" in text


def test_the_counts_of_a_table_are_said_to_be_those_of_its_inbox() -> None:
    status = copy.deepcopy(STATUS)
    status["topics"][0] |= {"storage": "clickhouse", "kind": "stored_table"}
    status["topics"][1]["storage"] = "own.module:STORAGE"
    text = drawn(140, status)
    assert "clickhouse inbox" in text and "own.module:STORAGE" in text and "file inbox" not in text


def test_syncs_show_their_state_their_last_run_and_the_next() -> None:
    last = {"status": "succeeded", "rows": 1_200, "seconds": 2.5}
    syncs = [
        {"name": "people", "state": "running", "rows": 3_400, "last": last, "next_ms": 1, "detail": ""},
        {"name": "orders", "state": "failed", "rows": 0, "last": None, "next_ms": None, "detail": "no such table"},
    ]
    text = drawn(status={**STATUS, "syncs": syncs})
    for part in ("people", "3,400", "succeeded, 1,200 rows in 2.5 s", "in 0 s", "orders", "no such table"):
        assert part in text
    assert "orders" not in drawn(status={**STATUS, "syncs": syncs}, pattern="p*") and "next" not in drawn()
