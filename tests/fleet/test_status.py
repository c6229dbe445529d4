"""The observed state of a pipeline: from slots, and from workers that have none."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.status import status

RUNNING, IDLE = ("running", ""), ("idle", "no partition is left for it: the topic has 1")
FAILING = ("failing", "ClickHouse does not answer")


@pytest.fixture
def pipeline(store: FleetStore) -> str:
    made = store.pipelines.create("orders", "", "me").id
    store.pipelines.change_state(made, "me", desired="started", replicas=2)
    return made


def observed(store: FleetStore, pipeline: str) -> tuple[str, str]:
    found = status(store.pipelines.get(pipeline), store.leases.assignments(pipeline), [], store.workers.list())
    return found.observed, found.reason


def seen(store: FleetStore, worker: str, mode: Any, **instances: tuple[str, str]) -> None:
    store.workers.seen(worker, host="h", pid=1, mode=mode, version="1", ttl_ms=60_000, instances=instances)


def test_without_leases_it_is_what_the_instances_do(store: FleetStore, pipeline: str) -> None:
    assert observed(store, pipeline) == ("starting", "no worker is up")
    seen(store, "a", "no-leases")
    assert observed(store, pipeline) == ("starting", "no worker has taken a slot yet")
    seen(store, "a", "no-leases", **{pipeline: ("", "")})
    assert observed(store, pipeline) == ("starting", "")
    seen(store, "a", "no-leases", **{pipeline: FAILING})
    assert observed(store, pipeline) == FAILING
    seen(store, "b", "no-leases", **{pipeline: RUNNING})
    assert observed(store, pipeline) == ("degraded", FAILING[1])
    seen(store, "a", "no-leases", **{pipeline: RUNNING})
    assert observed(store, pipeline) == RUNNING
    store.pipelines.change_state(pipeline, "me", desired="stopped")
    assert observed(store, pipeline) == ("stopping", "2 slots are being drained")
    seen(store, "a", "no-leases")
    seen(store, "b", "no-leases")
    assert observed(store, pipeline) == ("stopped", "")


def test_a_replica_without_a_partition_is_no_trouble(store: FleetStore, pipeline: str) -> None:
    seen(store, "w", "leases")
    for slot, state in enumerate((RUNNING, IDLE)):
        (lease,) = store.leases.acquire("w", [(pipeline, slot)], 60_000)
        assert store.leases.report("w", lease, *state)
    assert observed(store, pipeline) == RUNNING
