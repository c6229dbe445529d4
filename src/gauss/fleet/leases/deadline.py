"""The end of a lease, told to a process that may run on another machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from gauss.fleet.leases.keeper import clock
from gauss.process.identity import boot_id


@dataclass(frozen=True)
class Deadline:
    """A time by the clock of the machine that made it. Clocks since boot differ between machines and agree on one."""

    at: float
    left: float
    """Seconds from when it was made."""
    boot: str = field(default_factory=boot_id)

    @classmethod
    def of(cls, at: float) -> Deadline:
        return cls(at, at - clock())

    def here(self) -> float:
        """The same time by `clock` of this machine. Called by a task when it starts. On another machine the time for
        which the task was queued is not known, so that the deadline is that much later; the epochs still fence it."""
        return self.at if self.boot == boot_id() else clock() + self.left
