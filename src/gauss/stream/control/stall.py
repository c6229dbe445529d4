"""Detects queries that make no progress although records are waiting."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


class Stalls:
    """When each Spark query last made progress."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}

    def look(self, processors: list[Row], topics: list[Row], now: float) -> list[str]:
        """Queries that had unread records and made no progress for too long. A full target is not a stall."""
        blocked = {topic["name"] for topic in topics if topic.get("blocked_by") or topic.get("blocked_s")}
        stuck = []
        for row in processors:
            if row["where"] != "spark" or row.get("runs") in (
                "hosted",
                "table",
            ):
                continue
            place = (row["epoch"], row["records"])
            before, since = self._seen.get(row["name"], (None, now))
            full = not blocked.isdisjoint(row["targets"])
            idle = not row["behind"] or row["state"] not in ("running", "starting") or full
            if idle or place != before:
                since = now
            self._seen[row["name"]] = (place, since)
            if now - since >= self._seconds:
                stuck.append(str(row["name"]))
        return stuck

    def forget(self) -> None:
        """Starts over, after a restart of the driver."""
        self._seen.clear()
