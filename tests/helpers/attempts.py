"""Attempts of a stream with small connectors in Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gauss.connect.attempt import Attempt, Outcome, Side
from gauss.connect.host import StreamHost
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext
from helpers.connectors import OneStream, rows
from helpers.waiting import wait_until


class Plain:
    """A connector that opens and closes, and counts both."""

    def __init__(self, host: StreamHost) -> None:
        self.host = host
        self.opened = self.closed = 0

    def open(self, context: OpenContext) -> OpenInfo:
        assert isinstance(context.config, JsonConfig)
        self.opened += 1
        return OpenInfo()

    def close(self) -> None:
        self.closed += 1


class Numbers(Plain):
    """Emits batches of one number, with a checkpoint after each."""

    count = 5

    def run_read(self, stream: StreamContext) -> ReadSummary:
        for number in range(1, self.count + 1):
            self.host.emit_batch(rows(number))
            self.host.checkpoint(
                Checkpoint(number, CheckpointKind.SOURCE, stream.stream_name, "n", Int64Cursor(number))
            )
        return ReadSummary(records_read=self.count)


class Endless(Numbers):
    count = 1_000_000_000


class Collecting(Plain):
    """Commits after every batch."""

    def __init__(self, host: StreamHost) -> None:
        super().__init__(host)
        self.got: list[int] = []

    def run_write(self, stream: StreamContext) -> WriteSummary:
        while (batch := self.host.next_batch()) is not None:
            self.got += batch.column(0).to_pylist()  # type: ignore[union-attr]
            self.host.checkpoint(Checkpoint(len(self.got), CheckpointKind.DEST, stream.stream_name))
        return WriteSummary(records_written=len(self.got))


class AttemptOf:
    """An attempt with the given connectors; keeps the connectors that it made."""

    def __init__(self, source: Callable[[Any], Any], destination: Callable[[Any], Any], both: OneStream) -> None:
        self.both = both
        self.made: dict[str, Any] = {}
        self.attempt = Attempt(both.run, self._side("source", source), self._side("destination", destination))

    def _side(self, name: str, kind: Callable[[Any], Any]) -> Side:
        def make(host: StreamHost) -> Any:
            self.made[name] = kind(host)
            return self.made[name]

        return Side(make, name, "1", JsonConfig({}))

    def closed(self) -> None:
        """Whoever was opened was closed, once."""
        for connector in self.made.values():
            assert connector.opened == connector.closed


def attempt(
    source: Callable[[Any], Any] = Numbers,
    destination: Callable[[Any], Any] = Collecting,
    both: OneStream | None = None,
) -> tuple[AttemptOf, Outcome]:
    """Runs an attempt to its end."""
    made = AttemptOf(source, destination, both or OneStream())
    return made, made.attempt()


def started(made: AttemptOf) -> tuple[threading.Thread, list[Outcome]]:
    """Starts an attempt in a thread; returns once batches are committed."""
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(made.attempt()))
    thread.start()
    wait_until(lambda: len(made.both.seen.safe) > 3, what="batches")
    return thread, done
