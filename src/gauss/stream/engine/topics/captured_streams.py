"""Captures under a topic's name: byte streams in files. They have no records, so nothing appends to or scans them."""

from __future__ import annotations

import time
from pathlib import Path

from gauss.contracts.capture import Capture, CaptureStore
from gauss.contracts.storage import Capacity
from gauss.model.errors import ConfigError
from gauss.stream.engine.topics.topic_state import Blocked, TopicState


class CapturedStreams(TopicState):
    """Implements `contracts.capture.CaptureHandle`."""

    def __init__(self, name: str, store: CaptureStore, capacity: Capacity) -> None:
        super().__init__(name, store, capacity)
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

    def no_records(self) -> ConfigError:
        """Why it can't be read or written as a topic."""
        return ConfigError(
            f'topic "{self.name}" keeps captures (framing = "none"): byte streams without records',
            hint='replay it with a tcp-sink (mode = "passthrough", read = "raw"), or open its files',
        )

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
