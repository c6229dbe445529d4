"""Syncs the files of a log to disk in the background."""

from __future__ import annotations

import threading
import time

from gauss.model.errors import StorageError
from gauss.plugins.storages.file.disk import Handle, os_errors_explained
from gauss.plugins.storages.file.segments import Segments
from gauss.plugins.storages.file.spec import FileConfig


class LogSync:
    """Tracks the files written since the last sync."""

    def __init__(self, config: FileConfig, segments: Segments, write_lock: threading.Lock) -> None:
        self._config = config
        self._segments = segments
        self._write_lock = write_lock
        self._left: list[Handle] = []
        self._synced_at = time.monotonic()
        self.dirty = False
        """Whether there are unsynced writes."""

    def leave(self, handles: list[Handle]) -> None:
        """Adds the files of a finished segment."""
        if self._config.fsync == "interval":
            self._left += handles

    def sync_if_due(self) -> None:
        due = time.monotonic() - self._synced_at >= self._config.fsync_interval / 1000
        if self._config.fsync == "interval" and self.dirty and due:
            self.sync()

    def sync(self) -> None:
        """Syncs all files, unless `fsync` is never. After a failure all remain to be synced."""
        if self._config.fsync == "never":
            return
        with self._write_lock:
            active = self._segments.active
            handles = [*self._left, *active.handles()]
            self._left, self.dirty = [], False
        self._synced_at = time.monotonic()
        try:
            with os_errors_explained("syncing", active.folder):
                for handle in handles:
                    handle.sync()
        except StorageError:
            with self._write_lock:
                self._left, self.dirty = [*handles, *self._left], True
            raise
