"""Requests without a token, too large, too slow or too many."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as ws_connect
from websockets.typing import Origin

from helpers.run import Run
from helpers.waiting import suspend, wait_until

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from .conftest import Reply

Ask = Callable[..., "Reply"]
MIB = 1 << 20


def address(run: Run) -> tuple[str, int]:
    url = urlsplit(json.loads((run.data_dir / "engine.json").read_text())["endpoint"])
    assert url.hostname is not None and url.port is not None
    return url.hostname, url.port


def token(run: Run, name: str = "full") -> str:
    return (run.data_dir / f"{name}.token").read_text()


def control(run: Run) -> psutil.Process:
    assert run.process is not None
    return psutil.Process(run.process.pid)


def peak_bytes(run: Run) -> int:
    """Peak memory of control."""
    text = Path(f"/proc/{control(run).pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM"))


def connect(run: Run) -> socket.socket:
    return socket.create_connection(address(run), timeout=60)


def answer(sock: socket.socket) -> tuple[int, dict[str, Any]]:
    """Status and JSON of a response, which may arrive before everything was sent."""
    response = http.client.HTTPResponse(sock)
    response.begin()
    return response.status, json.loads(response.read())


def status_of(run: Run, path: str) -> int:
    """The status only: the response may be an endless stream."""
    connection = http.client.HTTPConnection(*address(run), timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token(run)}"})
    with contextlib.closing(connection):
        return connection.getresponse().status


def send_until_refused(sock: socket.socket, pieces: Iterator[bytes]) -> int:
    """Sends until the server closes the connection; returns the number of bytes sent."""
    sent = 0
    with contextlib.suppress(ConnectionError, TimeoutError):
        for piece in pieces:
            sock.sendall(piece)
            sent += len(piece)
    return sent


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // MIB):
        yield b" " * MIB


def chunks(size: int) -> Iterator[bytes]:
    for piece in pieces(size):
        yield b"%x\r\n%b\r\n" % (len(piece), piece)


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/openapi.json", "/metrics", "/api/health", "/api/topics/plain/query", "/nothing", "/api/nothing"],
)
def test_every_path_without_a_token_is_401(ask: Ask, path: str) -> None:
    for given in ("", "wrong"):
        reply = ask("GET", path, token=given)
        assert reply.status == 401 and reply.json()["error"]["code"] == "unauthorized"
        assert "full.token" in reply.json()["error"]["hint"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_every_method_without_a_token_is_401(ask: Ask, method: str) -> None:
    assert ask(method, "/openapi.json", token="").status == 401


@pytest.mark.parametrize("head", ["Content-Length: {size}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/api/dlq/replay", "/api/topics/plain/records", "/openapi.json", "/nothing"])
def test_body_without_a_token_is_refused_before_it_is_read(run: Run, path: str, head: str) -> None:
    before, size = peak_bytes(run), 256 * MIB
    with connect(run) as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{head.format(size=size)}\r\n\r\n".encode())
        body = chunks(size) if "chunked" in head else pieces(size)
        assert send_until_refused(sock, body) < size // 2
        status, said = answer(sock)
    assert status == 401 and said["error"]["code"] == "unauthorized"
    assert peak_bytes(run) - before < 32 * MIB


@pytest.mark.parametrize("head", ["Content-Length: {size}", "Transfer-Encoding: chunked"])
def test_body_that_no_route_takes_is_413(run: Run, head: str) -> None:
    before, size = peak_bytes(run), 256 * MIB
    with connect(run) as sock:
        lines = ["POST /api/dlq/replay HTTP/1.1", "Host: x", "Content-Type: application/json"]
        lines += [f"Authorization: Bearer {token(run)}", head.format(size=size)]
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        send_until_refused(sock, chunks(size) if "chunked" in head else pieces(size))
        status, said = answer(sock)
    assert status == 413 and said["error"]["code"] == "too_large"
    assert peak_bytes(run) - before < 32 * MIB


def test_huge_header_is_431(run: Run) -> None:
    before = peak_bytes(run)
    with connect(run) as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ")
        send_until_refused(sock, (b"x" * MIB for _ in range(64)))
        status, said = answer(sock)
    assert status == 431 and set(said["error"]) == {"code", "message", "hint", "retryable"}
    assert peak_bytes(run) - before < 32 * MIB


def test_garbage_instead_of_http_is_400(run: Run) -> None:
    with connect(run) as sock:
        sock.sendall(b"\x16\x03\x01 not http at all\r\n\r\n")
        status, said = answer(sock)
    assert status == 400 and said["error"]["code"] == "config"


def test_probes_need_no_token_and_say_only_up_or_down(run: Run, ask: Ask) -> None:
    run.wait_ready()
    assert ask("GET", "/livez", token="").json() == {"status": "up"}
    reply = wait_until(lambda: (said := ask("GET", "/readyz", token="")).status == 200 and said, what="ready")
    assert reply.json() == {"status": "up"}
    assert ask("POST", "/livez", b"x", token="").status == 401


@pytest.mark.fault
def test_probe_is_503_while_the_engine_does_not_answer(run: Run, ask: Ask) -> None:
    engine = run.part("gauss.stream.engine")
    suspend(engine)
    try:
        reply = wait_until(lambda: (said := ask("GET", "/readyz", token="")).status == 503 and said, what="down")
        assert reply.json() == {"status": "down"}
        assert ask("GET", "/livez", token="").status == 200
    finally:
        engine.resume()
    run.wait_ready()


def test_two_thousand_idle_connections_hold_up_nobody(run: Run, ask: Ask) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    before, files = peak_bytes(run), control(run).num_fds()
    with contextlib.ExitStack() as stack:
        for number in range(2000):
            sock = stack.enter_context(connect(run))
            if number % 2:
                sock.sendall(b"GET /api/health HTTP/1.1\r\nHost:")
        assert ask("GET", "/api/topics").status == 200
        wait_until(lambda: control(run).num_fds() < files + 200, what="idle connections are closed")
        assert ask("GET", "/api/topics").status == 200
    assert peak_bytes(run) - before < 64 * MIB


def test_each_token_has_a_private_file_that_holds_nothing_else(run: Run) -> None:
    found = json.loads((run.data_dir / "engine.json").read_text())
    for name in ("full", "read"):
        path = run.data_dir / f"{name}.token"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(path.read_text()) >= 32 and path.read_text() == path.read_text().strip()
    assert token(run) == found["token"] != token(run, "read")


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/api/health", "/api/topics", "/api/topics/plain/query", "/api/topics/plain/scan", "/api/dlq/letters"],
)
def test_read_only_token_reads(run: Run, ask: Ask, path: str) -> None:
    assert ask("GET", path, token=token(run, "read")).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/topics/plain/records"),
        ("POST", "/api/topics/four/backup"),
        ("POST", "/api/dlq/replay"),
        ("POST", "/api/processors/copy/retry"),
        ("POST", "/api/readers/plain/x/seek"),
        ("DELETE", "/api/readers/plain/x"),
        ("PUT", "/api/nothing"),
    ],
)
def test_read_only_token_changes_nothing(run: Run, ask: Ask, method: str, path: str) -> None:
    reply = ask(method, path, b"x\n", token=token(run, "read"))
    assert reply.status == 403
    error = reply.json()["error"]
    assert error["code"] == "forbidden" and "is read-only" in error["message"]


def test_every_operation_asks_for_the_token_that_its_description_names(run: Run, ask: Ask) -> None:
    document = ask("GET", "/openapi.json").json()
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if any(code.startswith("2") for code in operation["responses"])  # the other connections are WebSockets
    ]
    assert {"read", "full"} == {operation["x-token"] for _, _, operation in operations if operation["security"]}
    for method, path, operation in operations:
        place = path.replace("{name}", "none").replace("{topic}", "none").replace("{reader}", "none")
        body = b"{}" if method == "POST" else None
        without = ask(method, place, body, token="").status
        reads = ask(method, place, body, token=token(run, "read")).status
        if not operation["security"]:
            assert without in (200, 422, 503), path
            continue
        assert without == 401, path
        assert (reads == 403) == (operation["x-token"] == "full"), path
        assert ("403" in operation["responses"]) == (operation["x-token"] == "full"), path


def test_read_only_token_tails_over_websocket(run: Run, ask: Ask) -> None:
    ask("POST", "/api/topics/tailed/records", b"x\n")
    host, port = address(run)
    url = f"ws://{host}:{port}/api/topics/tailed/tail?start=-1&token={token(run, 'read')}"
    with ws_connect(url, open_timeout=60) as client:
        assert json.loads(client.recv(60))["data"] == "x"


@pytest.mark.parametrize("path", ["topics/plain/tail", "topics/plain/subscribe", "subscribe", "topics/plain/cursor"])
@pytest.mark.parametrize("query", ["", "?token=wrong", "?token="])
def test_websocket_without_a_token_is_401_before_it_is_open(run: Run, path: str, query: str) -> None:
    host, port = address(run)
    with pytest.raises(InvalidStatus) as refused:
        ws_connect(f"ws://{host}:{port}/api/{path}{query}", open_timeout=60, origin=Origin("http://elsewhere.example"))
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "unauthorized"


def test_browser_without_a_session_is_told_how_to_get_in(run: Run, ask: Ask) -> None:
    reply = ask("GET", "/", token="", Accept="text/html")
    assert reply.status == 401 and "read.token" in reply.body.decode()
    assert "script-src 'sha256-" in reply.headers["content-security-policy"]
    assert token(run) not in reply.body.decode() and str(run.data_dir) not in reply.body.decode()


def test_index_names_the_links_and_each_answers(ask: Ask) -> None:
    index = ask("GET", "/").json()
    assert index["name"] == "gauss" and {"docs", "health", "metrics"} <= set(index["links"])
    for path in index["links"].values():
        assert ask("GET", path).status == 200


def test_reference_page_is_whole_in_itself(ask: Ask) -> None:
    reply = ask("GET", "/docs")
    text = reply.body.decode()
    assert reply.headers["content-type"].startswith("text/html")
    assert "/api/topics/{name}/query" in text and "/api/topics/{name}/subscribe" in text
    assert "http://" not in text and "https://" not in text and "<script" not in text


NUMBERS = ["9" * 5000, "9" * 30, "-1", "0", "²", "١", "1e9", "NaN", "", "1_000", " 1", "9223372036854775808"]


@pytest.mark.parametrize(
    "path",
    [
        "topics/queried/query?limit={}",
        "topics/queried/query?after={}",
        "topics/queried/query?after={}:{}",
        "topics/queried/query?from={}",
        "topics/queried/query?to=-{}d",
        "topics/queried/tail?limit={}",
        "topics/queried/tail?start=-{}",
        "topics/queried/tail?start={}",
        "topics/queried/scan?limit={}",
        "topics/queried/scan?wait={}s&limit=1",
        "dlq/letters?limit={}",
        "dlq/letters?before={}",
    ],
)
def test_number_of_any_kind_in_an_address_is_never_a_500(run: Run, ask: Ask, path: str) -> None:
    ask("POST", "/api/topics/queried/records", b"x\n")
    for number in NUMBERS:
        status = status_of(run, "/api/" + path.format(quote(number), quote(number)))
        assert status < 500, number[:40]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("topics/appended/records?framing=fixed_size&frame_size={}", b"x"),
        ("topics/appended/cursor?limit={}", b"x"),
        ("topics/appended/cursor?max_bytes={}", b"x"),
        ("readers/plain/none/seek", b'{"to": %b}'),
        ("readers/plain/none/seek", b'{"to": "%b"}'),
        ("dlq/replay", b'{"offsets": [%b]}'),
    ],
)
def test_number_of_any_kind_in_a_post_is_never_a_500(ask: Ask, path: str, body: bytes) -> None:
    for number in NUMBERS:
        given = body.replace(b"%b", number.encode())
        reply = ask("POST", "/api/" + path.format(quote(number)), given, **{"Content-Type": "application/json"})
        assert reply.status < 500, (number[:40], reply.body)


@pytest.mark.parametrize("number", NUMBERS)
def test_number_of_any_kind_for_a_websocket_is_an_error_or_a_tail(run: Run, number: str) -> None:
    host, port = address(run)
    path = f"/api/topics/none/tail?token={token(run)}&limit={quote(number)}"
    with ws_connect(f"ws://{host}:{port}{path}", open_timeout=60) as client:
        assert json.loads(client.recv(60))["error"]["code"] in ("config", "not_found")


@pytest.mark.parametrize(
    "path",
    [
        "GET /api/topics/plain/query?format=planted:SPEC",
        "GET /api/topics/plain/tail?format=planted:SPEC&limit=1",
        "GET /api/topics/plain/scan?format=planted:SPEC&program=.a",
        "GET /api/topics/plain/scan/explain?format=planted:SPEC&program=.a",
        "POST /api/topics/plain/records?framing=planted:SPEC",
        "POST /api/topics/plain/records?framing=os:path",
    ],
)
def test_request_can_not_name_a_module(run: Run, ask: Ask, path: str) -> None:
    (run.folder / "planted.py").write_text("from pathlib import Path\nPath(__file__).with_name('loaded').touch()\n")
    method, _, rest = path.partition(" ")
    reply = ask(method, rest, b"x\n" if method == "POST" else None)
    assert reply.status in (404, 422), reply.body
    assert not (run.folder / "loaded").exists()


def test_page_of_large_records_is_bounded_and_goes_on(run: Run, ask: Ask) -> None:
    for _ in range(8):
        assert (
            ask("POST", "/api/topics/paged/records", b"".join(b"x" * 1000 + b"\n" for _ in range(8000))).status == 201
        )
    before = peak_bytes(run)
    seen, after = 0, ""
    while True:
        page = ask("GET", f"/api/topics/paged/query?limit=200000{after}").json()
        seen += len(page["records"])
        assert len(page["records"]) <= 10_000
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == 64_000
    assert peak_bytes(run) - before < 150 * MIB
