"""A topic over a table: an appended record becomes the newest of its key. Writers never wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NoReturn

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Appended
from gauss.contracts.letter import Letter
from gauss.contracts.storage import Capacity, Table
from gauss.model.errors import ConfigError, Unavailable
from gauss.scan.sources import SourceTask
from gauss.scan.table_provider import TableProvider
from gauss.stream.engine.topics.readers import OffsetReader, Readers
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.engine.topics.topic_state import Blocked


class TableTopic(Topic):
    """The newest record of each key. Versions correspond to the offsets of a log; readers are not registered."""

    def __init__(
        self, name: str, table: Table, capacity: Capacity, *, dead: Callable[[Letter], None] = lambda _: None
    ) -> None:
        super().__init__(name, table, capacity, dead)
        self.readers = Readers({}, lambda _: None)
        self._table = table
        self._staged_records = self._staged_bytes = 0
        self.source = SourceTask(name, TableProvider(table))
        self.rows = self

    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:  # noqa: ARG002 - never waits
        keyed, letters = self.fit(chunk)
        for letter in letters:
            self._dead(letter)
        with self.lock:
            if self._closed:
                raise Unavailable(f'topic "{self.name}" is closed', hint="the engine is stopping")
            accepted = self.stage_append(keyed, 0) if keyed is not None else 0
            self.reveal()
        return Appended(accepted, (keyed.count if keyed is not None else 0) - accepted, self.version())

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        return self._table.fit(chunk)

    def wait_room(self, cancel: threading.Event | None = None, seconds: float | None = None) -> bool:  # noqa: ARG002 - never waits
        return True

    def stage_append(self, chunk: Chunk, publish: int) -> int:  # noqa: ARG002 - a crash leaves nothing to cut
        taken = self._table.append(chunk)
        self._staged_records += taken.accepted
        self._staged_bytes += chunk.nbytes if not taken.dropped else chunk.nbytes * taken.accepted // chunk.count
        self.counters.dropped += taken.dropped
        self.counters.overwritten += taken.evicted
        return taken.accepted

    def staged_end(self) -> int:
        return self._table.staged_end

    def reveal(self) -> None:
        self._table.reveal()
        self.counters.records_in += self._staged_records
        self.counters.bytes_in += self._staged_bytes
        self._staged_records = self._staged_bytes = 0
        self.announce()

    def rollback(self) -> None:
        self._table.rollback()
        self._staged_records = self._staged_bytes = 0

    def trim(self) -> None:
        """Its capacity is kept while it is written."""

    def reader(self, name: str, start: str | int, *, keep: bool) -> OffsetReader:  # noqa: ARG002
        self._no_offsets()

    def seek(self, name: str, start: str | int) -> int:  # noqa: ARG002
        self._no_offsets()

    def drop_reader(self, name: str) -> None:
        self.readers.get(name)

    def offset_at(self, ts_ms: int) -> int:  # noqa: ARG002
        self._no_offsets()

    def bytes_from(self, offset: int) -> int:  # noqa: ARG002
        return self._table.bytes

    def _no_offsets(self) -> NoReturn:
        raise ConfigError(
            f'topic "{self.name}" is a table: it keeps the newest record of each key, not an order of records',
            hint="read it by snapshot, subscribe or query",
        )

    def hold(self) -> int:
        """Keeps the rows of the newest version readable until `unpin`; gives that version."""
        return self._table.hold()

    def unpin(self, version: int) -> None:
        self._table.unpin(version)

    def maintain(self, now_ms: int | None = None) -> None:  # noqa: ARG002
        self._table.maintain()

    def blocked(self) -> Blocked | None:
        return None

    def fill(self) -> float | None:
        return self.filled(self._table.rows, self._table.bytes)

    def stats(self) -> dict[str, object]:
        return {
            **self.common_stats(self._table.rows, self._table.bytes),
            "pinned_bytes": sum(reader.pinned_bytes() for reader in self.source.readers),
            "overshoot": 0,
            "overshoot_bytes": 0,
            "blocked_seconds": 0.0,
            "blocked_by": "",
            "readers": [],
        }

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._table.close()
        self.announce()
