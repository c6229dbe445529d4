from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from gauss.cli.client import RunClient
from gauss.model.errors import Unavailable


def write(folder: Path, **content: object) -> None:
    (folder / "engine.json").write_text(json.dumps(content))


def test_nothing_running_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nothing runs with the data directory") as caught:
        RunClient(tmp_path)
    assert "gauss run FILE" in caught.value.hint


def test_file_of_a_dead_run_is_not_believed(tmp_path: Path) -> None:
    write(tmp_path, pid=2**22 + 1, endpoint="http://127.0.0.1:1", token="x")
    with pytest.raises(Unavailable, match=r"\(pid 4194305\) is gone"):
        RunClient(tmp_path)


def test_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "engine.json").write_text("{")
    with pytest.raises(Unavailable, match=r"engine\.json can't be read"):
        RunClient(tmp_path)


def test_endpoint_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]  # keep the port bound, so that no other process listens on it
        write(tmp_path, pid=os.getpid(), endpoint=f"http://127.0.0.1:{port}", token="x")
        with pytest.raises(Unavailable, match=f"does not answer at http://127.0.0.1:{port}"):
            RunClient(tmp_path).get("health")


@pytest.mark.parametrize(("rest", "whole"), [(b"0\r\n\r\n", True), (b"", False), (b"7\r\n{}", False)])
def test_a_stream_that_is_cut_off_is_not_a_short_one(tmp_path: Path, rest: bytes, whole: bool) -> None:
    def answer() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1 << 16)
            peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{}\n{}\n\r\n" + rest)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        write(tmp_path, pid=os.getpid(), endpoint=f"http://127.0.0.1:{port}", token="x")
        thread = threading.Thread(target=answer)
        thread.start()
        lines = RunClient(tmp_path).lines("topics", "t", "query")
        assert [next(lines), next(lines)] == [b"{}\n", b"{}\n"]
        if whole:
            assert list(lines) == []
        else:
            with pytest.raises(Unavailable, match="the connection to the run was lost"):
                list(lines)
        thread.join()
