"""The metrics of a fleet for Prometheus, computed from the store; `docs/fleet-dashboard.json` shows them in Grafana."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gauss.api.fleet.statuses import NO_LETTERS, status_of
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.claims import ClaimShown
from gauss.fleet.status import by_pipeline, lag_seconds

OBSERVED = ("stopped", "stopping", "starting", "running", "degraded", "failing")
Value = Callable[[ClaimShown], float]
PARTITIONS: tuple[tuple[str, str, str, Value], ...] = (
    ("rows_total", "counter", "Rows inserted", lambda each: each.rows),
    ("bytes_total", "counter", "Bytes of the records of inserted rows", lambda each: each.bytes),
    ("batches_total", "counter", "Ranges committed", lambda each: each.batches),
    ("insert_seconds_total", "counter", "Time to read and insert ranges", lambda each: each.insert_ms / 1000),
    ("dead_letters_total", "counter", "Records that became no rows", lambda each: each.dead_letters),
    ("lag_messages", "gauge", "Messages that are not yet committed", lambda each: each.lag),
    ("lag_seconds", "gauge", "Age of the oldest message that is not yet committed", lag_seconds),
    (
        "partitions_claimed_total",
        "counter",
        "How often a worker took the partition: its epoch",
        lambda each: each.epoch,
    ),
)


def fleet_metrics(store: FleetStore) -> list[dict[str, Any]]:
    """Counters and gauges of all pipelines."""
    found: list[dict[str, Any]] = []
    held, claims, workers = by_pipeline(store.leases.assignments()), store.claims.all(), store.workers.list()
    acquired, letters = store.leases.acquisitions(), store.letters.totals()

    def add(name: str, kind: str, help_text: str, value: float, **labels: str) -> None:
        found.append({"name": f"gauss_fleet_{name}", "type": kind, "help": help_text, "labels": labels, "value": value})

    for mode in ("leases", "no-leases"):
        up = sum(each.live and each.mode == mode for each in workers)
        add("workers", "gauge", "Workers that are up", up, mode=mode)
    for each in store.pipelines.list():
        label = {"pipeline": each.name, "pipeline_id": each.id}
        mine, slots = claims.get(each.id, []), held.get(each.id, [])
        wanted = each.replicas if each.desired == "started" else 0
        totals = letters.get(each.id, NO_LETTERS)
        seen = status_of(each, slots, mine, workers, totals)
        ratio, alert = seen["dead_ratio"], int(bool(seen["alert"]))
        add("slots_desired", "gauge", "Replicas that are wanted", wanted, **label)
        add("slots_held", "gauge", "Slots that workers hold", len(slots), **label)
        add("slots_acquired_total", "counter", "Slots that workers acquired", acquired.get(each.id, 0), **label)
        for name in OBSERVED:
            is_seen = int(seen["observed"] == name)
            add("state", "gauge", "1 for the state that is observed", is_seen, **label, state=name)
        add("dead_letter_ratio", "gauge", "Share of recent records that became dead letters", ratio, **label)
        add("alert", "gauge", "1 if somebody should look at its dead letters", alert, **label)
        add("dead_letters_kept", "gauge", "Dead letters in the store", totals.kept, **label)
        add("dead_letters_dropped_total", "counter", "Dead letters without room", totals.dropped, **label)
        add("dead_letters_expired_total", "counter", "Dead letters removed as old", totals.expired, **label)
        for one in mine:
            place = {**label, "topic": one.topic, "partition": str(one.partition)}
            for name, kind, help_text, value in PARTITIONS:
                add(name, kind, help_text, value(one), **place)
    return found
