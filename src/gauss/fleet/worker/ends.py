"""The ends of partitions: asked for all pipelines of a cluster at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from gauss.fleet.worker.fences import OtherTopic
from gauss.model.errors import GaussError, NotFound, Unavailable

FRESH_SECONDS = 0.25
IDS_SECONDS = 2.0
"""How often the ids of topics are asked for, if nothing looks as if one had changed."""
ANSWER_SECONDS = 5.0
"""All instances wait for one request, and their leases need progress."""
UNUSED_SECONDS = 30.0


class ClusterEnds:
    """The stable ends of partitions of one cluster."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._admin = Admin(settings)
        self._wanted: dict[tuple[str, int], float] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._failed: dict[tuple[str, int], GaussError] = {}
        """By partition, why the last request did not tell its end."""
        self._ids: dict[str, str | GaussError] = {}
        self._asked_at = self._ids_at = float("-inf")
        self._lock = threading.Lock()

    def ends(self, topic: str, topic_id: str, partitions: Iterable[int]) -> dict[int, int]:
        """The ends that are known, at most a quarter of a second old. Whoever finds them older asks for everybody.

        Raises OtherTopic if the topic has another id, or why there is no answer about it: NotFound, ConfigError or
        Unavailable."""
        places = [(topic, number) for number in partitions]
        with self._lock:
            now = time.monotonic()
            self._wanted.update(dict.fromkeys(places, now))
            is_new = any(place not in self._ends and place not in self._failed for place in places)
            is_new |= topic not in self._ids
            if now - self._asked_at > FRESH_SECONDS or is_new:
                self._wanted = {place: at for place, at in self._wanted.items() if now - at < UNUSED_SECONDS}
                self._ask()
            found = self._ids[topic]
            if found != topic_id and not isinstance(found, Unavailable):  # the caller may have a newer one
                found = self._ids[topic] = self._admin.topic_ids([topic], ANSWER_SECONDS)[topic]
            if isinstance(found, GaussError):
                raise found
            if found != topic_id:
                raise OtherTopic.of(topic)
            errors = [self._failed[place] for place in places if place in self._failed]
            if len(errors) == len(places) and not isinstance(errors[0], NotFound):  # a new one, not known everywhere
                raise errors[0]
            return {place[1]: self._ends[place] for place in places if place in self._ends}

    def _ask(self) -> None:
        """Ids are asked for after the ends: a topic that has the same one still is that whose ends they are."""
        found = self._admin.stable_ends(list(self._wanted), ANSWER_SECONDS)
        self._failed = {place: each for place, each in found.items() if isinstance(each, GaussError)}
        self._asked_at = time.monotonic()
        topics = {topic for topic, _ in self._wanted}
        silent = next((each for each in self._failed.values() if isinstance(each, Unavailable)), None)
        if silent is not None and len(self._failed) == len(found):  # so would be the answers to another question
            self._ids |= dict.fromkeys(topics - self._ids.keys(), silent)
            return
        ends = {place: each for place, each in found.items() if isinstance(each, int)}
        suspects = {place[0] for place, end in ends.items() if end < self._ends.get(place, 0)}
        suspects |= {place[0] for place, error in self._failed.items() if isinstance(error, NotFound)}
        if time.monotonic() - self._ids_at > IDS_SECONDS:
            suspects, self._ids_at = topics, time.monotonic()
        ids = self._admin.topic_ids(sorted(suspects | topics - self._ids.keys()), ANSWER_SECONDS)
        for topic, found_id in ids.items():
            if not isinstance(found_id, Unavailable) or topic not in self._ids:  # else the one that is known stays
                self._ids[topic] = found_id
        self._ids = {topic: self._ids[topic] for topic in topics}
        self._ends = {place: end for place, end in (self._ends | ends).items() if place in self._wanted}

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
