"""What the connectors of a stream have measured, added up over attempts and runs."""

from __future__ import annotations

import logging
import math
import threading
from typing import Any, NamedTuple

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.progress import Counter, Gauge, Histogram, Metric, MetricValue

log = logging.getLogger("gauss.connect")
MOST_METRICS = 200
"""Of a stream; a connector that makes names or labels of its data has more."""
HOST = "host"
"""The name under which the host itself measures."""


class Key(NamedTuple):
    connector: str
    name: str
    labels: tuple[tuple[str, str], ...] = ()


class Total(NamedTuple):
    kind: str
    """`counter`, `gauge` or `histogram`."""
    value: float
    """The newest value of a gauge, else a sum."""
    number: int = 0
    """Values of a histogram."""


Totals = dict[Key, Total]


def added(left: Totals, right: Totals) -> Totals:
    """Counters and histograms of both; a gauge is that of `right`."""
    found = dict(left)
    for key, each in right.items():
        known = found.get(key)
        if known is not None and known.kind == each.kind != "gauge":
            found[key] = Total(each.kind, known.value + each.value, known.number + each.number)
        else:
            found[key] = each
    return found


def to_json(totals: Totals) -> list[dict[str, Any]]:
    found = []
    for key, each in sorted(totals.items()):
        made: dict[str, Any] = {"connector": key.connector, "name": key.name, "kind": each.kind, "value": each.value}
        if key.labels:
            made["labels"] = dict(key.labels)
        if each.kind == "histogram":
            made["count"] = each.number
        found.append(made)
    return found


def from_json(metrics: list[dict[str, Any]]) -> Totals:
    return {
        Key(each["connector"], each["name"], tuple(each.get("labels", {}).items())): Total(
            each["kind"], each["value"], each.get("count", 0)
        )
        for each in metrics
    }


class StreamMetrics:
    """The metrics of a stream in one run of a sync. Thread-safe."""

    def __init__(self) -> None:
        self._before: Totals = {Key(HOST, "retries"): Total("counter", 0)}
        self._attempt: Totals = {}
        self._lock = threading.Lock()
        self._is_full = False

    def add(self, connector: str, metric: Metric) -> None:
        """Adds what a connector has measured. The value of a counter is its total in this attempt."""
        key, made = key_of(connector, metric), _total(metric.value)
        if not math.isfinite(made.value):
            log.warning("%s: metric %s is left out, its value is %s", connector, metric.name, made.value)
            return
        with self._lock:
            known = self._attempt.get(key)
            if known is None and len(self._attempt) >= MOST_METRICS:
                if not self._is_full:
                    log.warning("%s: metrics beyond the first %s are left out", connector, MOST_METRICS)
                self._is_full = True
                return
            if known is not None and known.kind == made.kind == "histogram":
                made = Total(made.kind, known.value + made.value, known.number + 1)
            self._attempt[key] = made

    def retry(self) -> None:
        """Another attempt follows: its connectors count from 0 again."""
        with self._lock:
            once = {Key(HOST, "retries"): Total("counter", 1)}
            self._before, self._attempt = added(added(self._before, self._attempt), once), {}

    def totals(self) -> Totals:
        with self._lock:
            return added(self._before, self._attempt)


def _total(value: MetricValue) -> Total:
    match value:
        case Counter():
            return Total("counter", value.value)
        case Gauge():
            return Total("gauge", value.value)
        case Histogram():
            return Total("histogram", value.value, 1)
    raise ConnectorError.internal("BAD_METRIC", f"a metric has a Counter, Gauge or Histogram, found {value!r}")


def key_of(connector: str, metric: Metric) -> Key:
    """What a metric is known by. Its stream is known anyway."""
    labels = sorted((str(name), str(text)) for name, text in metric.labels if name != "stream")
    return Key(connector, str(metric.name), tuple(labels))
