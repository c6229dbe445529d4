"""Captures of a file topic with `framing = "none"`: one file per connection, named by its start and its peer.

`….open` is being written; `….raw` was ended by its sender, `….cut.raw` by anything else: a reset, a stop, a kill.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from gauss.contracts.plugin import PluginConfig
from gauss.contracts.storage import BackedUp, StorageContext, WriteFull
from gauss.model.files import PRIVATE_FILE, PRIVATE_FOLDER
from gauss.plugins.storages.file import meta
from gauss.plugins.storages.file.backup import BackupPart, copy_parts
from gauss.plugins.storages.file.disk import lock_folder, os_errors_explained, sync_folder
from gauss.plugins.storages.file.spec import FileConfig

log = logging.getLogger(__name__)


class CaptureFile:
    """One connection's file while it is written."""

    def __init__(self, path: Path, owner: Captures) -> None:
        self.path = path
        # Without O_APPEND, which splice refuses.
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        self.size = 0
        self.ending = False
        self._owner = owner

    def grew(self, size: int) -> None:
        self.size += size
        self._owner.grew(size)

    def end(self, *, whole: bool) -> None:
        self._owner.ended(self, whole=whole)


class Captures:
    """A folder of captures."""

    floor = end = 0

    def __init__(self, config: PluginConfig, context: StorageContext) -> None:
        self._config = file = cast(FileConfig, config)
        self._root = context.base_dir / file.data_dir if file.data_dir is not None else context.directory
        self._lock = threading.Lock()
        self._open: set[CaptureFile] = set()
        self._synced_at = time.monotonic()
        self._dirty = False
        with os_errors_explained("opening", self._root):
            self._root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._folder_lock: int | None = lock_folder(self._root)
            try:
                self.inc = meta.open_meta(self._root, file, context).inc
                self._mark_cut()
                self._sizes = {path: path.stat().st_size for path in sorted(self._root.glob("*.raw"))}
            except BaseException:
                os.close(self._folder_lock)
                raise
        self._total = sum(self._sizes.values())

    def _mark_cut(self) -> None:
        """Finishes captures that a crash interrupted: every byte that reached the file is kept."""
        for path in self._root.glob("*.open"):
            kept = path.with_suffix(".cut.raw")
            path.rename(kept)
            log.warning("%s: the engine ended in the middle of this capture of %d bytes", kept, kept.stat().st_size)

    # --- writing ---

    def begin(self, peer: str) -> CaptureFile:
        who = re.sub(r"[^0-9A-Za-z.]+", "-", peer).strip("-")
        with os_errors_explained("opening a capture in", self._root), self._lock:
            while True:
                moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
                try:
                    begun = CaptureFile(self._root / f"{moment}_{who}.open", self)
                except FileExistsError:
                    continue  # the clock went back, or a peer connected twice in one microsecond
                self._open.add(begun)
                return begun

    def grew(self, size: int) -> None:
        with self._lock:
            self._total += size
            self._dirty = True

    def ended(self, capture: CaptureFile, *, whole: bool) -> None:
        with self._lock:
            if capture.ending:
                return
            capture.ending = True
        final = capture.path.with_suffix(".raw" if whole else ".cut.raw")
        durable = self._config.fsync != "never"
        with os_errors_explained("ending", capture.path):
            try:
                if durable:
                    os.fdatasync(capture.fd)
            except OSError:
                with self._lock:
                    self._let_go(capture)
                raise
            with self._lock:  # readers find it under one of the two names
                try:
                    capture.path.rename(final)
                    self._sizes[final] = capture.size
                finally:
                    self._let_go(capture)
            if durable:
                sync_folder(self._root)

    def _let_go(self, capture: CaptureFile) -> None:
        self._open.discard(capture)
        os.close(capture.fd)

    def has_room(self) -> bool:
        most = self._config.max_bytes
        if most is None or self._total < most:
            return True
        with self._lock, os_errors_explained("removing old captures of", self._root):
            if self._config.write_full is WriteFull.OVERWRITE:
                while self._total >= most and self._sizes:
                    self._remove(min(self._sizes))
                return True  # an open capture is never removed
            for path in [each for each in self._sizes if not each.exists()]:
                self._remove(path)  # space was freed in the meantime
            return self._total < most

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._total -= self._sizes.pop(path)

    # --- reading ---

    @property
    def bytes(self) -> int:
        return self._total

    @property
    def count(self) -> int:
        return len(self._sizes) + len(self._open)

    def finished(self) -> list[Path]:
        with self._lock:
            return sorted(self._sizes)

    def backup(self, folder: Path) -> BackedUp:
        """Copies all captures into a folder, open ones up to their current size."""
        with self._lock, os_errors_explained("reading", self._root):
            parts = [BackupPart.of(self._root, path) for path in [self._root / meta.NAME, *sorted(self._sizes)]]
            parts += [BackupPart.of(self._root, capture.path) for capture in self._open]
        return copy_parts(parts, folder, len(parts) - 1)

    # --- keeping ---

    def maintain(self) -> None:
        file = self._config
        if file.retention is not None:
            oldest = time.time() - file.retention / 1000
            with self._lock, os_errors_explained("removing old captures of", self._root):
                for path in [each for each in self._sizes if _changed_at(each) < oldest]:
                    self._remove(path)
        due = time.monotonic() - self._synced_at >= file.fsync_interval / 1000
        if file.fsync == "interval" and self._dirty and due:
            self._sync()

    def _sync(self) -> None:
        self._synced_at, self._dirty = time.monotonic(), False
        with self._lock:  # a descriptor of its own: the capture may end meanwhile
            held = [os.dup(capture.fd) for capture in self._open]
        for fd in held:
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def close(self) -> None:
        for capture in list(self._open):
            capture.end(whole=False)
        if self._folder_lock is not None:
            os.close(self._folder_lock)
            self._folder_lock = None

    def reveal(self) -> None:
        """Does nothing: bytes are visible as soon as they are written."""

    def rollback(self) -> None:
        """Does nothing: captures stage no records."""

    def last_ts(self) -> int:
        with self._lock:
            newest = max(self._sizes, default=None)
        return 0 if newest is None else int(_changed_at(newest) * 1000)


def _changed_at(path: Path) -> float:
    """Time of the last byte; 0 if the file was removed."""
    return path.stat().st_mtime if path.exists() else 0.0
