"""The load of a Postgres store: a thousand pipelines with three replicas each, held by twenty workers.

The workers are the real ones but for their instances, which do nothing: an idle instance writes hardly anything to the
store, since its worker renews the leases of all.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.leases.keeper import HeldLease
from gauss.fleet.leases.slots import Wanted
from gauss.fleet.worker.ends import Clusters
from gauss.fleet.worker.instance import Surroundings
from gauss.fleet.worker.range_work import RangeWork
from gauss.fleet.worker.runner import Answer
from gauss.fleet.worker.worker import FleetWorker, Settings

PIPELINES, REPLICAS, WORKERS = 1_000, 3, 20
MEASURED_SECONDS = 60.0


class IdleInstance:
    """An instance of a pipeline without records."""

    def __init__(self, held: HeldLease, wanted: Wanted) -> None:
        self.held, self.wanted, self.is_done = held, wanted, False

    def stop(self) -> None:
        self.is_done = True

    def join(self, _: float) -> bool:
        return self.is_done


class IdleRunner:
    def check(self) -> None:
        """It runs nothing."""

    def run(self, pipeline_id: str, works: Sequence[RangeWork], *, is_trial: bool = False) -> list[Answer]:
        raise NotImplementedError  # there are no records


class SimulatedWorker(FleetWorker):
    def _begin(self, held: HeldLease, wanted: Wanted) -> None:
        self._slots[held.lease] = IdleInstance(held, wanted)  # type: ignore[assignment]

    def reconcile(self) -> None:
        for each in self._keeper.held():
            each.beat()
        super().reconcile()


def run() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder, ensure("postgres", Path(folder) / "postgres") as server:
        store = FleetStore(server.endpoint.url, Path(folder) / "key")
        for number in range(PIPELINES):
            made = store.pipelines.create(f"p{number}", "", "bench")
            store.pipelines.change_state(made.id, "bench", desired="started", replicas=REPLICAS)
        stop, threads, stores = threading.Event(), [], []
        for _ in range(WORKERS):
            stores.append(FleetStore(server.endpoint.url, Path(folder) / "key", connections=2))
            worker = SimulatedWorker(Surroundings(stores[-1], IdleRunner(), Clusters(), 20_000), Settings())
            threads.append(threading.Thread(target=worker.run, args=(stop,)))
            threads[-1].start()
        began = time.perf_counter()
        while len(store.leases.assignments()) < PIPELINES * REPLICAS or not is_even(store):
            time.sleep(0.5)
        spread = time.perf_counter() - began
        before, cpu, at = sum(store.leases.acquisitions().values()), cpu_of(server), time.perf_counter()
        with lost_leases() as lost:
            time.sleep(MEASURED_SECONDS)
        share = (cpu_of(server) - cpu) / (time.perf_counter() - at)
        moved = sum(store.leases.acquisitions().values()) - before
        stop.set()
        for thread in threads:
            thread.join()
        for each in [*stores, store]:
            each.close()
    what = f"{PIPELINES:,} pipelines × {REPLICAS} replicas, {WORKERS} workers"
    return [
        {"what": f"{what}: Postgres", "measured": f"{share:.1%} of a core", "aim": "< 10 %"},
        {"what": f"{what}: leases lost", "measured": len(lost), "aim": "0"},
        {"what": f"{what}: slots moved to spread replicas", "measured": moved, "aim": ""},
        {"what": f"{what}: from the start to even shares", "measured": f"{spread:.0f} s", "aim": ""},
    ]


@contextmanager
def lost_leases() -> Iterator[list[str]]:
    """What the workers say of leases that they could not renew."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    handler.addFilter(lambda record: record.msg == "the slot is lost")
    logger = logging.getLogger("gauss.fleet")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def is_even(store: FleetStore) -> bool:
    loads = store.leases.loads().values()
    return len(loads) == WORKERS and max(loads) - min(loads) <= 1


def cpu_of(server: EmbeddedServer) -> float:
    """Of all processes of Postgres, those that have ended included."""
    assert server.process is not None
    owner = psutil.Process(server.process.pid)
    return sum(sum(each.cpu_times()[:4]) for each in [owner, *owner.children(recursive=True)])
