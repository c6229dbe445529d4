"""The bytes that all connections of a source hold together: unfinished records, headers, dictionaries, windows.

Memory is taken before a record is whole, so a sender that never finishes one could take as much as it likes. When the
budget is used up, the connection is closed that weighs most: the bytes that it holds, times the seconds since it last
finished a record. So senders that finish records, and those that hold little, outlast whoever fills the budget.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from gauss.model.errors import FrameError
from gauss.model.memory import give_back

COUNTED_BYTES = 16 << 10
"""Counted in whole steps of this size: the remainder of a line that comes and goes with every read takes no lock."""
SPARED_BYTES = 64 << 10
"""A connection that holds no more than this, or than half its share, is not closed for it."""
PASSING_BYTES = 32 << 20
"""Decompressed pieces that may be on their way at once; they are large, and gone as soon as they are cut."""
MUCH_BYTES = 1 << 20
WAIT_SECONDS = 1.0
OVER_BUDGET = "over_budget"


class Holding:
    """What one connection holds."""

    def __init__(self, budget: BufferBudget, hang_up: Callable[[], None]) -> None:
        self.nbytes = self.most = 0
        self.since = time.monotonic()
        """When it last finished a record, or began."""
        self.evicted = False
        self._budget = budget
        self.hang_up = hang_up

    def hold(self, nbytes: int) -> None:
        """It holds so much now. Waits for room if there is none; raises FrameError if it is the one to go."""
        if self.evicted:
            raise self._budget.used_up(self)
        nbytes -= nbytes % COUNTED_BYTES
        if nbytes != self.nbytes:
            self._budget.change(self, nbytes)

    def finished(self) -> None:
        """It has finished a record."""
        self.since = time.monotonic()

    def may_grow(self, nbytes: int) -> bool:
        """Whether there is room for more without closing anybody."""
        return self._budget.room() >= nbytes

    @contextlib.contextmanager
    def passing(self, nbytes: int) -> Iterator[None]:
        """While pieces of so many bytes are on their way to the topic: waits until there is room for one more."""
        self._budget.enter(self, nbytes)
        try:
            yield
        finally:
            self._budget.leave(nbytes)

    def close(self) -> None:
        """Lets go of everything."""
        self._budget.remove(self)


class BufferBudget:
    """`max_buffer_bytes` of a source, shared by its connections."""

    def __init__(self, most: int, cancel: threading.Event) -> None:
        self._most = most
        self._cancel = cancel
        self._used = self._passing = 0
        self._much_was_held = False
        self._holdings: set[Holding] = set()
        self._changed = threading.Condition()

    def open(self, hang_up: Callable[[], None]) -> Holding:
        """A new connection's account; `hang_up` ends the connection, whatever it waits for."""
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
                # Its thread lets go of the bytes; until then nothing more is taken in here.
                self._changed.wait(WAIT_SECONDS)
                if holding.evicted:
                    raise self.used_up(holding)
            self._used += nbytes - holding.nbytes
            holding.nbytes = nbytes
            holding.most = max(holding.most, nbytes)
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
            self._much_was_held |= holding.most >= MUCH_BYTES
            self._holdings.discard(holding)
            self._changed.notify_all()

    def give_back(self) -> None:
        """Returns memory to the system, if a connection that has held much of it is gone."""
        if self._much_was_held:
            self._much_was_held = False
            give_back()

    def _victim(self, asking: Holding, nbytes: int) -> Holding | None:
        """Who is to go; None: somebody is going already."""
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
