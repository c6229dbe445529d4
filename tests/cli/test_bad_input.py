"""Every command on unusable input: one error, an exit code, no traceback."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Gauss

SOUND = """
[[topics]]
name = "a"
storage = "memory"
[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "a" }
config = { port = 0, input = { framing = "newline" } }
"""

OF_A_FILE = (
    "check FILE",
    "check FILE --offline",
    "graph FILE",
    "explain FILE",
    "schema FILE a",
    "test FILE",
    "run FILE",
    "sync FILE",
    "connectors check FILE",
    "connectors discover FILE",
    "syncs ls --file FILE",
)
FILES = (
    "missing.toml",
    "missing/pipeline.toml",
    "folder",
    "empty.toml",
    "binary.toml",
    "nul.toml",
    "broken.toml",
    "loop.toml",
    "sound.toml/below.toml",
)

OF_A_RUN = (
    "top --once",
    "topics",
    "topics a",
    "topics a --backup copy",
    "readers ls",
    "readers seek a b 0",
    "readers drop a b",
    "processors ls",
    "processors retry x",
    "processors skip x",
    "processors drop-state x",
    "processors rebuild x --yes",
    "tap a --for 1s",
    "query a",
    "scan a",
    "scan a --explain",
    "send a sound.toml",
    "send a empty.toml",
    "dlq ls",
    "dlq show",
    "dlq replay --all",
    "open --print",
)
OF_A_DIRECTORY = ("verify", "repair")
DIRECTORIES = ("nowhere", "sound.toml", "folder", "stale", "deaf", "alien", "garbage", "list", "no-url", "no-key")


@pytest.fixture
def alien() -> Iterator[int]:
    """A port that accepts connections and answers with garbage."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(65536)
                    peer.sendall(b"\x00\xff no HTTP\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.fixture
def place(tmp_path: Path, alien: int) -> Path:
    """A folder with one file of each kind."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "sound.toml").write_text(SOUND)
    (tmp_path / "empty.toml").touch()
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "nul.toml").write_bytes(b"\x00\x01\x02")
    (tmp_path / "broken.toml").write_text("[[topics]\nname = ")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    mine = {"endpoint": "http://127.0.0.1:1", "token": "t", "pid": os.getpid()}
    for name, told in {
        "stale": {**mine, "pid": 2**30},
        "deaf": mine,
        "alien": {**mine, "endpoint": f"http://127.0.0.1:{alien}"},
        "list": [1, 2],
        "no-url": {**mine, "endpoint": "not a url"},
        "no-key": {"pid": os.getpid()},
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "engine.json").write_text(json.dumps(told))
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / "engine.json").write_bytes(b"\xff\x00{")
    return tmp_path


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("command", OF_A_FILE)
def test_a_file_that_is_no_pipeline_is_one_error(gauss: Gauss, command: str, file: str) -> None:
    done = gauss(*command.replace("FILE", file).split())
    told = done.stdout + done.stderr
    assert done.returncode == 1, told
    assert "Traceback" not in told and "unexpected" not in told
    name = "folder" if file == "folder" else file.partition("/")[0]
    assert name in told  # the message names the file
    if not command.startswith("check"):
        assert done.stderr.count("error: ") == 1


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("directory", DIRECTORIES)
@pytest.mark.parametrize("command", OF_A_RUN)
def test_no_run_is_one_error_with_exit_code_4(gauss: Gauss, command: str, directory: str) -> None:
    done = gauss(*command.split(), "--data-dir", directory)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr
    assert done.stderr.count("error: ") == 1 and done.stderr.count("hint: ") == 1
    assert done.stdout == ""


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("directory", DIRECTORIES)
@pytest.mark.parametrize("command", OF_A_DIRECTORY)
def test_no_data_directory_is_one_error(gauss: Gauss, command: str, directory: str) -> None:
    done = gauss(command, directory)
    assert done.returncode == 3, done.stdout
    assert done.stderr.count("error: ") == 1 and directory in done.stderr and "unexpected" not in done.stderr


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("directory", DIRECTORIES)
@pytest.mark.parametrize("system", ["clickhouse", "postgres"])
def test_no_embedded_server_is_one_error(gauss: Gauss, system: str, directory: str) -> None:
    done = gauss("db", "url", system, "--data-dir", directory)
    assert done.returncode == 4 and done.stderr.count("error: ") == 1 and "unexpected" not in done.stderr


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("run sound.toml --data-dir sound.toml", 3, "can't be used"),
        ("check sound.toml --data-dir sound.toml", 1, "is not a directory"),
        ("check sound.toml --data-dir loop.toml", 1, "is not a directory"),
        ("new sound.toml", 1, "already exists"),
        ("new sound.toml/below.toml", 1, "can't write sound.toml/below.toml"),
        ("graph sound.toml -o folder", 1, "can't write folder"),
        ("send 127.0.0.1:1 sound.toml", 4, "can't be reached"),
        ("send 127.0.0.1:99999 sound.toml", 1, "invalid port 99999"),
        ("send 127.0.0.1:1 folder", 1, "can't read folder"),
        ("send 127.0.0.1:1 missing", 1, "can't read missing"),
        ("run sound.toml --for never", 1, "expected a duration"),
        ("top --sort size", 1, "expected one of name, rate, behind, dead"),
        ("tap", 2, "Missing argument"),
        ("query a --limit 0", 2, "--limit"),
        ("nosuch", 2, "nosuch"),
        ("serve --store nonsense", 1, "--store"),
        ("serve --store sqlite:///folder", 1, "folder"),
        ("serve --data-dir sound.toml", 3, "sound.toml"),
        ("serve --key-file empty.toml", 1, "empty.toml"),
        ("worker --store nonsense", 1, "--store"),
        ("worker --store sqlite:///folder", 1, "folder"),
        ("worker --store sqlite:///fleet.db --lease-ttl never", 1, "--lease-ttl"),
        ("worker --store sqlite:///fleet.db --lease-ttl 5s", 1, "--lease-ttl"),
        ("worker --store sqlite:///fleet.db --data-dir sound.toml", 3, "sound.toml"),
        ("worker --store sqlite:///sound.toml", 3, "sound.toml"),
    ],
)
def test_what_can_not_be_used_is_named(gauss: Gauss, command: str, code: int, said: str) -> None:
    done = gauss(*command.split())
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert said in told and "Traceback" not in told


def test_every_command_is_tried(gauss: Gauss) -> None:
    tried = {line.split()[0] for line in (*OF_A_FILE, *OF_A_RUN, *OF_A_DIRECTORY)}
    tried |= {"new", "db", "dev", "serve", "worker"}
    listed = gauss("--help").stdout
    from gauss.cli.main import COMMANDS

    assert set(COMMANDS) <= tried | {"docs", "examples"} and all(name in listed for name in COMMANDS)
