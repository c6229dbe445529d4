"""Letters that fail again when they are replayed: they are the same letters, counted once, and stop no processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.engine.client import EngineClient
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import engine_here
from helpers.logs import lines
from helpers.waiting import wait_until

MANY = 300
CONFIG: dict[str, Any] = {
    "topics": [{"name": name, "storage": "file"} for name in ("in", "out")],
    "processors": [
        {
            "name": "cut",
            "plugin": "reframe",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "out"},
            "config": {"output": {"framing": "fixed_size", "frame_size": 4}},
        }
    ],
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with engine_here(tmp_path, CONFIG) as made:
        yield made


def test_replayed_letters_that_are_refused_again_stay_the_same_letters_and_stop_nobody(engine: Engine) -> None:
    client = EngineClient.from_file(engine.paths.flight_json, wait_s=10)
    engine.topic("in").append(lines(*[b"good"] * MANY, *[b"bad"] * MANY, ts_ms=1))

    def total() -> int:
        return int(client.command("dlq.ls")["total"])

    def row() -> dict[str, Any]:
        found: dict[str, Any] = client.command("processors.ls")["processors"][0]
        return found

    wait_until(lambda: total() == MANY)
    for attempts in (2, 3):
        assert client.command("dlq.replay", {"processor": "cut"})["replayed"] == MANY
        wait_until(lambda: row()["behind"] == 0 and total() == MANY)
        letters = client.command("dlq.show", {"limit": 2 * MANY})["letters"]
        assert len(letters) == MANY
        assert {letter["attempts"] for letter in letters} == {attempts}
        assert {letter["topic"] for letter in letters} == {"in"}
        assert sorted(letter["offset"] for letter in letters) == list(range(MANY, 2 * MANY))
        shown = row()
        assert (shown["state"], shown["dead"], shown["records"]) == ("running", MANY, 2 * MANY)
    assert client.command("dlq.replay", {"processor": "cut", "offsets": [0]})["already"] == 1

    # Also after a restart of the engine.
    engine.close()
    again = Engine(engine.paths.root)
    again.open()
    try:
        assert sum(group["count"] for group in again.dead.groups()) == MANY
    finally:
        again.close()
