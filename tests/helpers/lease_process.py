"""A process that holds a slot and commits ranges of a partition. `python -m helpers.lease_process URL KEY TTL_MS`.

Prints a line of JSON per event: `{"held": epoch}`, `{"committed": [start, stop]}`, `{"refused": code}`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.claims import Claim, Intent, Outcome
from gauss.fleet.leases.keeper import HeldLease, LeaseKeeper
from gauss.fleet.leases.owner import Owner
from gauss.model.errors import GaussError

PAUSE = 0.02


def say(**event: object) -> None:
    print(json.dumps({"pid": os.getpid(), **event}), flush=True)


def main(url: str, key: str, ttl_ms: str) -> None:
    store = FleetStore(url, Path(key))
    worker_id = f"w-{os.getpid()}"
    keeper = LeaseKeeper(store.leases, worker_id, int(ttl_ms))
    keeper.start()
    while True:
        for held in keeper.acquire([(each.pipeline_id, each.slot) for each in store.leases.vacancies()][:1]):
            say(held=held.lease.epoch)
            try:
                work(store, worker_id, held)
            except GaussError as error:
                say(refused=error.code)
        time.sleep(PAUSE)


def work(store: FleetStore, worker_id: str, held: HeldLease) -> None:
    """Commits until it is refused. It never looks at its own deadline, so that only the store can stop it."""
    owner = Owner(worker_id, held.lease.pipeline_id, held.lease)
    new = store.claims.missing(held.lease.pipeline_id, "t", "id", [0])
    (claim,) = store.claims.take(owner, "t", "id", [0], dict.fromkeys(new, 0))
    while True:
        held.beat()
        claim = commit(store, owner, claim)
        time.sleep(PAUSE)


def commit(store: FleetStore, owner: Owner, claim: Claim) -> Claim:
    if claim.pending is None:
        (claim,) = store.claims.intend(owner, [(claim, Intent(claim.next_offset + 1, 1))])
    (moved,) = store.claims.advance(owner, [Outcome(claim, rows=1)])
    say(committed=[claim.next_offset, moved.next_offset], epoch=claim.epoch)
    return moved


if __name__ == "__main__":
    main(*sys.argv[1:])
