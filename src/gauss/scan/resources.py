"""Resource counters of a task: sixteen, in a fixed order. They never decrease and are frozen after DONE."""

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
"""The names of the counters, in order.

`wall` and `exec` are nanoseconds, `fuel` is units of cost. `peak` (the largest batch), `sent` (blobs of programs and
steps, and emitted bytes) and `recv` (batches read) are bytes. `errs` counts calls with another code than OK, `shed`
calls and cursors refused by a limit on the reader, `noop` lease renewals without a call, `emit` writes by the scanner.
`init` is 1 after the first call. The others count calls of the same name."""


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
        """The sixteen counters, in the order of `RESOURCES`."""
        return tuple(getattr(self, name) for name in RESOURCES)
