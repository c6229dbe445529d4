"""Pipelines and their desired state, and what is recorded of each change."""

from __future__ import annotations

import threading

import pytest

from gauss.fleet.fleet_store import FleetStore, store_address
from gauss.model.errors import ConfigError, NotFound


def test_a_new_pipeline_is_stopped_with_one_replica(store: FleetStore) -> None:
    made = store.pipelines.create("orders", "of all shops", who="me")
    assert (made.desired, made.replicas, made.version) == ("stopped", 1, 0)
    assert store.pipelines.get(made.id) == made
    assert store.pipelines.list() == [made]


def test_a_change_of_one_part_of_the_state_keeps_the_other(store: FleetStore) -> None:
    pipeline = store.pipelines.create("orders", "", who="me")
    store.pipelines.change_state(pipeline.id, "me", desired="started")
    found = store.pipelines.change_state(pipeline.id, "me", replicas=5)
    assert (found.desired, found.replicas) == ("started", 5)
    found = store.pipelines.change_state(pipeline.id, "me", desired="stopped")
    assert (found.desired, found.replicas) == ("stopped", 5)


@pytest.mark.parametrize("replicas", [-1, 0, 1001, 10_000, 2**63])
def test_a_number_of_replicas_out_of_range_is_refused(store: FleetStore, replicas: int) -> None:
    pipeline = store.pipelines.create("orders", "", who="me")
    with pytest.raises(ConfigError, match="expected 1 to 1,000"):
        store.pipelines.change_state(pipeline.id, "me", replicas=replicas)


def test_slots_exist_for_all_replicas_and_stay_when_there_are_fewer(store: FleetStore) -> None:
    pipeline = store.pipelines.create("orders", "", who="me")
    store.pipelines.change_state(pipeline.id, "me", desired="started", replicas=1000)
    assert len(store.leases.vacancies()) == 1000
    (held,) = store.leases.acquire("w", [(pipeline.id, 999)], 60_000)
    store.leases.release("w", [held])
    store.pipelines.change_state(pipeline.id, "me", replicas=2)
    assert [each.slot for each in store.leases.vacancies()] == [0, 1]
    store.pipelines.change_state(pipeline.id, "me", replicas=1000)
    (again,) = store.leases.acquire("w", [(pipeline.id, 999)], 60_000)
    assert again.epoch == held.epoch + 1


def test_a_deleted_pipeline_leaves_only_its_audit_entries(store: FleetStore) -> None:
    pipeline = store.pipelines.create("orders", "", who="ann")
    store.pipelines.change_state(pipeline.id, "bob", desired="started")
    store.leases.acquire("w", [(pipeline.id, 0)], 60_000)
    store.pipelines.delete(pipeline.id, "cid")
    assert store.pipelines.list() == []
    assert store.leases.assignments() == []
    for call in (store.pipelines.get, lambda each: store.pipelines.delete(each, "me")):
        with pytest.raises(NotFound, match="no pipeline"):
            call(pipeline.id)
    entries = [(each.who, each.action) for each in store.audit.entries(pipeline_id=pipeline.id)]
    assert entries == [("cid", "pipeline.delete"), ("bob", "pipeline.state"), ("ann", "pipeline.create")]


def test_a_change_of_nothing_is_not_recorded(store: FleetStore) -> None:
    pipeline = store.pipelines.create("orders", "", who="me")
    store.pipelines.change_state(pipeline.id, "me", desired="stopped", replicas=1)
    store.pipelines.update(pipeline.id, "me", name="orders")
    assert [each.action for each in store.audit.entries()] == ["pipeline.create"]


def test_pages_of_the_audit_log_follow_each_other(store: FleetStore) -> None:
    for number in range(5):
        store.pipelines.create(f"p{number}", "", who="me")
    first = store.audit.entries(limit=3)
    rest = store.audit.entries(limit=3, before=first[-1].id)
    assert [each.detail["name"] for each in [*first, *rest]] == ["p4", "p3", "p2", "p1", "p0"]


def test_concurrent_changes_and_deletions_end_without_errors(store: FleetStore) -> None:
    """Deletions take locks in the order of all others; otherwise a database would end one of two transactions."""
    errors: list[Exception] = []

    def live() -> None:
        try:
            for _ in range(8):
                pipeline = store.pipelines.create("orders", "", who="me")
                store.pipelines.change_state(pipeline.id, "me", desired="started", replicas=4)
                mine = store.leases.acquire("w", [(pipeline.id, slot) for slot in range(4)], 60_000)
                renewing = threading.Thread(target=store.leases.renew, args=("w", mine, 60_000))
                renewing.start()
                store.pipelines.delete(pipeline.id, "me")
                renewing.join()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=live) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.pipelines.list() == []


def test_store_urls_name_a_file_or_a_server() -> None:
    assert str(store_address("sqlite:///a/fleet.db")) == "a/fleet.db"
    assert str(store_address("sqlite:////var/fleet.db")) == "/var/fleet.db"
    assert store_address("postgresql://u@h/d") == "postgresql://u@h/d"
    for wrong in ("fleet.db", "mysql://h/d", "sqlite://", "sqlite:///"):
        with pytest.raises(ConfigError, match="--store"):
            store_address(wrong)
