from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from gauss.cli.client import Client
from gauss.model.errors import Unavailable


def write(folder: Path, **content: object) -> None:
    (folder / "engine.json").write_text(json.dumps(content))


def test_nothing_running_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nothing runs with the data directory") as caught:
        Client(tmp_path)
    assert "gauss run FILE" in caught.value.hint


def test_file_of_a_dead_run_is_not_believed(tmp_path: Path) -> None:
    write(tmp_path, pid=2**22 + 1, endpoint="http://127.0.0.1:1", token="x")
    with pytest.raises(Unavailable, match=r"\(pid 4194305\) is gone"):
        Client(tmp_path)


def test_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "engine.json").write_text("{")
    with pytest.raises(Unavailable, match=r"engine\.json can't be read"):
        Client(tmp_path)


def test_endpoint_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]  # held, so that nobody listens there meanwhile
        write(tmp_path, pid=os.getpid(), endpoint=f"http://127.0.0.1:{port}", token="x")
        with pytest.raises(Unavailable, match=f"does not answer at http://127.0.0.1:{port}"):
            Client(tmp_path).get("health")
