"""The audit log: one JSON line for each change of jobs, states and instances."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from gauss.dbstates.store.metadata import now_ms
from gauss.model.files import PRIVATE_FILE

KEEP_BYTES = 16 << 20
"""A longer log is put aside; one older log is kept."""


class Audit:
    """Appends to `audit.ndjson`. A full disk loses lines, not jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def note(self, event: str, **about: Any) -> None:
        line = json.dumps({"ts": now_ms(), "event": event, **about}) + "\n"
        with self._lock:
            try:
                if self._path.exists() and self._path.stat().st_size > KEEP_BYTES:
                    self._path.replace(self._path.with_name(f"{self._path.name}.1"))
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
                with os.fdopen(descriptor, "w") as file:
                    file.write(line)
            except OSError:
                pass
