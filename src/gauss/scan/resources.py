"""What a task has used: sixteen counters in a fixed order, which only grow and stand still after DONE."""

from __future__ import annotations

from enum import IntEnum


class OpKind(IntEnum):
    """The calls of the task ABI."""

    NOOP = 0
    INIT = 1
    EMIT = 2
    DONE = 3
    SLOT = 4
    SCAN = 5
    NEXT = 6
    READ = 7


RESOURCES = (
    *("wall", "exec", "fuel", "shed"),
    *("errs", "peak", "sent", "recv"),
    *("noop", "init", "emit", "done"),
    *("slot", "scan", "next", "read"),
)
"""wall and exec in nanoseconds, fuel in units of cost; peak (the largest batch), sent and recv in bytes: sent to
sources as blobs of programs and steps, and by emits; received by reads. The rest counts: errs the calls that were
answered by anything but UNSET, shed what a limit on the reader turned away (a throttled call, a cursor that pinned too
much), noop the signs of life of a reader that asks nothing, init its beginning, emit what a scanner wrote of its own,
the others their calls."""


class Resources:
    """The counters of one task; all zero at INIT."""

    __slots__ = RESOURCES

    wall: int
    exec: int
    fuel: int
    shed: int
    errs: int
    peak: int
    sent: int
    recv: int
    noop: int
    init: int
    emit: int
    done: int
    slot: int
    scan: int
    next: int
    read: int

    def __init__(self) -> None:
        self.wall = self.exec = self.fuel = self.shed = self.errs = self.peak = self.sent = self.recv = 0
        self.noop = self.init = self.emit = self.done = self.slot = self.scan = self.next = self.read = 0

    def values(self) -> tuple[int, ...]:
        """The sixteen numbers in their order."""
        return tuple(getattr(self, name) for name in RESOURCES)
