"""A data directory as a run leaves it, and what an engine reads from it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Program, Step
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import prepare
from helpers.waiting import wait_until

CONFIG = {
    "topics": [
        {"name": "a", "storage": "memory", "storage_config": {"storage_size": 1000}},
        {"name": "b", "storage": "file", "storage_config": {"framing": "newline", "fsync": "never"}},
    ],
    "processors": [
        {
            "name": "pass",
            "plugin": "passthrough",
            "source": {"topic": "a", "read": "offset"},
            "target": {"topic": "b"},
        }
    ],
}
WHOLE = [b"record %d" % number for number in range(50)]


def fill(folder: Path, config: dict[str, Any] = CONFIG) -> Path:
    """Creates a data directory with several publishes into a file topic, and stops the engine cleanly."""
    prepare(folder, config)
    engine = Engine(folder)
    engine.open()
    engine.start()
    for first in range(0, len(WHOLE), 10):
        part = WHOLE[first : first + 10]
        engine.topic("a").append(Chunk(pa.array(part, pa.binary()), len(part), 1))
        wait_until(partial(_has, engine, first + 10), 60, "the records in b")
    engine.close()
    return folder


def _has(engine: Engine, records: int) -> bool:
    return engine.topic("b").version() == records


def opened(folder: Path) -> tuple[list[bytes], Any]:
    """The records of topic b and its counters after an engine has opened the directory."""
    engine = Engine(folder)
    try:
        engine.open()
        cursor = engine.topic("b").open(Program())
        found: list[bytes] = []
        while cursor.next(Step()) is Code.OK:
            batch = cursor.read()[1]
            assert isinstance(batch, pa.RecordBatch)
            found += batch.column("data").to_pylist()
        return found, engine.topic("b").counters
    finally:
        if hasattr(engine, "publisher"):
            engine.close()
