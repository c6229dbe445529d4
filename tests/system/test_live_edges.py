"""A whole run with a WebSocket sink, a source that detects its encoding, a capture and a backup, tested by its
clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect as ws_connect

from helpers.feeds import connect, send
from helpers.run import Run, free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

CONFIG = """
[[topics]]
name = "lines"
storage = "file"

[[topics]]
name = "captures"
storage = "file"
storage_config = {{ framing = "none" }}

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "lines" }}
config = {{ port = {feed}, encoding = "auto", detect_timeout = "30s", input = {{ framing = "newline" }} }}

[[processors]]
name = "capture"
plugin = "tcp-source"
target = {{ topic = "captures" }}
config = {{ port = {capture}, mode = "passthrough" }}

[[processors]]
name = "live"
plugin = "ws-sink"
source = {{ topic = "lines", read = "offset" }}
config = {{ port = {live}, path = "/lines" }}
"""


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {name: free_port() for name in ("feed", "capture", "live")}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> Iterator[Run]:
    made = Run(tmp_path_factory.mktemp("edges"), CONFIG.format(**ports))
    made.start()
    yield made
    made.end()


def processor(run: Run, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = run.api("/api/processors")["processors"]
    return next(each for each in found if each["name"] == name)


def test_a_phase_is_seen_from_outside_and_ends_before_the_first_record(run: Run, ports: dict[str, int]) -> None:
    live = f"ws://127.0.0.1:{ports['live']}/lines"
    with connect(ports["feed"]) as sock, ws_connect(live, open_timeout=60) as client:
        wait_until(lambda: processor(run, "feed")["state"] == "detecting encoding")
        sock.sendall("\ufeffgrüß\nĊ\n".encode("utf-16-le"))
        got = [client.recv(60), client.recv(60)]
        assert [each if isinstance(each, bytes) else each.encode() for each in got] == [
            "grüß".encode("utf-16-le"),
            "Ċ".encode("utf-16-le"),
        ]
        assert processor(run, "feed")["state"] == "running"
        assert list(processor(run, "feed")["clients"].values()) == [{"encoding": "utf-16-le"}]


def test_captures_and_records_are_backed_up_by_one_command(run: Run, ports: dict[str, int], tmp_path: Path) -> None:
    with connect(ports["capture"]) as sock:
        sock.sendall(b"raw bytes")
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
    wait_until(lambda: list((run.data_dir / "topics" / "captures").glob("*.raw")))
    send(ports["feed"], b"one\ntwo\n")
    for topic in ("captures", "lines"):
        run.cli("topics", topic, "--backup", str(tmp_path / topic))
    (capture,) = (tmp_path / "captures").glob("*.raw")
    assert capture.read_bytes() == b"raw bytes"
    assert b"two" in next((tmp_path / "lines").glob("*.log")).read_bytes()
    refused = run.cli("topics", "lines", "--backup", str(tmp_path / "lines"), check=False)
    assert "already exists" in refused.stdout + refused.stderr
