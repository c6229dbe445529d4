"""Counters and durations of the engine, in the Prometheus text format."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gauss.http.metrics import render

PREFIX = "gauss_dbstates_"
COUNTERS = {
    "cache_hits_total": "Prepared states that were in the cache",
    "cache_misses_total": "Steps that were executed",
    "jobs_total": "Jobs that have ended, by status",
    "states_evicted_total": "States removed to free space",
    "warm_hits_total": "Instances handed out from the warm pool",
    "instances_expired_total": "Instances removed at the end of their life time",
}
DURATIONS = {
    "planning": "Planning of a job",
    "instance_bind": "Clone and start of an instance",
    "execution": "Execution of a step",
    "snapshot": "Snapshot of a state, with its preparation",
    "run": "Run of a tool on an instance",
}


class Metrics:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._times: Counter[str] = Counter()

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += by

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Adds the duration of a block that succeeds."""
        started = time.perf_counter()
        yield
        with self._lock:
            self._times[name] += 1
            self._seconds[name] += time.perf_counter() - started  # type: ignore[assignment]

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """All metrics; `gauges` are further values with their help."""
        found: list[dict[str, Any]] = []
        with self._lock:
            for name, help_text in COUNTERS.items():
                samples = {key[1]: value for key, value in self._counts.items() if key[0] == name} or {(): 0}
                found += [_sample(name, "counter", help_text, value, dict(labels)) for labels, value in samples.items()]
            for name, help_text in DURATIONS.items():
                family = f"{name}_seconds"
                for suffix, value in (("sum", round(float(self._seconds[name]), 6)), ("count", self._times[name])):
                    found.append(_sample(f"{family}_{suffix}", "counter", f"{help_text}: {suffix}", value))
        found += [_sample(name, "gauge", help_text, value) for name, (help_text, value) in gauges.items()]
        return render(found)


def _sample(name: str, kind: str, help_text: str, value: float, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": PREFIX + name, "type": kind, "help": help_text, "labels": labels or {}, "value": value}
