"""The memory budget of all connections of a source: unfinished records, headers, dictionaries, windows.

Memory is used before a record is complete, so a sender that never completes one could use any amount. When the budget
is exhausted, the connection with the largest weight is closed: the bytes that it holds, times the seconds since its
last complete record. Senders that complete records, and those that hold little, stay connected.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from gauss.model.errors import FrameError
from gauss.model.memory import give_back

COUNTED_BYTES = 16 << 10
"""Granularity of the count, so that the small remainder of each read takes no lock."""
SPARED_BYTES = 64 << 10
"""A connection that holds at most this, or at most half of its share, is never closed."""
PASSING_BYTES = 32 << 20
"""Maximum number of decompressed pieces in memory at once; they are large, but released as soon as they are split."""
MUCH_BYTES = 1 << 20
WAIT_SECONDS = 1.0
OVER_BUDGET = "over_budget"


class Holding:
    """The memory account of one connection."""

    def __init__(self, budget: BufferBudget, hang_up: Callable[[], None]) -> None:
        self.nbytes = 0
        self.most = 0
        """The most that it held or asked for: what is asked for has been allocated already."""
        self.since = time.monotonic()
        """Time of its last complete record, or of its start."""
        self.evicted = False
        self._budget = budget
        self.hang_up = hang_up

    def hold(self, nbytes: int) -> None:
        """Sets the bytes that it holds. Waits for free memory; raises FrameError if this connection is to be closed."""
        self.most = max(self.most, nbytes)
        if self.evicted:
            raise self._budget.used_up(self)
        nbytes -= nbytes % COUNTED_BYTES
        if nbytes != self.nbytes:
            self._budget.change(self, nbytes)

    def finished(self) -> None:
        """Notes that it has completed a record."""
        self.since = time.monotonic()

    def may_grow(self, nbytes: int) -> bool:
        """Whether it can hold more without another connection being closed."""
        return self._budget.room() >= nbytes

    @contextlib.contextmanager
    def passing(self, nbytes: int) -> Iterator[None]:
        """Scope in which pieces of this size are passed to the topic; waits until there is memory for one more."""
        self._budget.enter(self, nbytes)
        try:
            yield
        finally:
            self._budget.leave(nbytes)

    def close(self) -> None:
        """Releases everything."""
        self._budget.remove(self)


class BufferBudget:
    """`max_buffer_bytes` of a source, shared by its connections."""

    def __init__(self, most: int, cancel: threading.Event) -> None:
        self._most = most
        self._cancel = cancel
        self._used = self._passing = 0
        self._closed_here = threading.local()
        self._holdings: set[Holding] = set()
        self._changed = threading.Condition()

    def open(self, hang_up: Callable[[], None]) -> Holding:
        """The account of a new connection; `hang_up` closes the connection even while it waits."""
        with self._changed:
            made = Holding(self, hang_up)
            self._holdings.add(made)
            return made

    def room(self) -> int:
        return self._most - self._used

    def change(self, holding: Holding, nbytes: int) -> None:
        with self._changed:
            while self._used - holding.nbytes + nbytes > self._most and nbytes > holding.nbytes:
                if self._cancel.is_set():
                    break
                victim = self._victim(holding, nbytes)
                if victim is holding:
                    holding.evicted = True
                    raise self.used_up(holding)
                if victim is not None:
                    victim.evicted = True
                    victim.hang_up()
                # Its thread releases the bytes; until then nothing more is read here.
                self._changed.wait(WAIT_SECONDS)
                if holding.evicted:
                    raise self.used_up(holding)
            self._used += nbytes - holding.nbytes
            holding.nbytes = nbytes
            self._changed.notify_all()

    def enter(self, holding: Holding, nbytes: int) -> None:
        with self._changed:
            while self._passing and self._passing + nbytes > PASSING_BYTES and not self._cancel.is_set():
                self._changed.wait(WAIT_SECONDS)
                if holding.evicted:
                    raise self.used_up(holding)
            self._passing += nbytes

    def leave(self, nbytes: int) -> None:
        with self._changed:
            self._passing -= nbytes
            self._changed.notify_all()

    def remove(self, holding: Holding) -> None:
        with self._changed:
            self._used -= holding.nbytes
            holding.nbytes = 0
            self._closed_here.most = holding.most
            self._holdings.discard(holding)
            self._changed.notify_all()

    def give_back(self) -> None:
        """Returns memory to the system if the connection that this thread has closed held much of it. Called after its
        buffers are released: another thread's call may have come too early for them."""
        if getattr(self._closed_here, "most", 0) >= MUCH_BYTES:
            self._closed_here.most = 0
            give_back()

    def _victim(self, asking: Holding, nbytes: int) -> Holding | None:
        """The connection to close; None if one is being closed already."""
        going = sum(each.nbytes for each in self._holdings if each.evicted)
        if self._used - going - asking.nbytes + nbytes <= self._most:
            return None
        spared = min(SPARED_BYTES, self._most // (2 * len(self._holdings)))
        now = time.monotonic()

        def weight(each: Holding) -> float:
            return (nbytes if each is asking else each.nbytes) * (now - each.since)

        others = (each for each in self._holdings if not each.evicted and each.nbytes > spared)
        return max({*others, asking}, key=weight)

    def used_up(self, holding: Holding) -> FrameError:
        return FrameError(
            f"the connections of this source hold max_buffer_bytes = {self._most} together, {holding.nbytes} of them by"
            " this one, which has finished no record for long",
            reason=OVER_BUDGET,
            hint="send records that end, or raise max_buffer_bytes of the source",
        )
