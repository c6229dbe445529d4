from __future__ import annotations

import base64
import contextlib
import http.client
import json
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.sync.client import connect as ws_connect

from helpers.feeds import send
from helpers.run import Run
from helpers.waiting import suspend, wait_until

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from .conftest import Reply

Ask = Callable[..., "Reply"]


def found(run: Run) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run.data_dir / "engine.json").read_text())
    return content


def put(ask: Ask, topic: str, *records: bytes) -> None:
    assert ask("POST", f"/api/topics/{topic}/records", b"".join(record + b"\n" for record in records)).status == 201


def test_engine_json_names_pid_url_and_token_and_is_private(run: Run) -> None:
    content = found(run)
    assert run.process is not None and content["pid"] == run.process.pid
    assert content["endpoint"].startswith("http://127.0.0.1:") and content["token"]
    assert stat.S_IMODE((run.data_dir / "engine.json").stat().st_mode) == 0o600


def test_health_is_ready_with_every_process(ask: Ask) -> None:
    # An engine that is too busy to answer within two seconds would be another reason.
    health = wait_until(lambda: (said := ask("GET", "/api/health").json())["status"] == "ready" and said, what="ready")
    assert health["reasons"] == []
    assert [process["name"] for process in health["processes"]] == ["engine"]


@pytest.mark.parametrize(
    ("method", "path", "body", "token", "status", "code"),
    [
        ("GET", "/api/health", None, "", 401, "unauthorized"),
        ("GET", "/api/health", None, "wrong", 401, "unauthorized"),
        ("GET", "/metrics", None, "", 401, "unauthorized"),
        ("GET", "/api/topics/none", None, None, 404, "not_found"),
        ("GET", "/api/topics/none/tail", None, None, 404, "not_found"),
        ("GET", "/api/topics/none/query", None, None, 404, "not_found"),
        ("POST", "/api/topics/none/records", b"x\n", None, 404, "not_found"),
        ("GET", "/api/nothing", None, None, 404, "not_found"),
        ("DELETE", "/api/health", None, None, 405, "not_allowed"),
        ("POST", "/api/processors/none/retry", b"", None, 404, "not_found"),
        ("DELETE", "/api/readers/plain/none", None, None, 404, "not_found"),
        ("GET", "/api/topics/plain/query?limit=0", None, None, 422, "config"),
        ("GET", "/api/topics/plain/query?from=yesterday", None, None, 422, "config"),
        ("GET", "/api/topics/plain/query?from=-1m&to=-1h", None, None, 422, "config"),
        ("GET", "/api/dlq/letters?limit=-1", None, None, 422, "config"),
        ("GET", "/api/topics/plain/query?format=none", None, None, 404, "not_found"),
        ("GET", "/api/topics/plain/tail?start=soon", None, None, 422, "config"),
        ("POST", "/api/topics/plain/records?framing=none", b"x", None, 422, "plugin"),
        ("POST", "/api/topics/plain/records?framing=fixed_size", b"x", None, 422, "config"),
        ("POST", "/api/topics/plain/records?framing=fixed_size&frame_size=4", b"abcde", None, 422, "frame"),
    ],
)  # fmt: skip
def test_every_failure_has_the_one_error_shape(
    ask: Ask, *, method: str, path: str, body: bytes | None, token: str | None, status: int, code: str
) -> None:
    reply = ask(method, path, body, token=token)
    assert reply.status == status, reply.body
    error = reply.json()["error"]
    assert set(error) == {"code", "message", "hint", "retryable"}
    assert error["code"] == code and error["message"]


def test_token_in_the_address_is_not_taken_for_plain_requests(run: Run, ask: Ask) -> None:
    assert ask("GET", f"/api/health?token={found(run)['token']}", token="").status == 401


def test_topics_lists_all_with_counters(ask: Ask) -> None:
    topics = {topic["name"]: topic for topic in ask("GET", "/api/topics").json()["topics"]}
    assert {"queried", "tailed", "small", "_dead"} <= set(topics)
    assert topics["_dead"]["hidden"]
    assert topics["small"]["write_full"] == "drop"


def test_records_sent_are_queried_in_order_by_pages(ask: Ask) -> None:
    put(ask, "queried", *(b"%d" % n for n in range(25)))
    seen: list[dict[str, Any]] = []
    after = ""
    for _ in range(4):
        page = ask("GET", f"/api/topics/queried/query?limit=10{after}").json()
        assert "records" in page, page
        seen += page["records"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert [record["data"] for record in seen] == [str(n) for n in range(25)]
    assert [record["offset"] for record in seen] == list(range(seen[0]["offset"], seen[0]["offset"] + 25))


def newest(ask: Ask, topic: str) -> int:
    """The time of a topic's last record."""
    return int(ask("GET", f"/api/topics/{topic}/query").json()["records"][-1]["ts_ms"])


def later_than(ts_ms: int) -> int:
    """The current time, or 0 if it is not later."""
    now = int(time.time() * 1000)
    return now if now > ts_ms else 0


def test_streamed_query_after_an_offset_stops_at_its_time(ask: Ask) -> None:
    put(ask, "stopped", b"early")
    first = ask("GET", "/api/topics/stopped").json()["end"] - 1
    first_ts_ms = newest(ask, "stopped")
    end = wait_until(lambda: later_than(first_ts_ms))
    put(ask, "stopped", *(b"late" * 100 for _ in range(10_000)))  # more than a step
    path = f"/api/topics/stopped/query?after={first}&to={end}"
    lines = ask("GET", path, Accept="application/x-ndjson").body.splitlines()
    assert [json.loads(line)["data"] for line in lines] == ["early"]


def test_query_gives_ndjson_when_asked(ask: Ask) -> None:
    put(ask, "queried", b"one", b"\xff")
    reply = ask("GET", "/api/topics/queried/query", Accept="application/x-ndjson")
    assert reply.headers["content-type"] == "application/x-ndjson"
    records = [json.loads(line) for line in reply.body.splitlines()]
    assert records[-2]["data"] == "one"
    assert base64.b64decode(records[-1]["data"]["base64"]) == b"\xff"


def test_query_by_time_leaves_out_what_lies_outside(ask: Ask) -> None:
    put(ask, "queried", b"early")
    early_ts_ms = newest(ask, "queried")
    middle = wait_until(lambda: later_than(early_ts_ms))
    wait_until(lambda: later_than(middle))
    put(ask, "queried", b"late")
    late = ask("GET", f"/api/topics/queried/query?from={middle}").json()["records"]
    early = ask("GET", f"/api/topics/queried/query?from=-1m&to={middle}").json()["records"]
    assert [record["data"] for record in late] == ["late"]
    assert early[-1]["data"] == "early"


def test_query_from_before_1970_gives_all(ask: Ask) -> None:
    ask("POST", "/api/topics/queried/records", b"old\n")
    assert ask("GET", "/api/topics/queried/query?from=-99999d&limit=1").json()["records"]


def test_discard_without_a_choice_is_refused_and_with_one_says_how_many_went(ask: Ask) -> None:
    refused = ask("POST", "/api/dlq/discard", b"{}", **{"Content-Type": "application/json"})
    assert refused.status == 422
    assert "no dead letters selected" in refused.json()["error"]["message"]
    done = ask("POST", "/api/dlq/discard", b'{"all": true}', **{"Content-Type": "application/json"})
    assert (done.status, list(done.json())) == (200, ["discarded"])


@pytest.mark.parametrize(
    ("kind", "body"),
    [("application/json", b'{"numbers": [1]}'), ("application/x-www-form-urlencoded", b'{"offsets": [1]}')],
)
def test_a_replay_that_is_not_understood_is_not_a_replay_of_everything(ask: Ask, kind: str, body: bytes) -> None:
    reply = ask("POST", "/api/dlq/replay", body, **{"Content-Type": kind})
    assert reply.status == 422, reply.body
    assert ("Content-Type" in reply.json()["error"]["hint"]) == ("form" in kind)
    assert ask("POST", "/api/dlq/replay").status == 200


def test_query_decodes_with_a_format_of_the_pipeline(ask: Ask) -> None:
    put(ask, "appended", b'{"bid": 1.5}', b"{")
    good, bad = ask("GET", "/api/topics/appended/query?format=rows").json()["records"][-2:]
    assert good["data"] == {"bid": 1.5}
    assert bad["data"]["data"] == "{" and bad["data"]["error"]


def test_append_cuts_the_body_by_the_framing_asked_for(ask: Ask) -> None:
    body = b"\0\x03abc\0\0\0\x01d"
    reply = ask("POST", "/api/topics/appended/records?framing=length_prefixed&prefix_type=u16be", body)
    assert (reply.status, reply.json()) == (201, {"accepted": 3})
    last = ask("GET", "/api/topics/appended/query").json()["records"][-3:]
    assert [record["data"] for record in last] == ["abc", "", "d"]


def test_append_tells_what_the_topic_did_not_take(ask: Ask) -> None:
    assert ask("POST", "/api/topics/four/records", b"abcd\nabc\nefgh\n").json() == {"accepted": 2, "refused": 1}
    [letter] = ask("GET", "/api/dlq/letters?reason=unfit").json()["letters"]
    assert letter["detail"] == 'topic "four" keeps records in framing "fixed_size", which can\'t hold this one'


def test_streamed_query_tells_why_it_can_not_be(ask: Ask) -> None:
    reply = ask("GET", "/api/topics/queried/query?after=9999999", Accept="application/x-ndjson")
    assert reply.status == 422 and "offset" in reply.json()["error"]["message"]


def test_last_line_without_newline_is_a_record(ask: Ask) -> None:
    assert ask("POST", "/api/topics/appended/records", b"a\nb").json() == {"accepted": 2}
    assert ask("POST", "/api/topics/appended/records", b"").json() == {"accepted": 0}


def test_tail_streams_records_as_they_come_and_ends_when_the_client_leaves(run: Run, ask: Ask) -> None:
    content = found(run)
    url = urlsplit(content["endpoint"])
    put(ask, "tailed", b"before")
    headers = {"Authorization": f"Bearer {content['token']}"}
    clients = []
    for _ in range(20):
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)
        connection.request("GET", "/api/topics/tailed/tail?start=-1", headers=headers)
        clients.append((connection, connection.getresponse()))
    assert [json.loads(response.readline())["data"] for _, response in clients] == ["before"] * 20
    put(ask, "tailed", b"after")
    assert [json.loads(response.readline())["data"] for _, response in clients] == ["after"] * 20
    assert len(tails(ask)) == 20
    for connection, response in clients:
        response.close()
        connection.close()
    wait_until(lambda: not tails(ask), what="the reads end with their clients")


def test_tail_with_a_limit_ends_by_itself(ask: Ask) -> None:
    put(ask, "tailed", b"1", b"2", b"3")
    lines = ask("GET", "/api/topics/tailed/tail?start=earliest&limit=2").body.splitlines()
    assert len(lines) == 2


def tails(ask: Ask) -> list[dict[str, Any]]:
    return [scan for scan in ask("GET", "/api/scans").json()["scans"] if scan["topic"] == "tailed"]


def test_tail_over_websocket_gives_one_record_per_message(run: Run, ask: Ask) -> None:
    content = found(run)
    address = content["endpoint"].replace("http", "ws") + f"/api/topics/tailed/tail?start=end&token={content['token']}"
    wait_until(lambda: not tails(ask), what="no tail of an earlier test")
    with ws_connect(address, open_timeout=60) as socket:
        wait_until(lambda: tails(ask), what="the tail is up")
        put(ask, "tailed", b"x", b"y")
        assert [json.loads(socket.recv(60))["data"] for _ in range(2)] == ["x", "y"]


def test_idle_websocket_that_leaves_ends_its_read(run: Run, ask: Ask) -> None:
    content = found(run)
    address = content["endpoint"].replace("http", "ws") + f"/api/topics/tailed/tail?start=end&token={content['token']}"
    wait_until(lambda: not tails(ask), what="no tail of an earlier test")
    with contextlib.ExitStack() as sockets:
        for _ in range(20):
            sockets.enter_context(ws_connect(address, open_timeout=60))
        wait_until(lambda: len(tails(ask)) == 20, what="the tails are up")
    wait_until(lambda: not tails(ask), what="the tails end with their clients")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none/tail?token={}", "not_found"),
        ("plain/tail?limit=x&token={}", "config"),
    ],
)
def test_websocket_says_why_it_closes(run: Run, path: str, code: str) -> None:
    content = found(run)
    address = content["endpoint"].replace("http", "ws") + "/api/topics/" + path.format(content["token"])
    with ws_connect(address, open_timeout=60) as socket:
        assert json.loads(socket.recv(60))["error"]["code"] == code


def test_processors_are_listed_with_state(ask: Ask) -> None:
    processors = {row["name"]: row for row in ask("GET", "/api/processors").json()["processors"]}
    assert {"feed", "framed", "copy", "out"} == set(processors)
    assert processors["feed"]["role"] == "source" and processors["feed"]["state"] == "running"


def test_reader_is_listed_and_moved(ask: Ask) -> None:
    put(ask, "sought", *(b"%d" % n for n in range(5)))
    readers = ask("GET", "/api/readers?topic=sought").json()["readers"]
    assert [reader["name"] for reader in readers] == ["copy"]
    wait_until(lambda: ask("GET", "/api/readers?topic=sought").json()["readers"][0]["behind"] == 0, what="all copied")
    before = ask("GET", "/api/topics/small").json()["appended"]
    moved = ask("POST", "/api/readers/sought/copy/seek", b'{"to": "earliest"}', **{"Content-Type": "application/json"})
    assert moved.status == 200, moved.body
    wait_until(lambda: ask("GET", "/api/topics/small").json()["appended"] >= before + 5, what="copied once more")


def test_bytes_that_cannot_be_framed_are_listed_and_shown_as_dead_letters(
    ask: Ask, ports: tuple[int, int, int]
) -> None:
    send(ports[2], b"\xff\xff\xff\xff" + b"junk")

    def letters() -> Any:
        return ask("GET", "/api/dlq/letters?reason=too_long").json()["letters"]

    letter = wait_until(letters, what="a dead letter")[0]
    assert letter["processor"] == "framed" and b"junk" in base64.b64decode(letter["data"])
    groups = ask("GET", "/api/dlq?processor=framed").json()["groups"]
    assert groups[0]["count"] >= 1


def test_graph_is_given_in_every_form(ask: Ask) -> None:
    runs = {node["name"]: node["runs"] for node in ask("GET", "/api/graph").json()["processors"]}
    assert runs == {"feed": "edge", "framed": "edge", "copy": "pump", "out": "edge"}
    assert ask("GET", "/api/graph?format=svg").body.startswith(b"<svg")
    assert b"flowchart" in ask("GET", "/api/graph?format=mermaid").body


def test_metrics_can_be_scraped(ask: Ask) -> None:
    reply = ask("GET", "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(reply.body.decode())}
    assert families["gauss_up"].samples[0].value == 1
    assert families["gauss_process_up"].samples[0].labels == {"process": "engine"}
    assert any("topic" in sample.labels for family in families.values() for sample in family.samples)


def test_openapi_lists_every_path_and_the_error_shape(ask: Ask) -> None:
    document = ask("GET", "/openapi.json").json()
    for path in ("/api/health", "/api/topics/{name}/query", "/api/processors", "/api/dlq", "/metrics"):
        operation = document["paths"][path]["get"]
        shape = operation["responses"]["401"]["content"]["application/json"]["schema"]
        assert shape["properties"]["error"]["required"] == ["code", "message", "hint", "retryable"]


def test_status_holds_rates(ask: Ask) -> None:
    def rated() -> bool:
        put(ask, "plain", b"x")
        topics = {topic["name"]: topic for topic in ask("GET", "/api/status").json()["topics"]}
        return "plain" in topics and topics["plain"]["rates"]["appended"] > 0

    wait_until(rated, what="a rate above 0")


@pytest.mark.fault
def test_killed_engine_makes_health_degraded_until_it_is_back(run: Run, ask: Ask) -> None:
    seen: dict[str, list[str]] = {}
    kills = 0

    def back() -> bool:
        health = ask("GET", "/api/health").json()
        seen[health["status"]] = health["reasons"]
        assert ask("GET", "/metrics").status == 200  # a scrape does not fail while the engine is down
        return bool(health["status"] == "ready" and health["processes"][0]["restarts"] == kills)

    while "degraded" not in seen and kills < 5:  # this process may miss the second of the restart
        run.kill("gauss.stream.engine")
        kills += 1
        wait_until(back, what="ready again")
    assert "engine" in seen["degraded"][0]


@pytest.mark.fault
def test_engine_that_hangs_is_told_as_degraded_and_503(run: Run, ask: Ask) -> None:
    engine = run.part("gauss.stream.engine")
    suspend(engine)
    try:
        assert "does not answer" in ask("GET", "/api/health").json()["reasons"][0]
        reply = ask("GET", "/api/topics")
        assert reply.status == 503
        assert reply.json()["error"]["code"] == "unavailable" and reply.json()["error"]["retryable"]
    finally:
        engine.resume()
    run.wait_ready()


def test_long_body_is_cut_as_it_comes_and_a_fault_tells_what_is_in_the_topic(ask: Ask) -> None:
    reply = ask("POST", "/api/topics/appended/records?framing=fixed_size&frame_size=1000", b"x" * 300_500)
    assert reply.status == 422
    assert reply.json()["error"]["code"] == "frame"
    assert "300 records before it were appended" in reply.json()["error"]["hint"]
