"""Scans, snapshots and subscriptions over HTTP and WebSocket, against one real run."""

from __future__ import annotations

import http.client
import json
import random
import socket as sockets
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as ws_connect

from helpers.run import Run
from helpers.waiting import stays, wait_until

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from .conftest import Reply

Ask = Callable[..., "Reply"]

PIPELINE = """
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [{ name = "symbol", type = "string" }, { name = "bid", type = "double" }] }

[[formats]]
name = "any"
plugin = "json"

[[topics]]
name = "huge"
storage = "memory"
storage_config = { mode = "table", format = "any", key_field = "symbol" }
"""
TABLES = ("prices", "paged", "missed", "rooted", "gone", "followed", "conflated", "large")
LOGS = ("quotes", "polled", "ticks")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    tables = "".join(
        f'[[topics]]\nname = "{name}"\nstorage = "memory"\nstorage_config = {{ mode = "table", format = "quote",'
        ' key_field = "symbol", delete_when = ".bid == 0" }\n'
        for name in TABLES
    )
    logs = "".join(f'[[topics]]\nname = "{name}"\nstorage = "memory"\n' for name in LOGS)
    started = Run(tmp_path_factory.mktemp("scans"), PIPELINE + tables + logs).start()
    yield started
    started.end()


def put(run: Run, topic: str, *records: dict[str, Any]) -> None:
    run.api(f"/api/topics/{topic}/records", "POST", b"".join(json.dumps(each).encode() + b"\n" for each in records))


def quote_of(symbol: str, bid: float) -> dict[str, Any]:
    return {"symbol": symbol, "bid": bid}


def scan(ask: Ask, topic: str, **query: Any) -> Reply:
    return ask("GET", f"/api/topics/{topic}/scan?{urlencode(query)}")


def rows(reply: Reply) -> list[dict[str, Any]]:
    assert reply.status == 200, reply.body
    return [json.loads(line) for line in reply.body.splitlines()]


def subscribed(run: Run, path: str) -> ClientConnection:
    found = json.loads((run.data_dir / "engine.json").read_text())
    between = "&" if "?" in path else "?"
    address = found["endpoint"].replace("http", "ws") + f"/api/{path}{between}token={found['token']}"
    return ws_connect(address, open_timeout=60, max_size=None)


def test_scan_streams_the_rows_of_a_program(run: Run, ask: Ask) -> None:
    put(run, "quotes", quote_of("A", 1), quote_of("B", 200))
    reply = scan(ask, "quotes", program="select(.bid > 100) | {symbol, twice: .bid * 2}", format="quote")
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert rows(reply)[-1] == {"symbol": "B", "twice": 400.0}
    assert int(reply.headers["gauss-version"]) >= 2


def test_scan_without_a_program_gives_the_records(run: Run, ask: Ask) -> None:
    put(run, "quotes", quote_of("A", 1))
    last = rows(scan(ask, "quotes", program="point(last)"))
    assert [json.loads(row["data"]) for row in last] == [quote_of("A", 1)]
    assert len(rows(scan(ask, "quotes", limit=2))) == 2


@pytest.mark.parametrize(
    ("topic", "query", "status", "code", "message"),
    [
        ("none", {}, 404, "not_found", 'no topic "none"'),
        ("quotes", {"program": "select(.a ="}, 422, "config", "^"),
        ("quotes", {"program": "select(.a == 1)"}, 422, "config", 'no field "a"'),
        ("quotes", {"program": "{a}", "format": "nope"}, 422, "config", 'no format "nope"'),
        ("quotes", {"program": "seq(from: 999999)"}, 422, "config", "expected an offset up to"),
        ("quotes", {"program": "x" * 20_000}, 422, "config", "characters"),
        ("quotes", {"program": "(" * 500}, 422, "config", "nested deeper"),
        ("quotes", {"wait": "soon"}, 422, "config", "wait: expected a duration"),
        ("quotes", {"limit": 0}, 422, "config", "limit"),
        ("prices", {"program": "seq(from: 999999)"}, 422, "config", "expected a version up to"),
    ],
)  # fmt: skip
def test_scan_that_cannot_be_is_refused_in_the_one_shape(
    ask: Ask, *, topic: str, query: dict[str, Any], status: int, code: str, message: str
) -> None:
    reply = scan(ask, topic, **query)
    assert reply.status == status, reply.body
    assert reply.json()["error"]["code"] == code and message in reply.json()["error"]["message"]


def test_table_that_is_too_large_for_a_message_says_so(run: Run) -> None:
    for n in range(70):
        put(run, "huge", {"symbol": f"S{n}", "note": "x" * 1_000_000})
    with subscribed(run, "topics/huge/subscribe") as socket:
        error = json.loads(socket.recv(60))["error"]
    assert "bytes of a message" in error["message"] and "mode=changes" in error["hint"]


def test_token_is_asked_for(ask: Ask, run: Run) -> None:
    assert ask("GET", "/api/topics/quotes/scan", token="").status == 401
    found = json.loads((run.data_dir / "engine.json").read_text())
    for path in ("topics/prices/subscribe", "subscribe", "topics/prices/cursor"):
        with pytest.raises(InvalidStatus) as refused:
            ws_connect(found["endpoint"].replace("http", "ws") + f"/api/{path}", open_timeout=60)
        assert json.loads(refused.value.response.body or b"")["error"]["code"] == "unauthorized"


def test_long_poll_waits_for_rows_and_says_where_to_go_on(run: Run, ask: Ask) -> None:
    put(run, "polled", quote_of("A", 1), quote_of("B", 2), quote_of("C", 3))
    first = scan(ask, "polled", program='seq(from: 0, format: "json") | {symbol}', wait="10s", limit=2)
    assert [row["symbol"] for row in rows(first)] == ["A", "B"]
    position = int(first.headers["gauss-position"])
    assert position == 2
    rest = scan(ask, "polled", program=f'seq(from: {position}, format: "json") | {{symbol}}', wait="10s")
    assert [row["symbol"] for row in rows(rest)] == ["C"] and rest.headers["gauss-position"] == "3"
    began = time.monotonic()
    nothing = scan(ask, "polled", program="seq(from: 3)", wait="400ms")
    assert rows(nothing) == [] and nothing.headers["gauss-position"] == "3"
    assert time.monotonic() - began >= 0.35
    threading.Timer(0.3, put, (run, "polled", quote_of("D", 4))).start()
    assert len(rows(scan(ask, "polled", program="seq(from: 3)", wait="20s"))) == 1


def test_long_poll_of_a_table_gives_its_rows_and_then_every_change_once(run: Run, ask: Ask) -> None:
    put(run, "missed", *(quote_of(f"S{n:05}", 1) for n in range(9_000)))  # more than a step holds
    first = scan(ask, "missed", program="seq", wait="10s")
    position = int(first.headers["gauss-position"])
    assert len(rows(first)) == position == 9_000
    put(run, "missed", *(quote_of(f"T{n}", 1) for n in range(5)))
    put(run, "missed", quote_of("S00000", 0))
    seen: list[int] = []
    while len(seen) < 6:  # two at a time, so that a page ends within records that were written together
        later = scan(ask, "missed", program=f"seq(from: {position})", wait="10s", limit=2)
        seen += [row["version"] for row in rows(later)]
        position = int(later.headers["gauss-position"])
    assert seen == list(range(9_001, 9_007))
    idle = scan(ask, "missed", program=f"seq(from: {position}) | select(.bid >= 0)", wait="100ms")
    assert (rows(idle), idle.headers["gauss-position"]) == ([], str(position))
    refused = scan(ask, "missed", program="seq", wait="1s", limit=10)
    assert refused.status == 422 and "limit" in refused.json()["error"]["hint"]


def test_first_long_poll_of_a_table_gives_its_rows_though_they_take_longer_than_it_waits(run: Run, ask: Ask) -> None:
    put(run, "rooted", *(quote_of(f"S{n:05}", 1) for n in range(9_000)))
    for program in ("seq", "select(.bid > 0) | {symbol}", 'prefix("S") | {symbol}'):
        first = scan(ask, "rooted", program=program, wait="1ms")
        assert len(rows(first)) == int(first.headers["gauss-position"]) == 9_000
    nothing = scan(ask, "rooted", program="select(.bid < 0)", wait="1ms")
    assert (rows(nothing), nothing.headers["gauss-position"]) == ([], "9000")
    later = scan(ask, "rooted", program="seq(from: 9000)", wait="1ms")
    assert (rows(later), later.headers["gauss-position"]) == ([], "9000")


def test_long_poll_from_a_version_that_is_gone_says_so(run: Run, ask: Ask) -> None:
    put(run, "gone", quote_of("A", 1))
    put(run, "gone", quote_of("A", 2))
    reply = scan(ask, "gone", program="seq(from: 1)", wait="10s")
    assert reply.status == 409 and reply.json()["error"]["hint"] == "scan without a version"


def test_query_of_a_table_gives_every_row_once_page_by_page(run: Run, ask: Ask) -> None:
    put(run, "paged", *(quote_of(symbol, 1 + bid) for bid, symbol in enumerate("EBDACB")))
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = ask("GET", f"/api/topics/paged/query?limit=2&format=quote{after}").json()
        found += [record["data"]["symbol"] for record in page["records"]]
        after = None if page["next"] is None else f"&after={page['next']}"
    assert found == ["E", "D", "A", "C", "B"]  # in the order of their last change


def test_snapshot_of_a_log_is_refused_with_what_to_use(ask: Ask) -> None:
    error = ask("GET", "/api/topics/quotes/snapshot").json()["error"]
    assert error["code"] == "config" and "scan" in error["hint"]


def test_explain_tells_the_plan(ask: Ask) -> None:
    found = ask("GET", f"/api/topics/prices/scan/explain?program={quote('select(.bid > 1) | {bid}')}").json()
    assert found["format"] == {"name": "quote", "why": "the topic's own"} and found["decodes"] == {"bid": "number"}


def test_subscriber_gets_the_newest_whole_table_after_every_change(run: Run) -> None:
    put(run, "followed", quote_of("A", 1))
    with subscribed(run, "topics/followed/subscribe") as socket:
        assert json.loads(socket.recv(60)) == {"A": quote_of("A", 1.0)}
        put(run, "followed", quote_of("B", 2))
        assert json.loads(socket.recv(60)) == {"A": quote_of("A", 1.0), "B": quote_of("B", 2.0)}
        put(run, "followed", quote_of("A", 0))
        assert json.loads(socket.recv(60)) == {"B": quote_of("B", 2.0)}


def test_changes_are_the_table_and_then_every_change_with_deletes(run: Run) -> None:
    put(run, "followed", quote_of("A", 0), quote_of("X", 1), quote_of("B", 2))
    with subscribed(run, "subscribe") as socket:
        socket.send('{"subscribe": "followed", "mode": "changes"}')
        root = [json.loads(socket.recv(60)) for _ in range(2)]
        assert [(change["key"], change["row"]["bid"]) for change in root] == [("B", 2.0), ("X", 1.0)]
        put(run, "followed", quote_of("X", 5), quote_of("X", 0))
        upsert, delete = (json.loads(socket.recv(60)) for _ in range(2))
        assert (upsert["key"], upsert["row"]) == ("X", quote_of("X", 5.0))
        assert delete["key"] == "X" and delete["deleted"] is True and "row" not in delete
        assert delete["version"] == upsert["version"] + 1


def test_changes_of_a_log_are_its_records(run: Run) -> None:
    put(run, "ticks", quote_of("A", 1))
    with subscribed(run, "topics/ticks/subscribe?mode=changes") as socket:
        assert json.loads(json.loads(socket.recv(60))["data"]) == quote_of("A", 1)
        put(run, "ticks", quote_of("B", 2))
        assert json.loads(socket.recv(60))["offset"] == 1


@pytest.mark.parametrize(
    "message",
    [
        '{"subscribe": "followed", "mode": "all"}',
        '{"mode": "changes"}',
        "no json",
        "[]",
        '{"subscribe": "x"}',
        '{"subscribe": "quotes"}',
        b"\0",
        b"",
    ],
)
def test_subscription_that_cannot_be_is_told_why(run: Run, message: str | bytes) -> None:
    with subscribed(run, "subscribe") as socket:
        socket.send(message)
        assert json.loads(socket.recv(60))["error"]["code"] in ("config", "not_found")
        with pytest.raises(ConnectionClosed):
            socket.recv(60)


def test_refused_subscription_does_not_repeat_the_token(run: Run) -> None:
    with subscribed(run, "topics/prices/subscribe?mode=all") as socket:
        said = str(socket.recv(60))
    assert "mode" in said and json.loads((run.data_dir / "engine.json").read_text())["token"] not in said


def test_slow_subscriber_gets_conflated_snapshots_and_the_last_one_is_whole(run: Run) -> None:
    with subscribed(run, "topics/conflated/subscribe") as socket:
        assert json.loads(socket.recv(60)) == {}
        for number in range(300):
            put(run, "conflated", quote_of("A", number + 1))
        seen: list[float] = []
        while not seen or seen[-1] != 300:
            seen.append(json.loads(socket.recv(60))["A"]["bid"])
        assert seen == sorted(seen) and len(seen) <= 300


def test_clients_that_do_not_read_cost_bounded_memory_and_hold_nobody_up(run: Run, ask: Ask) -> None:
    found = json.loads((run.data_dir / "engine.json").read_text())
    put(run, "large", *(quote_of(f"S{n:06}", 1) for n in range(40_000)))  # some 2 MB as JSON
    for _ in range(20):
        put(run, "ticks", *({"symbol": "x" * 1000, "bid": n} for n in range(1_000)))  # 20 MB in all
    url = urlsplit(found["endpoint"])
    control = psutil.Process(found["pid"])
    before = control.memory_info().rss
    idle = []
    for path in ["/api/topics/ticks/scan", "/api/topics/ticks/tail?start=earliest", "/api/topics/large/snapshot"] * 4:
        connection = sockets.create_connection((str(url.hostname), url.port or 80))
        connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {found['token']}\r\n\r\n".encode())
        idle.append(connection)
    stays(lambda: control.memory_info().rss - before < 150 << 20, 2)
    wait_until(lambda: ask("GET", "/api/health").json()["status"] == "ready", what="ready")
    assert rows(scan(ask, "ticks", program="agg(n: count)"))[0]["n"] >= 20_000
    for connection in idle:
        connection.close()
    wait_until(lambda: not ask("GET", "/api/scans").json()["scans"], what="all their cursors are closed")


def test_websocket_that_does_not_read_is_forgotten_when_it_goes(run: Run, ask: Ask) -> None:
    found = json.loads((run.data_dir / "engine.json").read_text())
    url = urlsplit(found["endpoint"])
    put(run, "ticks", *({"symbol": "x" * 1000, "bid": n} for n in range(10_000)))
    idle = []
    for path in ("ticks/tail?start=earliest", "ticks/subscribe?mode=changes", "large/subscribe?"):
        connection = sockets.create_connection((str(url.hostname), url.port or 80))
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        head = f"GET /api/topics/{path}&token={found['token']} HTTP/1.1\r\nHost: x\r\n{upgrade}{key}\r\n"
        connection.sendall(head.encode())
        idle.append(connection)
    wait_until(lambda: len(ask("GET", "/api/scans").json()["scans"]) >= 2, what="they are up")
    for connection in idle:
        connection.close()
    wait_until(lambda: not ask("GET", "/api/scans").json()["scans"], what="all their cursors are closed")


@pytest.mark.parametrize("message", ["text", b"", b"GSP\x01\xff", b"\0" * 1000])
def test_cursor_over_websocket_that_is_sent_junk_says_why_it_closes(run: Run, message: str | bytes) -> None:
    with subscribed(run, "topics/quotes/cursor") as socket:
        socket.send(message)
        assert json.loads(socket.recv(60))["error"]["code"] == "config"


def test_scan_that_is_left_closes_its_cursor(run: Run, ask: Ask) -> None:
    put(run, "quotes", quote_of("A", 1))
    found = json.loads((run.data_dir / "engine.json").read_text())
    url = urlsplit(found["endpoint"])
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)
    headers = {"Authorization": f"Bearer {found['token']}"}
    connection.request("GET", "/api/topics/quotes/scan?live=true", headers=headers)
    response = connection.getresponse()
    response.readline()
    found_scan = wait_until(lambda: ask("GET", "/api/scans").json()["scans"], what="the scan is listed")[0]
    assert found_scan["topic"] == "quotes" and found_scan["mode"] == "live"
    response.close()
    connection.close()
    wait_until(lambda: not ask("GET", "/api/scans").json()["scans"], what="the cursor is closed")


def test_fuzzed_programs_never_fail_the_server_nor_another_scan(run: Run, ask: Ask) -> None:
    put(run, "quotes", quote_of("A", 1))
    rng = random.Random(3)
    parts = ["select(", ".bid", ")", "|", "{", "}", "seq", "range(from:1", ">", '"a', "test(", "\\", "é", "1e999"]
    parts += ["agg(", ":", ",", "if", "then", "end", "-", "not", "..", "[]", "\0"]
    for _ in range(150):
        text = "".join(rng.choice(parts) for _ in range(rng.randint(1, 12)))
        reply = scan(ask, "quotes", program=text, format="json")
        assert reply.status in (200, 422), (text, reply.body)
        blob = rng.randbytes(rng.randint(0, 80))
        assert ask("POST", "/api/topics/quotes/cursor", b"GSP\x01" + blob).status in (200, 409, 422)
    assert rows(scan(ask, "quotes", program="point(last)"))
    wait_until(lambda: not ask("GET", "/api/scans").json()["scans"], what="all their cursors are closed")
