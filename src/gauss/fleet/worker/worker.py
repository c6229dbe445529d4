"""The reconcile loop: compares what is wanted with what runs here, and takes or leaves slots."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from importlib.metadata import version
from typing import NamedTuple

from gauss.fleet.leases.balance import Peer, surplus, targets
from gauss.fleet.leases.keeper import HeldLease, LeaseKeeper
from gauss.fleet.leases.owner import Owner
from gauss.fleet.leases.placement import UNLIMITED, Limits, choose
from gauss.fleet.leases.slots import SlotLease, Wanted
from gauss.fleet.logs import about
from gauss.fleet.worker.file_instance import FileInstance
from gauss.fleet.worker.instance import Instance, Surroundings
from gauss.model.errors import ConfigError, GaussError
from gauss.process.identity import boot_id

LEAST_TTL_MS = 6_000
"""Brokers refuse shorter sessions by default."""
DRAIN_SECONDS = 20.0
ROUNDS = 3
SPREAD_EVERY = 4
"""Reconciles after which a worker looks whether replicas of one pipeline could be spread better."""
AVOID_RECONCILES = 4
"""A slot that was given away is left to others for so long."""
log = logging.getLogger("gauss.fleet")


class Settings(NamedTuple):
    """The options of a worker."""

    ttl_ms: int = 20_000
    reconcile_ms: int = 5_000
    leases: bool = True
    limits: Limits = UNLIMITED

    def check(self) -> None:
        """Raises ConfigError."""
        if self.ttl_ms < LEAST_TTL_MS:
            raise ConfigError(
                f"--lease-ttl: expected at least 6s, found {self.ttl_ms} ms",
                hint="brokers refuse shorter sessions of group members",
            )
        if self.reconcile_ms < 100 or self.ttl_ms < 3 * self.reconcile_ms:
            raise ConfigError(
                f"--reconcile-every: expected 100 ms to a third of --lease-ttl, found {self.reconcile_ms} ms",
                hint="a lease must survive two renewals that fail",
            )


def new_worker_id() -> str:
    """Names this process: no other one has it, on whatever host and after whatever restart."""
    return f"{socket.gethostname()}-{os.getpid()}-{boot_id()[:8]}-{os.urandom(4).hex()}"


class FleetWorker:
    """One worker process."""

    def __init__(self, around: Surroundings, settings: Settings) -> None:
        settings.check()
        self.id = new_worker_id()
        self._around, self._settings = around, settings
        self._keeper = LeaseKeeper(around.store.leases, self.id, settings.ttl_ms)
        self._slots: dict[SlotLease, Instance | FileInstance] = {}
        self._unleased: dict[str, Instance] = {}
        self._given: dict[tuple[str, int], int] = {}
        """Slots that were given to other workers, with the number of the reconcile."""
        self._reconciles = 0

    def run(self, stop: threading.Event) -> None:
        """Reconciles until it is stopped; then drains and releases everything. Raises Unavailable if it can run nothing
        any more: the slots are for others then."""
        self._keeper.start()
        pause = random.uniform(0, 0.2)  # workers that start at the same time do not ask at the same time
        try:
            while not stop.wait(pause):
                self._around.runner.check()
                try:
                    self.reconcile()
                except GaussError as error:
                    log.warning("the store can't be asked: %s", error.message)
                except Exception:  # a worker that ends would let go of everything
                    log.exception("reconciling failed")
                pause = self._settings.reconcile_ms / 1000 * random.uniform(0.8, 1.2)
        finally:
            self.close()

    def reconcile(self) -> None:
        store, settings = self._around.store, self._settings
        mode = "leases" if settings.leases else "no-leases"
        store.workers.seen(
            self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            mode=mode,  # type: ignore[arg-type]
            version=version("gauss"),
            ttl_ms=settings.ttl_ms,
            max_slots=settings.limits.slots,
            max_replicas=settings.limits.per_pipeline,
            instances={pipeline_id: instance.shown for pipeline_id, instance in self._unleased.items()},
        )
        wanted = store.leases.wanted()
        self._reconciles += 1
        if settings.leases:
            self._leave(wanted)
            peers = self._peers(wanted)
            share = self._balance(wanted, peers)
            self._acquire(wanted, share)
        else:
            self._run_unleased(wanted)

    def _leave(self, wanted: dict[str, Wanted]) -> None:
        """Stops instances that are not wanted, and releases their slots once they have drained."""
        free = []
        for lease, instance in list(self._slots.items()):
            found = wanted.get(lease.pipeline_id)
            if found is None or lease.slot >= found.replicas:
                instance.stop()
            else:
                instance.wanted = found
            if instance.is_done:
                del self._slots[lease]
                free.append(lease)
        self._keeper.release(free)

    def _peers(self, wanted: dict[str, Wanted]) -> list[Peer]:
        """The workers that take slots, this one included."""
        replicas = [each.replicas for each in wanted.values()]
        return [
            Peer.of(each.id, Limits(each.max_slots, each.max_replicas), replicas)
            for each in self._around.store.workers.list()
            if each.live and each.mode == "leases"
        ]

    def _balance(self, wanted: dict[str, Wanted], peers: list[Peer]) -> int:
        """Gives slots away that others should have; returns how many this worker should hold."""
        leases = self._around.store.leases
        loads = leases.loads()
        loads[self.id] = len(self._slots)
        total = sum(each.replicas for each in wanted.values())
        share = targets(total, peers, loads)
        kept = [lease for lease in self._slots if (lease.pipeline_id, lease.slot) not in self._given]
        excess = len(kept) - share.get(self.id, 0)
        if len(peers) > 1 and kept and (excess > 0 or self._reconciles % SPREAD_EVERY == 0):
            for lease in surplus(self.id, kept, peers, leases.replicas_held(), share):
                log.info("the slot is given to another worker", extra=about(lease.pipeline_id, lease.slot))
                self._given[(lease.pipeline_id, lease.slot)] = self._reconciles
                self._slots[lease].stop()
        return share.get(self.id, 0)

    def _acquire(self, wanted: dict[str, Wanted], share: int) -> None:
        store, settings = self._around.store, self._settings
        oldest = self._reconciles - AVOID_RECONCILES
        held = {(lease.pipeline_id, lease.slot) for lease in self._slots}
        self._given = {slot: at for slot, at in self._given.items() if at > oldest or slot in held}
        for _ in range(ROUNDS):
            mine = [each.lease for each in self._keeper.held()]
            slots = choose(
                [each for each in store.leases.vacancies() if each.pipeline_id in wanted],  # others started since
                mine,
                fair_share=share,
                patience_ms=settings.reconcile_ms,
                limits=settings.limits,
                avoid=self._given,
            )
            if not slots or not (taken := self._keeper.acquire(slots)):
                return
            try:
                for held_lease in taken:
                    self._begin(held_lease, wanted[held_lease.lease.pipeline_id])
            finally:  # without an instance nobody would end them
                self._keeper.release([each.lease for each in taken if each.lease not in self._slots])

    def _begin(self, held: HeldLease, wanted: Wanted) -> None:
        instance: Instance | FileInstance
        if wanted.is_file:
            around = self._around
            instance = FileInstance(around.store, self.id, held, wanted, around.data_dir / "pipelines")
        else:
            instance = Instance(self._around, Owner(self.id, held.lease.pipeline_id, held.lease), held, wanted)
        log.info("the slot is taken, epoch %d", held.lease.epoch, extra=about(held.lease.pipeline_id, held.lease.slot))
        instance.start()
        self._slots[held.lease] = instance

    def _run_unleased(self, wanted: dict[str, Wanted]) -> None:
        """One instance of each started pipeline, whatever its replicas. One that is a file would run as often as there
        are workers, so it is left to workers with leases."""
        wanted = {pipeline_id: found for pipeline_id, found in wanted.items() if not found.is_file}
        for pipeline_id, instance in list(self._unleased.items()):
            if pipeline_id not in wanted:
                instance.stop()
            else:
                instance.wanted = wanted[pipeline_id]
            if instance.is_done:
                del self._unleased[pipeline_id]
        for pipeline_id, found in wanted.items():
            if pipeline_id not in self._unleased:
                instance = Instance(self._around, Owner(self.id, pipeline_id), None, found)
                self._unleased[pipeline_id] = instance
                instance.start()

    def metrics(self) -> str:
        """What this worker alone knows, as Prometheus reads it. All else is in the metrics of `gauss serve`."""
        held = self._keeper.held()
        found = {
            "gauss_worker_slots_held": len(held),
            "gauss_worker_slots_usable": sum(each.is_usable for each in held),
            "gauss_worker_instances": len(self._slots) + len(self._unleased),
        }
        return "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in found.items())

    def close(self) -> None:
        """Drains all instances, then lets go of their slots at once."""
        instances = [*self._slots.items()]
        for each in [*self._slots.values(), *self._unleased.values()]:
            each.stop()
        for lease, instance in instances:
            if not instance.join(DRAIN_SECONDS):
                log.warning("the slot did not drain; its lease expires", extra=about(lease.pipeline_id, lease.slot))
        for instance in self._unleased.values():
            instance.join(DRAIN_SECONDS)
        try:
            self._keeper.release([lease for lease, instance in instances if instance.is_done])
            self._around.store.workers.gone(self.id)
        except GaussError as error:
            log.warning("the store can't be told that this worker ends: %s", error.message)
        self._keeper.close()
