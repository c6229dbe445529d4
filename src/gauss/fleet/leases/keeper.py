"""Keeps the leases of a worker: a thread renews them all at once, as long as their instances make progress."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable

from gauss.fleet.leases.slots import SlotLease, SlotLeases
from gauss.fleet.logs import about
from gauss.model.errors import GaussError

JITTER = 0.2
STALLED_TTLS = 3
"""An instance that has made no progress for so many TTLs loses its slot; a job may take longer than one."""
_RETRY_SECONDS = 0.5
log = logging.getLogger("gauss.fleet")


def clock() -> float:
    """Seconds that also pass while the machine is suspended, and that no change of the wall clock touches."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HeldLease:
    """A lease as its holder sees it, without asking the database."""

    def __init__(self, lease: SlotLease, sent: float, ttl: float) -> None:
        self.lease = lease
        self._ttl = ttl
        self._stop_at = sent + ttl * 2 / 3
        self._beat_at = sent
        self._is_lost = False

    @property
    def stop_at(self) -> float:
        """The time by `clock` at which work must have stopped: a third of the TTL before the slot may be taken."""
        return self._stop_at

    @property
    def is_usable(self) -> bool:
        """Whether work may go on. Once false after a renewal failed for long, it may become true again."""
        return not self._is_lost and clock() < self._stop_at

    @property
    def is_expired(self) -> bool:
        """Whether the slot may be another worker's, as long as no renewal has succeeded."""
        return self._is_lost or clock() >= self._stop_at + self._ttl / 3

    @property
    def is_lost(self) -> bool:
        """Whether the slot is known to be free or another worker's. Never taken back."""
        return self._is_lost

    def beat(self) -> None:
        """Tells that the instance makes progress. Without it the lease is not renewed."""
        self._beat_at = clock()

    @property
    def has_progress(self) -> bool:
        return clock() - self._beat_at < STALLED_TTLS * self._ttl

    def renewed(self, sent: float) -> None:
        """`sent`: the time before the renewal was sent, so that the deadline is never later than the database's."""
        self._stop_at = max(self._stop_at, sent + self._ttl * 2 / 3)

    def lose(self) -> None:
        self._is_lost = True


class LeaseKeeper:
    """The leases of one worker."""

    def __init__(self, leases: SlotLeases, worker_id: str, ttl_ms: int) -> None:
        self._leases = leases
        self._worker_id = worker_id
        self._ttl_ms = ttl_ms
        self._held: dict[SlotLease, HeldLease] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def acquire(self, slots: list[tuple[str, int]]) -> list[HeldLease]:
        """Acquires those of the slots that are free."""
        sent = clock()
        taken = self._leases.acquire(self._worker_id, slots, self._ttl_ms)
        made = [HeldLease(lease, sent, self._ttl_ms / 1000) for lease in taken]
        with self._lock:
            self._held.update((each.lease, each) for each in made)
        return made

    def held(self) -> list[HeldLease]:
        with self._lock:
            return list(self._held.values())

    def release(self, leases: Iterable[SlotLease]) -> None:
        """Frees slots. They are renewed no more, whether the database answers or not."""
        gone = list(leases)
        with self._lock:
            for lease in gone:
                if (found := self._held.pop(lease, None)) is not None:
                    found.lose()
        if gone:
            self._leases.release(self._worker_id, gone)

    def renew(self) -> None:
        """Renews all leases whose instances make progress."""
        with self._lock:
            wanted = [each for each in self._held.values() if each.has_progress]
        if not wanted:
            return
        sent = clock()
        still = self._leases.renew(self._worker_id, [each.lease for each in wanted], self._ttl_ms)
        for each in wanted:
            if each.lease in still:
                each.renewed(sent)
            else:
                each.lose()
                log.warning("the slot is lost", extra=about(each.lease.pipeline_id, each.lease.slot))
        with self._lock:
            self._held = {lease: each for lease, each in self._held.items() if not each.is_lost}

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                self.renew()
                pause = self._ttl_ms / 3000 * random.uniform(1 - JITTER, 1 + JITTER)
            except GaussError as error:
                log.warning("leases can't be renewed: %s", error.message)
                pause = min(_RETRY_SECONDS, self._ttl_ms / 30_000) * random.uniform(1 - JITTER, 1 + JITTER)
            except Exception:  # a thread that ends would let all slots go
                log.exception("leases can't be renewed")
                pause = _RETRY_SECONDS

    def close(self) -> None:
        """Stops renewing. Leases that were not released expire."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._ttl_ms / 1000)
