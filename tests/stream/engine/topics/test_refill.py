"""A memory table that is filled from a file topic has its rows again after a restart of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.clients.engine.client import EngineClient
from helpers.engine_process import EngineProcess
from helpers.records import content, feed
from helpers.waiting import wait_until

TABLE = {"mode": "table", "format": "json", "key_field": "k"}
PIPELINE: dict[str, Any] = {
    "topics": [
        {"name": "log", "storage": "file"},
        {"name": "ring", "storage": "memory"},
        {"name": "rows", "storage": "memory", "storage_config": TABLE},
        {"name": "lost", "storage": "memory", "storage_config": TABLE},
    ],
    "processors": [
        {
            "name": f"{source}-{target}",
            "plugin": "passthrough",
            "source": {"topic": source, "read": "offset"},
            "target": {"topic": target},
        }
        for source, target in (("log", "rows"), ("ring", "lost"))
    ],
}


def records_of(client: EngineClient) -> list[int]:
    return [row["records"] for row in client.command("processors.ls")["processors"]]


def test_rows_from_a_file_are_there_again_before_anybody_can_ask(tmp_path: Path) -> None:
    process = EngineProcess(tmp_path, PIPELINE)
    try:
        process.start()
        for topic in ("log", "ring"):
            feed(process.client, topic, b'{"k":1,"n":1}', b'{"k":2,"n":2}', b'{"n":0}', b'{"k":1,"n":3}')
        rows = [b'{"k":1,"n":3}', b'{"k":2,"n":2}']
        wait_until(lambda: [sorted(content(process.client, name)) for name in ("rows", "lost")] == [rows, rows])
        letters = process.client.command("dlq.ls")["total"]
        process.kill()
        process.start()
        assert sorted(content(process.client, "rows")) == rows
        assert content(process.client, "lost") == []
        feed(process.client, "log", b'{"k":2,"n":9}')
        wait_until(lambda: sorted(content(process.client, "rows")) == [rows[0], b'{"k":2,"n":9}'])
        wait_until(lambda: records_of(process.client) == [1, 0], what="what was done before is not done again")
        assert process.client.command("dlq.ls")["total"] == letters
    finally:
        process.close()
