"""A WebSocket sink and its clients."""

from __future__ import annotations

from typing import Any

from websockets.sync.client import ClientConnection, connect

from gauss.stream.engine.topics.topic import Topic
from helpers.edges import Bench, Running
from helpers.logs import arrow


def sink(bench: Bench, topic: Topic, read: str = "offset", subscribe: str = "snapshots", **config: Any) -> Running:
    return bench.edge("ws-sink", config, topic, read, subscribe)


def join(running: Running, path: str = "/", **given: Any) -> ClientConnection:
    url = f"ws://127.0.0.1:{running.port}{path}"
    return connect(url, compression=None, max_size=None, legacy=True, **given)


def append(topic: Topic, *records: bytes) -> None:
    topic.append(arrow(*records))
