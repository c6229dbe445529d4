"""Corrected dead letters are tried by a real run, and its tables are described and shown from their newest row."""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gauss.clients.clickhouse.connect import connect
from gauss.clients.endpoint import read_endpoint
from helpers.run import Run, free_port
from helpers.waiting import wait_until

Ask = Callable[..., Any]
Attempt = Callable[..., dict[str, Any]]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PIPELINE = """
formats = [
    { name = "quote", plugin = "json", config = { fields = [
        { name = "id", type = "int64" }, { name = "bid", type = "double" },
    ] } },
    { name = "any", plugin = "json" },
    { name = "packed", plugin = "msgpack" },
]
topics = [
    { name = "raw", storage = "memory" },
    { name = "high", storage = "file" },
    { name = "packed", storage = "memory" },
    { name = "sums", storage = "memory" },
    { name = "live", storage = "memory", storage_config = { mode = "table", format = "quote", key_field = "id" } },
    { name = "stored", storage = "clickhouse", storage_config = { format = "quote" } },
    { name = "blobs", storage = "clickhouse" },
    { name = "counted", storage = "memory" },
    { name = "seen", storage = "memory" },
    { name = "bursts", storage = "clickhouse", storage_config = { format = "quote" } },
]
spark = { master = "local[2]" }

[[processors]]
name = "filter"
plugin = "filter"
source = { topic = "raw", read = "offset" }
target = { topic = "high" }
config = { input = { format = "quote" }, where = ".bid > 100" }

[[processors]]
name = "pick"
plugin = "expression"
source = { topic = "raw", read = "offset" }
target = { topic = "sums" }
config = { input = { format = "any" }, program = "{id, bid}" }

[[processors]]
name = "unpack"
plugin = "filter"
source = { topic = "packed", read = "offset" }
target = { topic = "seen" }
config = { input = { format = "packed" }, where = ".bid != 5" }

[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "raw", read = "offset" }
target = { topic = "live" }

[[processors]]
name = "count"
plugin = "sql"
source = { topic = "raw", read = "offset" }
target = { topic = "counted" }
config = { input = { format = "any" }, query = "SELECT id FROM input" }

[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "raw", read = "offset" }
config = { port = PORT, output = { framing = "newline", delimiter = "\\n" } }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    started = Run(tmp_path_factory.mktemp("trial"), PIPELINE.replace("PORT", str(free_port()))).start(seconds=60)
    yield started
    started.end()


@pytest.fixture
def attempt(ask: Ask) -> Attempt:
    def one(processor: str, data: str | bytes, *, status: int = 200) -> dict[str, Any]:
        given = data if isinstance(data, str) else {"base64": base64.b64encode(data).decode()}
        body = json.dumps({"processor": processor, "data": given}).encode()
        reply = ask("POST", "/api/dlq/try", body, **{"Content-Type": "application/json"})
        assert reply.status == status, reply.body
        found: dict[str, Any] = reply.json()
        return found

    return one


@pytest.mark.parametrize(
    ("processor", "data", "format_name", "results"),
    [
        ("filter", '{"id": 1, "bid": 101}', "quote", [{"topic": "high", "data": '{"id": 1, "bid": 101}'}]),
        ("filter", '{"id": 1, "bid": 99}', "quote", []),
        ("pick", '{"id": 1, "bid": 2}', "any", [{"topic": "sums", "data": '{"id":1,"bid":2}'}]),
        ("pick", '{"id": 123456789012345678901234567890, "bid": {"a": null}}', "any", None),
    ],
)
def test_step_of_a_standing_task_gives_the_records_that_it_would_write(
    attempt: Attempt, *, processor: str, data: str, format_name: str, results: list[dict[str, Any]] | None
) -> None:
    found = attempt(processor, data)
    assert found["passes"] and found["tried"] == ["decode", "transform", "encode"] and not found["not_tried"]
    assert found["format"] == format_name and found["row"]["id"] == json.loads(data)["id"]
    assert results is None or found["results"] == results


@pytest.mark.parametrize(
    ("processor", "data", "reason"),
    [
        ("filter", '{"id": 1, "bid": "x"}', "wrong_type"),
        ("filter", "nonsense", "bad_json"),
        ("filter", b"\xff", "bad_utf8"),
        ("pick", "", "bad_json"),
        ("count", "nonsense", "bad_json"),
        ("_table.stored", '{"id": 1, "bid": "x"}', "wrong_type"),
        ("_table.stored", "nonsense", "bad_json"),
    ],
)
def test_record_that_is_refused_again_has_its_stage_and_reason(
    attempt: Attempt, processor: str, data: str | bytes, reason: str
) -> None:
    found = attempt(processor, data)
    assert not found["passes"] and found["row"] is None and found["results"] == []
    assert (found["stage"], found["reason"]) == ("decode", reason) and found["detail"]


def test_number_that_json_lacks_is_shown_as_null(attempt: Attempt) -> None:
    found = attempt("unpack", b"\x81\xa3bid\xcb" + struct.pack(">d", float("nan")))
    assert found["passes"] and found["row"] == {"bid": None}


def test_record_of_a_query_is_decoded_and_no_more(attempt: Attempt) -> None:
    found = attempt("count", '{"id": 1}')
    assert found["passes"] and found["tried"] == ["decode"] and found["row"] == {"id": 1}
    assert found["not_tried"] == "its Spark query, which sees many records at once"


@pytest.mark.parametrize("processor", ["copy", "out"])
def test_processor_that_decodes_nothing_says_what_to_do_instead(attempt: Attempt, processor: str) -> None:
    error = attempt(processor, "x", status=422)["error"]
    assert "decodes no records" in error["message"] and "POST /api/topics/NAME/records" in error["hint"]


def test_record_becomes_a_row_that_is_not_inserted(run: Run, attempt: Attempt) -> None:
    found = attempt("_table.stored", '{"id": 1, "bid": 101}')
    assert (
        found["passes"] and found["tried"] == ["decode", "map", "convert"] and "the insert itself" in found["not_tried"]
    )
    assert found["row"] == {"ts_ms": found["row"]["ts_ms"], "id": 1, "bid": 101.0}
    assert attempt("_table.blobs", "text")["row"]["payload"] == "text"
    assert attempt("_table.blobs", b"\xff")["row"]["payload"] == {"base64": "/w=="}
    assert rows(run, "SELECT count() FROM stored") == [(0,)]
    assert attempt("_table.live", "x", status=404)["error"]["code"] == "not_found"


def test_tries_at_once_do_not_mix(attempt: Attempt) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: attempt("pick", json.dumps({"id": n, "bid": n})), range(40)))
    assert [each["results"][0]["data"] for each in found] == [f'{{"id":{n},"bid":{n}}}' for n in range(40)]


def test_viewer_tries_and_looks_but_does_not_replay(run: Run, ask: Ask) -> None:
    token = (run.data_dir / "read.token").read_text().strip()
    body = json.dumps({"processor": "filter", "data": "x"}).encode()
    json_type = {"Content-Type": "application/json"}
    assert ask("POST", "/api/dlq/try", body, token=token, **json_type).status == 200
    assert ask("GET", "/api/topics/stored/table", token=token).status == 200
    assert ask("POST", "/api/dlq/replay", b"{}", token=token, **json_type).status == 403


def test_stored_table_has_columns_ddl_and_the_comparison_with_the_live_one(ask: Ask) -> None:
    found = ask("GET", "/api/topics/stored/table").json()
    assert found["system"] == "clickhouse" and found["time"] == "ts_ms" and found["evolve"] == "evolve"
    assert [each["field"] for each in found["columns"]] == ["ts_ms", "id", "bid", "", ""]
    assert found["statement"].startswith("CREATE TABLE") and found["evolution"]
    assert (found["differences"], found["verdict"]) == ([], "the live table matches")


def test_table_in_memory_has_its_key_and_a_log_is_none(ask: Ask) -> None:
    found = ask("GET", "/api/topics/live/table").json()
    assert (found["system"], found["key"], found["differences"]) == ("memory", ["id"], None)
    refused = ask("GET", "/api/topics/raw/table")
    assert refused.status == 422 and "keeps records in order" in refused.json()["error"]["message"]
    assert ask("GET", "/api/topics/none/table").status == 404


def test_table_in_memory_shows_its_newest_rows_and_what_changed_after_them(ask: Ask) -> None:
    assert ask("GET", "/api/topics/live/latest").json()["records"] == []
    put(ask, "live", *({"id": n, "bid": n} for n in (3, 1, 2)))
    found = ask("GET", "/api/topics/live/latest?count=2&decoded=true").json()
    assert [each["data"]["id"] for each in found["records"]] == [1, 2] and found["seen"] == 3
    assert ask("GET", f"/api/topics/live/latest?after={found['end']}").json()["records"] == []
    put(ask, "live", {"id": 3, "bid": 9})
    changed = ask("GET", f"/api/topics/live/latest?after={found['end']}&decoded=true").json()
    assert [each["data"] for each in changed["records"]] == [{"id": 3, "bid": 9}] and changed["seen"] == 1
    where = ask("GET", "/api/topics/live/latest?where=.bid%20%3D%3D%202&decoded=true").json()["records"]
    assert [each["data"]["id"] for each in where] == [2]


def test_tables_have_no_oldest_record(ask: Ask) -> None:
    for name in ("live", "stored"):
        found = ask("GET", f"/api/topics/{name}/latest?count=1&oldest=true")
        assert found.status == 200 and found.json()["oldest_ms"] is None, found.body


def test_newest_rows_are_those_behind_a_burst_in_one_millisecond(run: Run, ask: Ask) -> None:
    now = int(time.time() * 1000)
    rows(run, f"INSERT INTO bursts (ts_ms, id) SELECT {now}, number FROM numbers(6000)")
    rows(run, f"INSERT INTO bursts (ts_ms, id) SELECT {now} + 1, 10000 + number FROM numbers(3)")
    newest = [each["data"]["id"] for each in latest(ask, "bursts", "count=3")]
    assert sorted(newest) == [10_000, 10_001, 10_002]
    more = [each["data"]["id"] for each in latest(ask, "bursts", "count=10")]
    assert len(more) == 10 and sorted(more[-3:]) == [10_000, 10_001, 10_002]
    assert [each["data"]["id"] for each in latest(ask, "bursts", "where=.id%20%3D%3D%2010001")] == [10_001]


def test_rows_of_records_are_shown_once_they_are_inserted(ask: Ask) -> None:
    assert ask("POST", "/api/topics/blobs/records", b"one\n\xff\n").status == 201
    found = wait_until(lambda: len(shown := latest(ask, "blobs", "count=5")) == 2 and shown, 30, "two rows")
    assert [each["data"]["payload"] for each in found] == ["one", {"base64": "/w=="}]


def put(ask: Ask, topic: str, *records: dict[str, Any]) -> None:
    body = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    assert ask("POST", f"/api/topics/{topic}/records", body).status == 201


def rows(run: Run, statement: str) -> list[Any]:
    """Runs a statement in the embedded ClickHouse."""
    endpoint = read_endpoint(run.data_dir / "clickhouse")
    assert endpoint is not None
    with connect(endpoint) as client:
        return list(client.query(statement).result_rows)


def latest(ask: Ask, topic: str, query: str) -> list[dict[str, Any]]:
    reply = ask("GET", f"/api/topics/{topic}/latest?{query}")
    assert reply.status == 200, reply.body
    found: list[dict[str, Any]] = reply.json()["records"]
    return found
