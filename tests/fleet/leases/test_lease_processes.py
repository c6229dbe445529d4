"""Leases with real processes and connections: killed, suspended, and many at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pytest

from gauss.fleet.fleet_store import FleetStore
from helpers.waiting import suspend, wait_until

TTL_MS = 1_500
TESTS = Path(__file__).parents[2]


class Holder:
    """A `helpers.lease_process`, and the events that it has printed."""

    def __init__(self, url: str, key_path: Path) -> None:
        command = [sys.executable, "-m", "helpers.lease_process", url, str(key_path), str(TTL_MS)]
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.events.extend(json.loads(line) for line in self.process.stdout)

    def seen(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if name in event]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def pair(postgres_url: str, key_path: Path) -> Iterator[tuple[FleetStore, Holder, Holder]]:
    """A pipeline with one slot, the process that holds it, and one that waits for it."""
    store = FleetStore(postgres_url, key_path)
    pipeline = store.pipelines.create("orders", "", who="me")
    store.pipelines.change_state(pipeline.id, "me", desired="started")
    first = Holder(postgres_url, key_path)
    wait_until(lambda: first.seen("committed"))
    second = Holder(postgres_url, key_path)
    yield store, first, second
    first.end()
    second.end()
    store.close()


def ranges(*holders: Holder) -> list[list[int]]:
    return sorted(event["committed"] for holder in holders for event in holder.seen("committed"))


@pytest.mark.fault
@pytest.mark.system
def test_the_slot_of_a_killed_process_is_taken_and_its_ranges_are_continued(
    pair: tuple[FleetStore, Holder, Holder],
) -> None:
    store, first, second = pair
    first.end()
    wait_until(lambda: len(second.seen("committed")) > 3)
    assert second.seen("held")[0]["held"] == 2
    (shown,) = store.claims.list(store.pipelines.list()[0].id)
    assert shown.epoch == 2
    found = ranges(first, second)
    # The kill may have come between a commit and its line.
    missing = [start for start in range(found[-1][1]) if [start, start + 1] not in found]
    assert len(missing) <= 1
    assert len({tuple(each) for each in found}) == len(found)


@pytest.mark.fault
@pytest.mark.system
def test_a_suspended_process_commits_nothing_after_it_wakes(pair: tuple[FleetStore, Holder, Holder]) -> None:
    _, first, second = pair
    suspend(psutil.Process(first.process.pid))
    wait_until(lambda: second.seen("held"))
    wait_until(lambda: len(second.seen("committed")) > 3)
    before = len(first.events)
    first.process.send_signal(18)  # SIGCONT
    wait_until(lambda: first.seen("refused"))
    assert first.seen("refused")[0]["refused"] == "fenced"
    late = [event for event in first.events[before:] if "committed" in event]
    assert all(event["committed"][1] <= second.seen("committed")[0]["committed"][0] for event in late)
    found = ranges(first, second)
    assert len({tuple(each) for each in found}) == len(found), "a range was committed twice"


@pytest.mark.system
def test_many_connections_take_each_slot_once(postgres_url: str, key_path: Path) -> None:
    store = FleetStore(postgres_url, key_path, connections=10)
    for number in range(10):
        pipeline = store.pipelines.create(f"p{number}", "", who="me")
        store.pipelines.change_state(pipeline.id, "me", desired="started", replicas=5)
    slots = [(each.pipeline_id, each.slot) for each in store.leases.vacancies()]
    start, taken = threading.Barrier(10), SimpleQueue[Any]()

    def acquire(worker: str) -> None:
        start.wait()
        for lease in store.leases.acquire(worker, slots, 60_000):
            taken.put(lease)

    threads = [threading.Thread(target=acquire, args=(f"w{number}",)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leases = [taken.get() for _ in range(taken.qsize())]
    assert sorted((lease.pipeline_id, lease.slot) for lease in leases) == sorted(slots)
    assert all(lease.epoch == 1 for lease in leases)
    store.close()
