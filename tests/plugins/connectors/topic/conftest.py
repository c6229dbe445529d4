"""A real engine with topics, in a process of its own that can be killed and started again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from gauss.clients.engine.cursor_messages import Read
from gauss.connect.attempt import Side
from gauss.contracts.connector.lifecycle import JsonConfig
from gauss.plugins.connectors.topic.destination import TopicDestination
from gauss.plugins.connectors.topic.source import TopicSource
from helpers.engine_process import EngineParent, QuickEngine

FIELDS = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}, {"name": "more", "type": "json"}]
CONFIG: dict[str, Any] = {
    "formats": [{"name": "person", "plugin": "json", "config": {"fields": FIELDS}}],
    "topics": [
        {"name": "people", "storage": "file"},
        {"name": "raw.lines", "storage": "file"},
        {"name": "quick", "storage": "memory"},
        {"name": "filtered", "storage": "memory"},
        {"name": "ring", "storage": "memory", "storage_config": {"storage_size": 10, "write_full": "overwrite"}},
        {"name": "narrow", "storage": "memory", "storage_config": {"storage_size": 10}},
        {"name": "full", "storage": "memory", "storage_config": {"storage_size": 10, "write_full": "drop"}},
        {
            "name": "newest",
            "storage": "memory",
            "storage_config": {"mode": "table", "key_field": "id", "format": "person"},
        },
    ],
    "processors": [
        {
            "name": "feed",
            "plugin": "tcp-source",
            "target": {"topic": "people"},
            "config": {"port": 0, "input": {"framing": "newline", "format": "person"}},
        },
        *(
            {  # on Spark, which does not run here: its reader stays at the first record
                "name": f"reads-{topic}",
                "plugin": "filter",
                "source": {"topic": topic, "read": "offset"},
                "target": {"topic": "filtered"},
                "config": {"input": {"format": "json"}, "where": ".x > 1"},
            }
            for topic in ("full", "narrow")
        ),
    ],
}


class TopicEngine(QuickEngine):
    """An engine with the topics above."""

    def __init__(self, data_dir: Path, parent: EngineParent) -> None:
        super().__init__(data_dir, CONFIG)
        self._parent = parent

    def close(self) -> None:
        self.client.close()
        if psutil.pid_exists(self._pid):
            self.kill()

    def add(self, topic: str, *records: bytes) -> None:
        self.client.append(topic, [pa.record_batch({"data": pa.array(records, pa.binary())})])

    def add_people(self, *numbers: int) -> None:
        self.add("people", *(json.dumps({"id": n, "name": f"p{n}", "more": {"n": n}}).encode() for n in numbers))

    def records(self, topic: str) -> list[bytes]:
        """All records of a topic."""
        found = self.client.command("topic", {"name": topic})
        ticket = Read(topic, found["inc"], found["floor"], found["end"])
        return [data for batch in self.client.read(ticket) for data in batch.column("data").to_pylist()]

    def inc(self, topic: str) -> int:
        return int(self.client.command("topic", {"name": topic})["inc"])

    def restart(self) -> None:
        self.kill()
        self.start()

    def source(self, **config: Any) -> Side:
        config = {"data_dir": str(self.paths.root), **config}
        return Side(TopicSource, "source-topic", "1", JsonConfig(config))

    def destination(self, **config: Any) -> Side:
        config = {"data_dir": str(self.paths.root), **config}
        return Side(TopicDestination, "dest-topic", "1", JsonConfig(config))


@pytest.fixture(scope="session")
def engine_parent() -> Iterator[EngineParent]:
    made = EngineParent()
    yield made
    made.close()


@pytest.fixture
def engine(tmp_path: Path, engine_parent: EngineParent) -> Iterator[TopicEngine]:
    made = TopicEngine(tmp_path / "run", engine_parent)
    made.start()
    yield made
    made.close()


Patient = Callable[[float], None]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Patient:
    """Sets how long a connector waits for an engine that is down."""
    return lambda seconds: monkeypatch.setattr("gauss.plugins.connectors.topic.run_client.WAIT_S", seconds)
