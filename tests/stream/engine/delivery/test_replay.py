"""A processor that reads two topics: replayed dead letters are read beside their topic, and no batch is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gauss.clients.engine.client import EngineClient
from gauss.contracts.letter import Letter
from gauss.model.errors import ConfigError
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import prepare
from helpers.logs import lines
from helpers.records import content

JOIN: dict[str, Any] = {
    "topics": [{"name": name, "storage": "memory"} for name in ("trades", "orders", "matched")],
    "processors": [
        {
            "name": "join",
            "plugin": "window-join",
            "source": {"topic": "trades", "read": "offset"},
            "target": {"topic": "matched"},
            "config": {"input": {"format": "json"}, "join_topic": "orders", "join_key": "id", "window": "5s"},
        }
    ],
}


def test_letter_goes_to_the_inlet_beside_its_topic_and_to_the_same_one_again(tmp_path: Path) -> None:
    prepare(tmp_path, JOIN)
    engine = Engine(tmp_path)
    engine.open()
    try:
        engine.start()
        client = EngineClient.from_file(engine.paths.flight_json, wait_s=10)
        left, right = "_retry.join", "_retry.join@orders"
        for topic in ("trades", "orders", left, right):
            inc = engine.topic(topic).inc
            engine.dead.write(
                Letter("bad_json", "", "decode", "join", topic.encode(), topic, inc, 0, 50), engine.stopping
            )
        assert client.command("dlq.replay", {"processor": "join"})["replayed"] == 4
        assert content(client, left) == [b"trades", left.encode()]
        assert content(client, right) == [b"orders", right.encode()]
        (row,) = client.command("processors.ls")["processors"]
        assert row["behind"] == 4
        # Spark's state has a version per batch, so no batch can be skipped.
        with pytest.raises(ConfigError, match='"join" keeps a state') as told:
            client.command("processors.skip", {"name": "join"})
        assert "gauss readers seek trades join OFFSET" in told.value.hint
    finally:
        engine.close()


def test_letter_of_a_table_names_the_source_that_fed_it(tmp_path: Path) -> None:
    table = {"mode": "table", "format": "json", "key_field": "id"}
    feed = {"transport": "tcp-server", "port": 0, "input": {"framing": "newline"}}
    prepare(
        tmp_path,
        {
            "topics": [{"name": "state", "storage": "memory", "storage_config": table}],
            "processors": [
                {"name": "feed", "plugin": "tcp-source", "target": {"topic": "state"}, "config": feed},
            ],
        },
    )
    engine = Engine(tmp_path)
    engine.open()
    try:
        engine.topic("state").append(lines(b'{"id":"a"}', b'{"no":"key"}'))
        (group,) = engine.dead.groups()
        assert (group["processor"], group["count"]) == ("feed", 1)
    finally:
        engine.close()
