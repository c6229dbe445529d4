"""The API over HTTPS: local commands and remote clients succeed, plain HTTP fails."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect as ws_connect

from helpers.certificates import Authority
from helpers.run import Run
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

PIPELINE = """
[[topics]]
name = "quotes"
storage = "memory"

[api]
host = "0.0.0.0"
tls = { cert = "server.pem", key = "server.key" }
"""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue("server")
    return made


@pytest.fixture
def run(tmp_path: Path, authority: Authority) -> Iterator[Run]:  # noqa: ARG001
    started = Run(tmp_path, PIPELINE).start(ready=False)
    wait_until((started.data_dir / "engine.json").exists, what="the run is announced")
    yield started
    started.end()


def test_commands_and_strangers_speak_https(run: Run, authority: Authority) -> None:
    found = json.loads((run.data_dir / "engine.json").read_text())
    assert found["endpoint"].startswith("https://0.0.0.0:")
    wait_until(lambda: "quotes" in run.cli("topics", check=False).stdout, what="a command is answered")
    assert "accepted" in run.cli("send", "quotes", "--json", text="a\nb\n").stdout

    context = ssl.create_default_context(cafile=str(authority.path))
    port = found["endpoint"].rpartition(":")[2]
    request = urllib.request.Request(f"https://127.0.0.1:{port}/api/topics")
    request.add_header("Authorization", f"Bearer {found['token']}")
    with urllib.request.urlopen(request, timeout=60, context=context) as reply:
        assert reply.status == 200
    url = f"wss://127.0.0.1:{port}/api/topics/quotes/tail?start=earliest&token={found['token']}"
    with ws_connect(url, ssl=context, open_timeout=60) as socket:
        assert json.loads(socket.recv(60))["data"] == "a"
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=60)


def test_key_of_another_certificate_is_one_sentence(tmp_path: Path, authority: Authority) -> None:
    _, key = authority.issue("other")
    key.rename(tmp_path / "server.key")
    run = Run(tmp_path, PIPELINE)
    done = run.cli("run", str(run.config), check=False)
    assert done.returncode == 1 and "api.tls: can't use certificate" in done.stderr
    assert not run.tree()
