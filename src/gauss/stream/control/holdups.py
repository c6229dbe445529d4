"""Which readers hold the writers of full topics back, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FORGOTTEN_SECONDS = 5.0
"""A slow reader lets writers in now and then: they are held back until none has waited for so long."""


@dataclass
class Holdup:
    """A reader for which the writers of a topic wait; empty if they wait for something else, such as a full disk."""

    reader: str
    since: float
    seen: float


class Holdups:
    """Follows samples of topics."""

    def __init__(self) -> None:
        self._found: dict[str, Holdup] = {}

    def look(self, topics: list[dict[str, Any]], now: float) -> None:
        """Takes one sample: its rows of topics."""
        for row in topics:
            name, reader = row["name"], row["blocked_reader"]
            found = self._found.get(name)
            if row["blocked_by"]:
                if found is None or found.reader != reader:
                    found = self._found[name] = Holdup(reader, now - row["blocked_s"], now)
                found.seen = now
            elif found is not None and now - found.seen > FORGOTTEN_SECONDS:
                del self._found[name]

    def of(self, topic: str) -> tuple[str, float] | None:
        """The reader that holds writers of a topic back, and the seconds since it does."""
        found = self._found.get(topic)
        return None if found is None else (found.reader, found.seen - found.since)
