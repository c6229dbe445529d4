"""The ends of partitions: asked for all pipelines of a cluster at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings

FRESH_SECONDS = 0.25


class ClusterEnds:
    """The stable ends of partitions of one cluster."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._admin = Admin(settings)
        self._wanted: dict[tuple[str, int], float] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._asked_at = float("-inf")
        self._lock = threading.Lock()

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The ends that are known, at most a quarter of a second old. Whoever finds them older asks for everybody."""
        places = [(topic, number) for number in partitions]
        with self._lock:
            now = time.monotonic()
            self._wanted.update(dict.fromkeys(places, now))
            if now - self._asked_at > FRESH_SECONDS or any(place not in self._ends for place in places):
                self._wanted = {place: at for place, at in self._wanted.items() if now - at < 30.0}
                self._ends |= self._admin.stable_ends(list(self._wanted))
                self._asked_at = time.monotonic()
            return {place[1]: self._ends[place] for place in places if place in self._ends}

    @property
    def admin(self) -> Admin:
        return self._admin


class Clusters:
    """The clusters that the pipelines of a worker read from."""

    def __init__(self) -> None:
        self._known: dict[str, ClusterEnds] = {}
        self._lock = threading.Lock()

    def of(self, settings: KafkaSettings) -> ClusterEnds:
        key = json.dumps(settings.model_dump(mode="json"), sort_keys=True)
        with self._lock:
            if key not in self._known:
                self._known[key] = ClusterEnds(settings)
            return self._known[key]
