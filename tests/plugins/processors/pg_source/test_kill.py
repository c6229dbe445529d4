"""kill -9 of a real engine during a read: with a cursor every row is published once, in order."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from helpers.engine_process import QuickEngine
from helpers.waiting import wait_until

ROWS = 40_000
KILLS = 5


@pytest.mark.fault
def test_killed_in_the_middle_of_passes_every_row_comes_once(
    tmp_path: Path, postgres: Endpoint, connection: Connection
) -> None:
    connection.execute(
        f"CREATE TABLE rows AS SELECT i AS id, i / 7 AS key FROM generate_series(0, {ROWS - 1}) i".encode()
    )
    config = {
        "topics": [{"name": "rows", "storage": "file"}],
        "processors": [
            {
                "name": "pg",
                "plugin": "pg-source",
                "target": {"topic": "rows"},
                "config": {"dsn": postgres.url, "table": "rows", "cursor_field": "key"},
            }
        ],
    }
    engine = QuickEngine(tmp_path, config)
    chance = random.Random(3)
    try:
        for _ in range(KILLS):
            engine.start()
            time.sleep(chance.uniform(0.02, 0.3))
            engine.kill()
        engine.start()

        def done() -> bool:
            rows = engine.client.command("processors.ls")["processors"]
            return bool(next(row for row in rows if row["name"] == "pg")["state"] == "done")

        wait_until(done, 60, "done")
        found = [data for batch in engine.client.scan("rows") for data in batch.column(2).to_pylist()]
        # A tuple of two columns, each a length and four bytes.
        assert [int.from_bytes(data[6:10], "big") for data in found] == list(range(ROWS))
        engine.kill()
        engine.start()
        wait_until(done, 60, "done after a restart")
        assert engine.client.command("topic", {"name": "rows"})["end"] == ROWS
    finally:
        engine.close()
