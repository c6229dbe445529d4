"""The life time of instances: extended while clients are connected, ended within a second of its end."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from gauss.dbstates.instances.manager import LOST, READY, Instances
from gauss.dbstates.repeating import Repeating
from gauss.dbstates.store.metadata import Row
from gauss.dbstates.telemetry.audit import Audit
from gauss.dbstates.telemetry.metrics import Metrics
from gauss.model.errors import GaussError, NotFound

THREADS = 8
LOOK_SECONDS = 0.25
SHARE = 0.1
"""Connections are counted each tenth of a life time, and at its end."""
MOST_SECONDS = 15.0
GRACE_SECONDS = 3.0
"""An instance whose holder has left lives this long after it was asked for, so that a client can connect."""
log = logging.getLogger("gauss.dbstates")


class Leases:
    """One thread looks at all instances; a few count connections and end them."""

    def __init__(self, instances: Instances, metrics: Metrics, audit: Audit) -> None:
        self._instances, self._metrics, self._audit = instances, metrics, audit
        self._looking = Repeating("leases", LOOK_SECONDS, self.look)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="lease")
        self._looked: dict[str, float] = {}
        """Seconds that an instance had left when its connections were counted last."""
        self._busy: set[str] = set()
        """Instances that a thread looks at."""
        self._failed: set[str] = set()
        """Those with an error that was logged."""

    def start(self) -> None:
        self._looking.start()

    def stop(self) -> None:
        self._looking.stop()
        self._threads.shutdown(cancel_futures=True)

    def look(self) -> None:
        """Extends the instances that are in use, and ends those whose time has ended: they are removed, or stopped if
        they are kept. A server that does not answer, or an end that takes long, holds up no other."""
        rows = [row for row in self._instances.rows() if row["status"] in (READY, LOST)]
        known = {row["id"] for row in rows}
        self._failed &= known
        for gone in set(self._looked) - known:
            self._looked.pop(gone, None)
        for row in rows:
            if row["id"] not in self._busy and self._is_due(row):
                self._busy.add(row["id"])
                self._threads.submit(self._settle, row["id"])

    def _is_due(self, row: Row) -> bool:
        """Whether its time has ended, or its connections are to be counted."""
        if row["status"] == LOST:
            return True
        if self._rests(row):
            self._looked.pop(row["id"], None)
            return False
        left = self._left(row)
        looked = self._looked.setdefault(row["id"], left)
        return left <= 0 or looked - left >= min(row["ttl_ms"] / 1000 * SHARE, MOST_SECONDS)

    def _settle(self, instance: str) -> None:
        try:
            row = self._instances.row(instance)
            if row["status"] == LOST:
                self._instances.remove(instance)
            elif self._rests(row):  # held or kept since it was looked at
                return
            elif self._instances.connections(instance):
                self._instances.touch(instance)
                self._looked.pop(instance, None)
            elif (left := self._left(row)) > 0:
                self._looked[instance] = left
            else:
                with self._instances.locked(instance):
                    if self._left(row) <= 0:  # else a client has asked for it meanwhile
                        self._end(row)
        except NotFound:  # it has been removed meanwhile
            pass
        except Exception as error:  # the others are looked at all the same, and this one again
            if instance not in self._failed:
                self._failed.add(instance)
                log.warning("instance %s: %s", instance, error, exc_info=not isinstance(error, GaussError))
        finally:
            self._busy.discard(instance)

    def _rests(self, row: Row) -> bool:
        """Whether nothing is to be done: an instance with a holder, or a kept one that is stopped."""
        return self._instances.is_held(row) or (bool(row["kept"]) and self._instances.server(row["id"]) is None)

    def _left(self, row: Row) -> float:
        """Seconds until its end without connections; few when its holder has left."""
        left = self._instances.seconds_left(row["id"])
        return left - row["ttl_ms"] / 1000 + GRACE_SECONDS if row["holder"] else left

    def _end(self, row: Row) -> None:
        instance = row["id"]
        if row["kept"]:
            self._instances.stop(instance)
        else:
            self._instances.remove(instance)
            self._metrics.count("instances_expired_total")
        word = "instance_stopped" if row["kept"] else "instance_expired"
        self._audit.note(word, instance_id=instance, state_id=row["state"])
