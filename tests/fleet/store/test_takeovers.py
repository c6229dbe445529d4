"""The history of slots: an entry for each epoch, with its end, whoever noticed it."""

from __future__ import annotations

import time

from gauss.fleet.fleet_store import FleetStore

LONG, SHORT = 60_000, 50


def test_each_epoch_of_a_slot_has_its_holder_and_its_end(store: FleetStore) -> None:
    made = store.pipelines.create("orders", "", "me").id
    store.pipelines.change_state(made, "me", desired="started", replicas=2)
    first, second = store.leases.acquire("a", [(made, 0), (made, 1)], SHORT)
    while store.leases.assignments(made):
        time.sleep(0.01)
    ended = {each.slot: each.ended_at for each in store.takeovers.list(made, LONG)}
    assert None not in ended.values()
    (third,) = store.leases.acquire("b", [(made, 0)], LONG)  # of a worker that has died
    assert store.leases.renew("b", [third], LONG) == {third}
    found = store.takeovers.list(made, LONG)
    assert [(each.slot, each.epoch, each.worker_id) for each in found] == [(0, 1, "a"), (0, 2, "b"), (1, 1, "a")]
    assert [each.ended_at for each in found] == [ended[0], None, ended[1]]
    assert found[0].began_at <= ended[0] <= found[1].began_at  # type: ignore[operator]
    store.leases.release("b", [third])
    assert store.takeovers.list(made, LONG)[1].ended_at is not None
    assert not store.leases.release("a", [first, second])
    assert store.takeovers.list(made, 0) == []
    store.pipelines.delete(made, "me")
    assert store.takeovers.list(made, LONG) == []
