"""A topic of captures: byte streams in files, without records, so that nothing is appended to it or scanned."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from gauss.contracts.capture import Capture, CaptureStore
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Cursor, Program
from gauss.contracts.edge import Appended, DeadLetter
from gauss.contracts.format import Format
from gauss.contracts.storage import Capacity
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError
from gauss.scan.log_cursor import CAPABILITIES
from gauss.scan.sources import SourceTask
from gauss.stream.engine.readers import Reader, Readers
from gauss.stream.engine.topic import Blocked, Topic


class CaptureTopic(Topic):
    """Implements `contracts.capture.CaptureHandle`."""

    capabilities = CAPABILITIES  # asked as a log is, it says itself what it is

    def __init__(self, name: str, store: CaptureStore, capacity: Capacity) -> None:
        super().__init__(name, store, capacity, lambda _: None)
        self.readers = Readers({}, lambda _: None)
        self.source = SourceTask(name, self, opener=self._no_cursor)
        self._captures = store
        self._blocked_since: float | None = None

    def begin(self, peer: str) -> Capture:
        return self._captures.begin(peer)

    def finished(self) -> list[Path]:
        return self._captures.finished()

    def has_room(self) -> bool:
        found = self._captures.has_room()
        self._blocked_since = None if found else self._blocked_since or time.monotonic()
        return found

    # --- what needs records ---

    def _no_records(self) -> NoReturn:
        raise ConfigError(
            f'topic "{self.name}" keeps captures (framing = "none"): byte streams without records',
            hint='replay it by a tcp-sink with mode = "passthrough" and read = "raw", or look at its files',
        )

    def _no_cursor(self, program: Program) -> Cursor:  # noqa: ARG002
        self._no_records()

    def append(self, chunk: Chunk, cancel: threading.Event | None = None) -> Appended:  # noqa: ARG002
        self._no_records()

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[DeadLetter]]:  # noqa: ARG002
        self._no_records()

    def wait_room(self, cancel: threading.Event | None = None, seconds: float | None = None) -> bool:  # noqa: ARG002
        self._no_records()

    def stage_append(self, chunk: Chunk, publish: int) -> int:  # noqa: ARG002
        self._no_records()

    def reader(self, name: str, start: str | int, *, keep: bool) -> Reader:  # noqa: ARG002
        self._no_records()

    def seek(self, name: str, start: str | int) -> int:  # noqa: ARG002
        self._no_records()

    def drop_reader(self, name: str) -> None:
        self.readers.get(name)

    def offset_at(self, ts_ms: int) -> int:  # noqa: ARG002
        self._no_records()

    def staged_end(self) -> int:
        return 0

    def reveal(self) -> None:
        """Nothing is ever staged."""

    def rollback(self) -> None:
        """Nothing is ever staged."""

    def trim(self) -> None:
        """Room is made when it is asked for."""

    def candidates(self) -> pa.Schema:
        return RECORD_SCHEMA

    def format(self) -> Format | None:
        return None

    # --- state ---

    def bytes_from(self, offset: int) -> int:  # noqa: ARG002
        return self._captures.bytes

    def maintain(self, now_ms: int | None = None) -> None:  # noqa: ARG002
        self._captures.maintain()

    def blocked(self) -> Blocked | None:
        since = self._blocked_since
        if since is None:
            return None
        detail = f'topic "{self.name}" holds max_bytes = {self.capacity.bytes} of captures: remove some of its files'
        return Blocked(self.name, "", "", time.monotonic() - since, 0.0, detail)

    def fill(self) -> float | None:
        return self.filled(0, self._captures.bytes)

    def stats(self) -> dict[str, object]:
        blocked = self.blocked()
        return {
            **self.common_stats(self._captures.count, self._captures.bytes),
            "overshoot": 0,
            "overshoot_bytes": 0,
            "blocked_seconds": round(blocked.seconds, 3) if blocked else 0.0,
            "blocked_by": blocked.detail if blocked else "",
            "readers": [],
        }

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._captures.close()
        self.announce()
