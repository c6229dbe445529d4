"""Every plugin object of an engine is closed once, also after errors."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from gauss.model.errors import GaussError
from gauss.stream.engine.runtime import Engine
from helpers.closing_plugins import HERE, LOG, notes
from helpers.engine_process import prepare
from helpers.waiting import wait_until

FRAMED = {"framing": f"{HERE}:FRAMING"}


def config(port: int = 0) -> dict[str, Any]:
    noted = {"format": "noted"}
    table = {"mode": "table", "format": "noted", "key_field": "k"}
    return {
        "formats": [{"name": "noted", "plugin": f"{HERE}:FORMAT"}],
        "topics": [
            {"name": "a", "storage": f"{HERE}:STORAGE"},
            {"name": "b", "storage": f"{HERE}:STORAGE"},
            {"name": "rows", "storage": "memory", "storage_config": table},
        ],
        "processors": [
            {
                "name": "in",
                "plugin": "tcp-source",
                "target": {"topic": "a"},
                "config": {"port": 0, "input": {**FRAMED, **noted}},
            },
            {
                "name": "pass",
                "plugin": f"{HERE}:PASS",
                "source": {"topic": "a", "read": "offset"},
                "target": {"topic": "b"},
            },
            {
                "name": "out",
                "plugin": f"{HERE}:SINK",
                "source": {"topic": "b", "read": "offset"},
                "config": {"port": port, "input": noted, "output": {**FRAMED, "format": "msgpack"}},
            },
        ],
    }


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LOG, str(tmp_path / "closed.log"))
    return tmp_path / "closed.log"


def opened(folder: Path, port: int = 0) -> Engine:
    prepare(folder, config(port))
    engine = Engine(folder)
    engine.open()
    return engine


def test_formats_framings_transforms_storages_and_edges_are_closed_once(log: Path, tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.start()
    host, _, port = engine.edges["in"].status.address.rpartition(" ")[2].rpartition(":")
    with socket.create_connection((host, int(port))) as source:
        source.sendall(b'{"k":1}\n')
    wait_until(lambda: engine.topics["b"].version() == 1)
    assert all(count == 0 for counts in notes(log).values() for count in counts)
    engine.close()
    engine.close()
    found = notes(log)
    assert set(found) == {"NotedFormat", "NotedFraming", "NotedPass", "NotedSink", "NotedRing"}
    assert {count for counts in found.values() for count in counts} == {1}


def test_what_a_failed_start_has_built_is_closed_once(log: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        engine = opened(tmp_path, taken.getsockname()[1])
        with pytest.raises(GaussError):
            engine.start()
        engine.close()
    found = notes(log)
    assert "NotedSink" in found and "NotedFormat" in found
    assert {count for counts in found.values() for count in counts} == {1}


def test_scans_share_a_format_that_must_be_closed(log: Path, tmp_path: Path) -> None:
    engine = opened(tmp_path)
    formats = engine.topics["a"].source.formats
    assert formats("noted") is formats("noted")
    assert formats("json") is not formats("json")
    engine.close()
    assert {count for counts in notes(log).values() for count in counts} == {1}
