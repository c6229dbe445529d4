"""Metrics of the connectors of a stream, over attempts and runs."""

from __future__ import annotations

import logging

import pytest

from gauss.connect.metrics import MOST_METRICS, Key, StreamMetrics, Total, added, from_json, to_json
from gauss.contracts.connector.progress import Counter, Gauge, Histogram, Metric

RETRIES = Key("host", "retries")


def test_counters_of_attempts_and_times_of_commits_are_added_up() -> None:
    metrics = StreamMetrics()
    labels = [("stream", "people"), ("shard", "1")]
    for _ in range(2):
        for missed in (2, 5):  # the total of the attempt so far
            metrics.add("source-x", Metric("records_missed", Counter(missed), labels))
        metrics.add("dest-x", Metric("commit_ms", Histogram(10.0)))
        metrics.add("dest-x", Metric("lag", Gauge(7.0)))
        metrics.retry()
    metrics.add("dest-x", Metric("lag", Gauge(3.0)))
    found = metrics.totals()
    assert found == {
        RETRIES: Total("counter", 2),
        Key("source-x", "records_missed", (("shard", "1"),)): Total("counter", 10),
        Key("dest-x", "commit_ms"): Total("histogram", 20.0, 2),
        Key("dest-x", "lag"): Total("gauge", 3.0),
    }
    assert from_json(to_json(found)) == found
    both = added(found, found)
    assert (both[RETRIES].value, both[Key("dest-x", "lag")].value) == (4, 3.0)


def test_values_that_are_no_numbers_and_metrics_without_end_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    metrics = StreamMetrics()
    with caplog.at_level(logging.WARNING, "gauss.connect"):
        metrics.add("source-x", Metric("load", Gauge(float("nan"))))
        for number in range(MOST_METRICS + 10):
            metrics.add("source-x", Metric(f"row {number}", Counter(1)))
    assert len(metrics.totals()) == MOST_METRICS + 1
    assert [record.getMessage() for record in caplog.records] == [
        "source-x: metric load is left out, its value is nan",
        f"source-x: metrics beyond the first {MOST_METRICS} are left out",
    ]
