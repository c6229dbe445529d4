"""The life time of instances: extended while clients are connected, ended within a second of its end."""

from __future__ import annotations

from gauss.dbstates.instances.manager import READY, Instances
from gauss.dbstates.repeating import Repeating
from gauss.dbstates.store.metadata import Row
from gauss.dbstates.telemetry.audit import Audit
from gauss.dbstates.telemetry.metrics import Metrics

LOOK_SECONDS = 0.25
SHARE = 0.1
"""Connections are counted each tenth of a life time, and at its end."""
MOST_SECONDS = 15.0
GRACE_SECONDS = 3.0
"""An instance whose holder has left lives this long after it was asked for, so that a client can connect."""


class Leases:
    """One thread for all instances."""

    def __init__(self, instances: Instances, metrics: Metrics, audit: Audit) -> None:
        self._instances, self._metrics, self._audit = instances, metrics, audit
        self._looking = Repeating("leases", LOOK_SECONDS, self.look)
        self._looked: dict[str, float] = {}
        """Seconds that an instance had left when its connections were counted last."""

    def start(self) -> None:
        self._looking.start()

    def stop(self) -> None:
        self._looking.stop()

    def look(self) -> None:
        """Extends the instances that are in use, and ends those whose time has ended: they are removed, or stopped if
        they are kept."""
        rows = [row for row in self._instances.rows(READY) if not self._rests(row)]
        self._looked = {row["id"]: self._looked[row["id"]] for row in rows if row["id"] in self._looked}
        for row in rows:
            instance, left = row["id"], self._left(row)
            pause = min(row["ttl_ms"] / 1000 * SHARE, MOST_SECONDS)
            looked = self._looked.setdefault(instance, left)
            if left > 0 and looked - left < pause:
                continue
            if self._instances.connections(instance):
                self._instances.touch(instance)
                self._looked.pop(instance)
            elif left > 0:
                self._looked[instance] = left
            else:
                self._end(row)

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
