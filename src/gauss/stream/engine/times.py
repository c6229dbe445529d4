"""What an epoch's tasks learnt of time, kept aside until its publish."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gauss.stream.protocol import At, Ends, StageTime

Key = tuple[str, str, int, int, int]


class StagedTimes:
    """One entry per range. On disk, as dead letters are: an epoch that writes nothing names no stage whose absence
    after an engine's restart would tell that they are gone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        kept = [msgspec.json.decode(path.read_bytes(), type=StageTime) for path in directory.glob("*.time")]
        self._times = {_key(time): time for time in kept}

    def put(self, time: StageTime) -> None:
        """The same range again (a task's retry) replaces what was known of it."""
        with self._lock:
            path = self._path(time)
            fresh = path.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(time))
            fresh.replace(path)
            self._times[_key(time)] = time

    def of(self, processor: str, start: Ends, end: Ends) -> list[StageTime]:
        """Those of an epoch's ranges."""
        with self._lock:
            return [
                time
                for time in self._times.values()
                if time.processor == processor and _within(time, start.get(time.topic), end.get(time.topic))
            ]

    def done(self, times: Iterable[StageTime]) -> None:
        """They are in the ledger."""
        with self._lock:
            for time in times:
                if self._times.pop(_key(time), None) is not None:
                    self._path(time).unlink(missing_ok=True)

    def sweep(self, processor: str, generation: int) -> None:
        """A new claim: what lower generations left goes."""
        with self._lock:
            stale = [
                time for time in self._times.values() if time.processor == processor and time.generation < generation
            ]
        self.done(stale)

    def _path(self, time: StageTime) -> Path:
        return self._directory / f"{hashlib.sha256(repr(_key(time)).encode()).hexdigest()[:32]}.time"


def seen_by(times: Iterable[StageTime]) -> dict[str, int]:
    """The largest event time by topic."""
    found: dict[str, int] = {}
    for time in times:
        if time.seen:
            found[time.topic] = max(found.get(time.topic, 0), time.seen)
    return found


def _key(time: StageTime) -> Key:
    return time.processor, time.topic, time.inc, time.start, time.stop


def _within(time: StageTime, start: At | None, end: At | None) -> bool:
    if end is None or time.inc != end.inc or time.stop > end.off:
        return False
    # Of a range that began in a dead incarnation, everything up to the end is this epoch's.
    return start is None or start.inc != time.inc or time.start >= start.off
