"""Shows positions of readers as committed offsets of Kafka groups, so that ordinary lag tools see them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from gauss.clients.kafka.admin import Admin
from gauss.model.errors import GaussError

log = logging.getLogger("gauss.kafka")

INTERVAL_SECONDS = 1.0
_STOP_SECONDS = 2.0


class GroupPositions:
    """Commits the newest position of each group at most once a second, in a thread of its own: a commit takes 40 ms,
    and much longer while a coordinator moves."""

    def __init__(self, admin: Admin, topic: str) -> None:
        self._admin, self._topic = admin, topic
        self._changed: dict[str, Mapping[int, int]] = {}
        self._shown: dict[str, Mapping[int, int]] = {}
        self._lock = threading.Lock()
        self._failed: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, group: str, ends: Mapping[int, int]) -> None:
        with self._lock:
            if self._shown.get(group) == ends:
                return
            self._changed[group] = dict(ends)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"kafka groups {self._topic}", daemon=True)
                self._thread.start()

    def forget(self) -> None:
        """Shows all positions again: the topic was made anew, and its offsets of groups went with the old one."""
        with self._lock:
            self._shown.clear()

    def _run(self) -> None:
        while True:
            self._commit()
            if self._stop.wait(INTERVAL_SECONDS):
                self._commit()
                return

    def _commit(self) -> None:
        with self._lock:
            changed, self._changed = self._changed, {}
        for group, ends in changed.items():
            try:
                self._admin.commit(group, self._topic, ends)
                self._shown[group] = ends
                self._failed.discard(group)
            except Exception as error:  # also of the library, whose other errors must not end the thread
                if group not in self._failed:
                    why = error.message if isinstance(error, GaussError) else repr(error)
                    log.warning("group %s: its position is not shown in Kafka: %s", group, why)
                self._failed.add(group)
                with self._lock:
                    self._changed.setdefault(group, ends)  # tried again, unless there is a newer one

    def close(self) -> None:
        """Commits what is left, if the brokers answer."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
