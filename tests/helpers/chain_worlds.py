"""Chains of processors against a real engine, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gauss.clients.engine.driver_messages import DriverSync
from gauss.config.spec import Pipeline
from helpers.engine_process import EngineProcess
from helpers.standing import HostedTask, send

FORMATS = [
    {
        "name": "quote",
        "plugin": "json",
        "config": {
            "fields": [
                {"name": "s", "type": "string"},
                {"name": "n", "type": "int64"},
                {"name": "d", "type": "double"},
                {"name": "small", "type": "uint8"},
            ]
        },
    },
    {
        "name": "made",
        "plugin": "json",
        "config": {
            "fields": [{"name": "n", "type": "int64"}, {"name": "q", "type": "double"}, {"name": "s", "type": "string"}]
        },
    },
]
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("filter", {"input": {"format": "quote"}, "where": ".n != 3"}),
    ("filter", {"input": {"format": "quote"}, "where": '.s != "no" or .small > 1'}),
    (
        "expression",
        {"input": {"format": "quote"}, "program": "{n, q: .d * 2, s, at: .ts_ms}", "output": {"format": "made"}},
    ),
    ("expression", {"input": {"format": "made"}, "program": "select(.q != 4) | {n, q, s}"}),
    ("symbol-filter", {"input": {"format": "made"}, "field": "s", "symbols": ["a", "no", "7", "é"]}),
    ("mask", {"input": {"format": "json"}, "fields": ["s"], "method": "redact"}),
    ("compress", {"algo": "gzip"}),
]
"""A chain in which each step rejects records that the steps before it accept."""


def config(steps: list[tuple[str, dict[str, Any]]] = STEPS, **storage: Any) -> dict[str, Any]:
    """The same chain twice: `f` runs as a chain, `u` step by step."""
    topics = ["in", *(f"{kind}.{place}" for kind in "fu" for place in range(len(steps)))]
    unbounded = {} if storage.get("storage") == "file" else {"storage_size": "unlimited"}
    kept = {"storage": "memory", "storage_config": unbounded} | storage
    return {
        "formats": FORMATS,
        "topics": [{"name": name, **kept} for name in topics],
        "processors": [
            {
                "name": f"{kind}{place}",
                "plugin": plugin,
                "source": {"topic": f"{kind}.{place - 1}" if place else "in", "read": "offset"},
                "target": {"topic": f"{kind}.{place}"},
                "config": given,
            }
            for kind in "fu"
            for place, (plugin, given) in enumerate(steps)
        ],
    }


class World:
    """An engine and access to its topics."""

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.pipeline = Pipeline.model_validate(given)
        self.engine = EngineProcess(folder, given)
        assert self.engine.start().get("ready")
        self.client = self.engine.client
        self._tasks: list[HostedTask] = []

    def task(self, *names: str) -> HostedTask:
        """A task of a new job for one chain."""
        self._tasks.append(HostedTask(self.client, self.engine.paths, self.pipeline, list(names)))
        return self._tasks[-1]

    def send(self, topic: str, records: list[bytes]) -> None:
        send(self.client, topic, records)

    def records(self, topic: str) -> list[tuple[int, int, bytes]]:
        """Offset, time and bytes."""
        return [
            (row["offset"], row["ts_ms"], row["data"]) for batch in self.client.scan(topic) for row in batch.to_pylist()
        ]

    def letters(self, kind: str) -> list[Any]:
        """The dead letters of one of the chains, sorted by origin."""
        found = [json.loads(data) for _, _, data in self.records("_dead")]
        keys = ("topic", "offset", "reason", "detail", "stage", "column", "ts_ms", "data", "truncated")
        return sorted(
            [letter["processor"][1:], *(str(letter.get(key)).removeprefix(f"{kind}.") for key in keys)]
            for letter in found
            if letter["processor"].startswith(kind)
        )

    def apart(self) -> list[str]:
        """Processors that the driver must run in separate tasks."""
        return list(self.client.sync(DriverSync([])).apart)

    def close(self) -> None:
        for task in self._tasks:
            task.close()
        self.engine.close()


def data(world: World, topic: str) -> list[bytes]:
    return [data for _, _, data in world.records(topic)]
