"""The executor of a cursor: runs a program beside its provider, within the limits of the capabilities.

Batches, codes and fuel are a function of the root, the program and the steps alone: every batch is cut here, by rows
and bytes counted from the cursor's position. How a provider happens to cut its candidates leaves no trace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from gauss.contracts.cursor import Capabilities, Code, Cursor, Mode, Pinning, Program, Step
from gauss.model.errors import Rejected
from gauss.scan.outputs import Item


class Executor(ABC):
    """A provider's cursor, its limits and the prepared batch."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities) -> None:
        self.cursor = cursor
        self.program = program
        self.pinned_version = cursor.pinned_version
        self.fuel = 0
        self.size = 0
        """The bytes of the prepared batch."""
        self.fault: Exception | None = None
        """What broke it, if something did."""
        self._limits = capabilities
        self._live = program.mode is Mode.LIVE
        self._final: Code | None = None

    @property
    @abstractmethod
    def position(self) -> int:
        """Where the next batch begins."""

    @property
    @abstractmethod
    def hold(self) -> int:
        """The lowest version that it needs."""

    def refused(self, step: Step) -> Code | None:
        """Why a step can't be taken; None: it can."""
        limit, size = step.limit, step.max_bytes
        if type(limit) is not int or limit <= 0 or type(size) is not int or size <= 0:
            return Code.INVALID
        if limit > self._limits.max_batch_items:
            return Code.REJECTED
        if step.seek is not None and (not self._limits.seek or not self._sought(step.seek)):
            return Code.INVALID
        return None

    def _sought(self, to: int | str) -> bool:
        seek = getattr(self.cursor, "seek", None)  # an aggregate has one row, and nowhere to go
        return seek is not None and bool(seek(to))

    def pinned_parts(self) -> dict[int, int]:
        """The bytes that only this cursor and others like it keep in memory, part by part."""
        cursor = self._pinning()
        return {} if cursor is None else cursor.pinned_parts()

    def reject(self) -> None:
        """Ends what it pins, from any thread."""
        if (cursor := self._pinning()) is not None:
            cursor.reject()

    def _pinning(self) -> Pinning | None:
        """The provider's cursor, if it keeps anything."""
        inner = getattr(self.cursor, "cursor", self.cursor)  # an aggregate reads by another
        return cast(Pinning, inner) if hasattr(inner, "pinned_parts") else None

    @abstractmethod
    def next(self, step: Step) -> Code:
        """Prepares the next batch."""

    @abstractmethod
    def read(self) -> tuple[Code, Item | None]:
        """The prepared batch."""

    @abstractmethod
    def discard(self) -> None:
        """Drops the prepared batch: a step that failed leaves none."""

    def end(self, code: Code) -> None:
        """Whatever is asked from now on is answered by this code."""
        self._final = code
        self.discard()
        self.cursor.close()

    def close(self) -> None:
        self.end(Code.INVALID)


def check_row_cost(cost: int, capabilities: Capabilities) -> None:
    """Refuses a scan of which not even an empty candidate can be paid."""
    most = min(capabilities.max_fuel_item, capabilities.max_fuel_scan)
    if cost > most:
        raise Rejected(f"each row costs at least {cost}, allowed are {most}", hint="do less per row")
