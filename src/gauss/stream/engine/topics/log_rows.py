"""The newest record of each key of a log, as a table that sinks and scans read beside the log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NoReturn

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Program, Provider, ReaderCursor
from gauss.contracts.edge import Appended
from gauss.model.errors import ConfigError
from gauss.scan.sources import SourceTask
from gauss.scan.tasks import TaskCursor
from gauss.stream.engine.topics.readers import OffsetReader

if TYPE_CHECKING:
    from gauss.stream.engine.topics.log_topic import LogTopic


class LogRows:
    """Implements `Scannable` and, for sinks with `read = "snapshot"`, `contracts.edge.TopicHandle`."""

    def __init__(self, topic: LogTopic, provider: Provider) -> None:
        self.name, self.inc, self._topic = topic.name, topic.inc, topic
        self.source = SourceTask(topic.name, provider, rows=True)

    def begin_anew(self) -> None:
        """Follows the log into its next incarnation."""
        self.inc, self.source = self._topic.inc, self.source.of_next(self.source.provider)

    def version(self) -> int:
        return self._topic.version()

    def floor(self) -> int:
        return self.source.provider.floor()

    def open(self, program: Program) -> ReaderCursor:
        return TaskCursor(self.source, program)

    def wait(self, version: int, timeout: float) -> int:
        return self._topic.wait(version, timeout)

    def offset_at(self, ts_ms: int) -> int:
        return self._topic.offset_at(ts_ms)

    def stats(self) -> dict[str, object]:
        return {"records": self._topic.version() - self._topic.floor()}  # each may have another key

    def bytes_from(self, offset: int) -> int:
        return self._topic.bytes_from(offset)

    def blocked(self) -> None:
        """A snapshot blocks no writer."""

    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:  # noqa: ARG002
        self._only_scanned()

    def reader(self, name: str, start: str | int, *, keep: bool) -> OffsetReader:  # noqa: ARG002
        self._only_scanned()

    def _only_scanned(self) -> NoReturn:
        raise ConfigError(f'the snapshot of topic "{self.name}" is only scanned', hint="use the topic itself")
