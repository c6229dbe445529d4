"""One real run without Spark, shared by all tests of the API; each test uses its own topics."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from helpers.run import Run, free_port

TOPICS = ("queried", "stopped", "tailed", "appended", "sought", "plain", "paged")


@dataclass
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


Ask = Callable[..., Reply]


def pipeline(feed: int, out: int, framed: int) -> str:
    topics = "".join(f'[[topics]]\nname = "{name}"\nstorage = "memory"\n' for name in TOPICS)
    return (
        '[[formats]]\nname = "rows"\nplugin = "json"\n'
        + topics
        + f"""
[[topics]]
name = "small"
storage = "memory"
storage_config = {{ storage_size = 10, write_full = "drop" }}

[[topics]]
name = "four"
storage = "file"
storage_config = {{ framing = "fixed_size", frame_size = 4 }}

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "plain" }}
config = {{ port = {feed}, input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "framed"
plugin = "tcp-source"
target = {{ topic = "plain" }}
config = {{
    port = {framed}, max_record_bytes = 1000,
    input = {{ framing = "length_prefixed", prefix_type = "u32be" }},
}}

[[processors]]
name = "copy"
plugin = "passthrough"
source = {{ topic = "sought", read = "offset" }}
target = {{ topic = "small" }}

[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "plain", read = "offset" }}
config = {{ port = {out}, output = {{ framing = "newline", delimiter = "\\n" }} }}
"""
    )


@pytest.fixture(scope="module")
def ports() -> tuple[int, int, int]:
    return free_port(), free_port(), free_port()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, ports: tuple[int, int, int]) -> Iterator[Run]:
    started = Run(tmp_path_factory.mktemp("api"), pipeline(*ports)).start()
    yield started
    started.end()


@pytest.fixture
def ask(run: Run) -> Ask:
    """Sends a request; returns the response instead of raising for an error status."""

    def one(method: str, path: str, body: bytes | None = None, *, token: str | None = None, **headers: str) -> Reply:
        found = json.loads((run.data_dir / "engine.json").read_text())
        request = urllib.request.Request(found["endpoint"] + path, data=body, method=method, headers=headers)
        if token != "":
            request.add_header("Authorization", f"Bearer {token or found['token']}")
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return Reply(reply.status, reply.read(), dict(reply.headers))
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.read(), dict(error.headers))

    return one
