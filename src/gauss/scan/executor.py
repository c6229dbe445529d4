"""Executor of a cursor: runs a program over the provider's candidates, within the limits of the capabilities.

Batches, codes and fuel depend only on the root, the program and the steps: every batch is cut here, by rows and bytes
counted from the cursor's position. How a provider cuts its candidates does not matter.
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
        """Size of the prepared batch in bytes."""
        self.fault: Exception | None = None
        """The error that ended the cursor, if any."""
        self._limits = capabilities
        self._live = program.mode is Mode.LIVE
        self._final: Code | None = None

    @property
    @abstractmethod
    def position(self) -> int:
        """Position of the next batch."""

    @property
    @abstractmethod
    def hold(self) -> int:
        """The lowest version that the cursor needs."""

    def refused(self, step: Step) -> Code | None:
        """The code of an invalid step. `None` if it is valid; the seek has then been done."""
        limit, size = step.limit, step.max_bytes
        if type(limit) is not int or limit <= 0 or type(size) is not int or size <= 0:
            return Code.INVALID
        if limit > self._limits.max_batch_items:
            return Code.REJECTED
        if step.seek is not None and (not self._limits.seek or not self._seek(step.seek)):
            return Code.INVALID
        return None

    def _seek(self, to: int | str) -> bool:
        seek = getattr(self.cursor, "seek", None)  # an aggregate has one row and no seek
        return seek is not None and bool(seek(to))

    def pinned_parts(self) -> dict[int, int]:
        """Bytes of old versions that this cursor keeps in memory, by part."""
        cursor = self._pinning()
        return {} if cursor is None else cursor.pinned_parts()

    def reject(self) -> None:
        """Rejects the cursor and releases its pinned version. Thread-safe."""
        if (cursor := self._pinning()) is not None:
            cursor.reject()

    def _pinning(self) -> Pinning | None:
        """The provider's cursor if it pins memory."""
        inner = getattr(self.cursor, "cursor", self.cursor)  # an aggregate wraps the provider's cursor
        return cast(Pinning, inner) if hasattr(inner, "pinned_parts") else None

    @abstractmethod
    def next(self, step: Step) -> Code:
        """Prepares the next batch."""

    @abstractmethod
    def read(self) -> tuple[Code, Item | None]:
        """The prepared batch."""

    @abstractmethod
    def discard(self) -> None:
        """Drops the prepared batch. A failed step leaves none."""

    def end(self, code: Code) -> None:
        """Ends the cursor. Later calls return this code."""
        self._final = code
        self.discard()
        self.cursor.close()

    def close(self) -> None:
        self.end(Code.INVALID)


def check_row_cost(cost: int, capabilities: Capabilities) -> None:
    """Raises Rejected if even an empty candidate exceeds the fuel limits."""
    most = min(capabilities.max_fuel_item, capabilities.max_fuel_scan)
    if cost > most:
        raise Rejected(f"each row costs at least {cost} fuel units, the limit is {most}", hint="do less per row")
