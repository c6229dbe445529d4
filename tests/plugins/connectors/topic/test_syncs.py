"""Whole syncs from and to topics: resumed, retried and killed."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gauss.config.syncs import SyncDef
from gauss.connect.sync import Sync, SyncResult
from helpers.run import GAUSS
from helpers.sync_connectors import CONNECTORS
from helpers.waiting import wait_until

if TYPE_CHECKING:
    from .conftest import TopicEngine

CHECKPOINT = {"rows": 50}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of files to read."""
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def add_file(folder: Path, name: str, *numbers: int) -> None:
    (folder / name).write_text("".join(json.dumps({"id": n, "name": f"p{n}"}) + "\n" for n in numbers))


def run(folder: Path, **sync: Any) -> SyncResult:
    definition = SyncDef.model_validate({"name": "s", "checkpoint": CHECKPOINT, **sync})
    return Sync(definition, folder, folder / "state", lambda _: None, local=True).run()


def to_topic(engine: TopicEngine, folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "source": {"connector": "file", "path": str(folder)},
        "destination": {"connector": "topic", "data_dir": str(engine.paths.root)},
        "streams": [
            {"name": folder.name, "mode": "incremental", "cursor": "id", "write": "append", "table": "people", **more}
        ],
    }


def ids(engine: TopicEngine) -> list[int]:
    return [json.loads(each)["id"] for each in engine.records("people")]


def test_new_files_are_written_to_the_topic_once(engine: TopicEngine, files: Path, tmp_path: Path) -> None:
    add_file(files, "1.jsonl", *range(120))
    for _ in range(2):
        assert run(tmp_path, **to_topic(engine, files)).status == "succeeded"
    add_file(files, "2.jsonl", *range(120, 150))
    assert run(tmp_path, **to_topic(engine, files)).status == "succeeded"
    assert ids(engine) == list(range(150))


def test_new_records_are_written_to_files_once(engine: TopicEngine, tmp_path: Path) -> None:
    sync = {
        "source": {"connector": "topic", "data_dir": str(engine.paths.root)},
        "destination": {"connector": "file", "path": str(tmp_path / "out"), "format": "jsonl"},
        "streams": [{"name": "people", "mode": "incremental", "cursor": "id", "write": "append"}],
    }
    for numbers in (range(120), range(120, 130), range(0)):
        if numbers:
            engine.add_people(*numbers)
        result = run(tmp_path, **sync)
        assert result.status == "succeeded", result.error
        assert result.streams[0].read.records_read == len(numbers)
    lines = [line for path in sorted((tmp_path / "out").rglob("*.jsonl")) for line in path.read_text().splitlines()]
    assert [json.loads(line)["id"] for line in lines] == list(range(130))


@pytest.mark.parametrize("committed", [False, True])
def test_restarted_engine_gets_each_record_once(
    engine: TopicEngine, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    """The engine dies before or after the second commit; the next attempt asks it what it has."""
    from gauss.plugins.connectors.topic import run_client

    monkeypatch.setattr(run_client, "WAIT_S", 0.1)
    feed, calls = run_client.RunClient.feed, []

    def dying(self: run_client.RunClient, *given: Any) -> None:
        calls.append(given)
        if len(calls) == 2:
            if committed:
                feed(self, *given)  # its answer does not arrive
            engine.kill()
            try:
                feed(self, *given)
            finally:
                engine.start()
        feed(self, *given)

    monkeypatch.setattr(run_client.RunClient, "feed", dying)
    for number in range(3):
        add_file(files, f"{number}.jsonl", *range(number * 60, number * 60 + 60))
    result = run(tmp_path, **to_topic(engine, files))
    assert result.status == "succeeded", result.error
    assert ids(engine) == list(range(180)) and len(calls) >= 3


PIPELINE = """
[[syncs]]
name = "s"
source = {{ connector = "sample:Numbers", rows = 2000, pause = 0.005, folder = "." }}
destination = {{ connector = "topic", data_dir = "{data_dir}" }}
streams = [{{ name = "a", mode = "incremental", cursor = "n", write = "append", table = "filtered" }}]
"""


class Slow:
    """A sync of 2,000 numbers, ten at a time, as a command that can be killed."""

    def __init__(self, engine: TopicEngine, folder: Path) -> None:
        (folder / "gauss.toml").write_text(PIPELINE.format(data_dir=engine.paths.root))
        (folder / "sample.py").write_text(CONNECTORS)
        self._engine, self._folder = engine, folder
        self._command = [GAUSS, "sync", "--data-dir", "state", "--json"]

    def kill_at(self, records: int) -> None:
        """Runs it until there are more records than this."""
        process = subprocess.Popen(self._command, cwd=self._folder, stdout=subprocess.DEVNULL)
        wait_until(lambda: self._engine.client.command("topic", {"name": "filtered"})["end"] > records, what="records")
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()

    def run(self) -> None:
        done = subprocess.run(self._command, cwd=self._folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def numbers(self) -> list[int]:
        return [json.loads(each)["n"] for each in self._engine.records("filtered")]


def test_repeatedly_killed_sync_loses_and_repeats_no_records(engine: TopicEngine, tmp_path: Path) -> None:
    sync = Slow(engine, tmp_path)
    for records in (300, 700, 1_100):
        sync.kill_at(records)
    sync.run()
    assert sync.numbers() == list(range(1, 2_001))
