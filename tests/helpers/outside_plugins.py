"""A source that counts and a sink that appends to a file, as plugins of an outside system."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import EdgeStatus
from gauss.contracts.outside import PullContext, PullSpec, PushBatch, PushContext, PushSpec
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import Role, Where
from gauss.model.errors import Unavailable

HERE = __name__


class ThreadedEdge:
    """An edge that runs in a thread until it is closed."""

    def __init__(self, status: EdgeStatus) -> None:
        self._status = status
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._status.state = "running"
        self._thread.start()

    def drain(self, seconds: float) -> None:
        self._stop.set()
        self._thread.join(seconds)

    def close(self) -> None:
        self.drain(5)

    def _run(self) -> None:
        raise NotImplementedError


class CountSourceConfig(PluginConfig):
    """Config of the counting source."""

    topics: list[str]
    """Target topics: number n goes to topic n modulo their count."""
    until: int
    """Stops after this many numbers."""
    at_once: int = 7
    """Numbers per publish."""


class CountSource(ThreadedEdge):
    """Publishes 0, 1, 2, … to several topics; its position is the next number and the sum of those before."""

    def __init__(self, context: PullContext) -> None:
        self._context = context
        super().__init__(context.status)
        self._config = cast(CountSourceConfig, context.config)

    def _run(self) -> None:
        position = self._context.position or {"next": 0, "sums": [0]}
        while position["next"] < self._config.until and not self._stop.is_set():
            first = position["next"]
            numbers = range(first, min(first + self._config.at_once, self._config.until))
            position = {"next": numbers.stop, "sums": [position["sums"][-1], position["sums"][-1] + sum(numbers)]}
            try:
                self._context.publish(self._chunks(numbers), position, self._stop)
            except Unavailable:
                return
        self._context.status.state = "done"

    def _chunks(self, numbers: range) -> dict[str, Chunk]:
        found: dict[str, Chunk] = {}
        for index, topic in enumerate(self._config.topics):
            own = [b"%d" % number for number in numbers if number % len(self._config.topics) == index]
            if own:
                found[topic] = Chunk(pa.array(own, pa.binary()), len(own), time.time_ns() // 1_000_000)
        return found


class FileSinkConfig(PluginConfig):
    """Config of the sink to a file."""

    topics: list[str]
    path: str
    at_once: int = 50
    """Records per write."""
    undo: bool = True
    """Whether the start truncates the file to the length of the last commit."""


class FileSink(ThreadedEdge):
    """Appends a line `topic offset data` per record; its state is the length of the file."""

    def __init__(self, context: PushContext) -> None:
        self._context = context
        super().__init__(context.status)
        self._config = cast(FileSinkConfig, context.config)

    def close(self) -> None:
        super().close()
        self._context.input.close()

    def _run(self) -> None:
        with Path(self._config.path).open("ab") as file:
            if self._config.undo:
                file.truncate((self._context.state or {"length": 0})["length"])
                file.seek(0, 2)
            while not self._stop.is_set():
                batch = self._context.input.next(limit=self._config.at_once, wait_s=0.1)
                if batch is not None:
                    for line in _lines(batch):  # one write per record, so that a kill can leave a part of the batch
                        file.write(line)
                        file.flush()
                    self._context.input.commit(batch, {"length": file.tell()})


def _lines(batch: PushBatch) -> list[bytes]:
    return [
        b"%s %d %s\n" % (part.topic.encode(), part.offset + index, data.as_py())
        for part in batch.parts
        for index, data in enumerate(part.chunk.data())
    ]


def _topics(config: PluginConfig) -> list[tuple[tuple[str | int, ...], str]]:
    return [
        (("topics", index), name) for index, name in enumerate(cast(CountSourceConfig | FileSinkConfig, config).topics)
    ]


def _nothing(_config: PluginConfig) -> str:
    return ""


def _no_keys(_config: PluginConfig) -> dict[str, Any]:
    return {}


COUNT_SOURCE = PullSpec(
    name="count-source",
    summary="Counts.",
    config=CountSourceConfig,
    implementation=f"{HERE}:CountSource",
    role=Role.SOURCE,
    where=Where.ENGINE,
    active=True,
    own_side="target",
    topics=_topics,
    system="",
    server=lambda _config: None,
    repeats=_nothing,
    losses=_nothing,
    tells=_no_keys,
)

FILE_SINK = PushSpec(
    name="file-sink",
    summary="Appends records to a file.",
    config=FileSinkConfig,
    implementation=f"{HERE}:FileSink",
    role=Role.SINK,
    where=Where.ENGINE,
    active=False,
    own_side="source",
    topics=_topics,
    system="",
    server=lambda _config: None,
    repeats=lambda config: "" if cast(FileSinkConfig, config).undo else "after a crash the last lines may come again",
    losses=_nothing,
)
