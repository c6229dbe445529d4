"""The executor of `offset_len`: records as they lie in a log."""

from __future__ import annotations

import numpy as np

from gauss.contracts.cursor import Capabilities, Code, Cursor, Placed, Program, Step
from gauss.scan.executor import Executor
from gauss.scan.outputs import Item, packed_size
from gauss.scan.program.fuel import Limit, Unread
from gauss.scan.sizes import record_sizes


class Chunks(Executor):
    """A step that fills its batch is cut exactly: records are framed to be counted. A reader in the same process that
    passes bytes on says `fill=False` and gets chunks as they lie; only one above the limits is framed to be cut."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities) -> None:
        super().__init__(cursor, program, capabilities)
        self._unread = Unread()
        self._left: list[Placed] = []  # fetched and not given
        self._held = cursor.hold
        self._given: list[Placed] | None = None

    @property
    def position(self) -> int:
        return self._left[0].offset if self._left else self.cursor.position

    @property
    def hold(self) -> int:
        return max(self._held, self.position) if self._left and self._live else self.cursor.hold

    def _sought(self, to: int | str) -> bool:
        if not super()._sought(to):
            return False
        self._left = []
        return True

    def next(self, step: Step) -> Code:
        self._given = None
        if self._final is not None:
            return self._final
        if (code := self.refused(step)) is not None:
            return code
        most = min(step.max_bytes, self._limits.max_batch_bytes)
        given: list[Placed] = []
        count = size = 0
        stopped: Code | None = None
        while count < step.limit and stopped is None:
            if not self._left and (stopped := self._fetch(step, most)) is not None:
                break
            if not step.fill and self._whole(step.limit):
                given, self._left = self._left, []
                size = sum(_lying_bytes(entry) for entry in given)
                self._unread.add(sum(entry.chunk.count for entry in given), size)
                break
            taken, bytes_, stopped = self._take(step.limit - count, most - size, first=not given)
            if taken is not None:
                given.append(taken)
                count, size = count + taken.chunk.count, size + bytes_
        self.fuel = self._unread.spent
        if not given:
            return stopped or Code.INVALID
        self.size, self._given = size, given
        return Code.UNSET

    def _fetch(self, step: Step, most: int) -> Code | None:
        self._held = self.cursor.hold
        rows = min(step.limit, self._unread.affordable(self._limits.max_fuel_scan) + 1)
        code = self.cursor.next(Step(rows, most, fill=False))
        if code is not Code.UNSET:
            if code is not Code.INVALID:
                self._final = code
            return code
        item = self.cursor.read()[1]
        assert isinstance(item, list)
        self._left = item
        return None

    def _whole(self, limit: int) -> bool:
        """Whether all that was fetched may be given as it lies, whatever its records are."""
        rows = sum(entry.chunk.count for entry in self._left)
        sizes = [_lying_bytes(entry) for entry in self._left]
        limits, unread = self._limits, self._unread
        return (
            rows <= limit
            and sum(sizes) <= limits.max_batch_bytes
            and unread.item(max(sizes)) <= limits.max_fuel_item
            and unread.spent + unread.row * rows + unread.item(sum(sizes)) <= limits.max_fuel_scan
        )

    def _take(self, limit: int, size: int, *, first: bool) -> tuple[Placed | None, int, Code | None]:
        """Records of the first chunk, their bytes, and a code if nothing may follow them in this batch."""
        offset, chunk = self._left[0]
        sizes = record_sizes(chunk)
        ends = np.cumsum(sizes)
        limits = self._limits
        admitted, over = self._unread.admit(
            chunk.count, int(ends[-1]), lambda: sizes, limits.max_fuel_item, limits.max_fuel_scan
        )
        count, code = admitted, None if over is None else Code.REJECTED
        if (fitting := int(np.searchsorted(ends, size, side="right"))) < min(admitted, limit):
            count, code = fitting, Code.UNSET
            if first and not fitting:  # at least one record comes, unless no batch may hold it
                if int(sizes[0]) > limits.max_batch_bytes:
                    return None, 0, Code.REJECTED
                count = 1
        elif limit <= admitted:
            count, code = limit, None
        if not count:
            if code is Code.REJECTED and first and over is Limit.SCAN:
                self._final = code
            return None, 0, code
        taken = int(ends[count - 1])
        self._unread.add(count, taken)
        rest = chunk.count - count
        self._left[:1] = [Placed(offset + count, chunk.slice(count, rest))] if rest else []
        return Placed(offset, chunk.slice(0, count)), taken, code

    def read(self) -> tuple[Code, Item | None]:
        if self._given is None:
            return self._final or Code.INVALID, None
        return Code.UNSET, list(self._given)

    def discard(self) -> None:
        self._given = None

    def end(self, code: Code) -> None:
        super().end(code)
        self._left = []


def _lying_bytes(entry: Placed) -> int:
    """The bytes of a chunk as it lies. Of records without a framing only their own count: what Arrow takes for them
    depends on how they came to lie together."""
    chunk = entry.chunk
    return chunk.nbytes if chunk.framing is not None else packed_size(chunk.payload)
