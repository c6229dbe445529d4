"""Executor of the output `offset_len`: chunks as stored in the log."""

from __future__ import annotations

import numpy as np

from gauss.contracts.cursor import Capabilities, Code, Cursor, Placed, Program, Step
from gauss.scan.executor import Executor
from gauss.scan.outputs import Item, packed_size
from gauss.scan.program.fuel import Limit, Unread
from gauss.scan.sizes import record_sizes


class Chunks(Executor):
    """Returns chunks. A step with `fill` is cut exactly at its limits, which requires finding the records. A reader in
    the same process that only passes bytes on sets `fill=False` and gets chunks uncut, unless they exceed a limit."""

    def __init__(self, cursor: Cursor, program: Program, capabilities: Capabilities) -> None:
        super().__init__(cursor, program, capabilities)
        self._unread = Unread()
        self._left: list[Placed] = []  # fetched, not yet returned
        self._held = cursor.hold
        self._given: list[Placed] | None = None

    @property
    def position(self) -> int:
        return self._left[0].offset if self._left else self.cursor.position

    @property
    def hold(self) -> int:
        return max(self._held, self.position) if self._left and self._live else self.cursor.hold

    def _seek(self, to: int | str) -> bool:
        if not super()._seek(to):
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
                size = sum(_stored_bytes(entry) for entry in given)
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
        return Code.OK

    def _fetch(self, step: Step, most: int) -> Code | None:
        self._held = self.cursor.hold
        rows = min(step.limit, self._unread.affordable(self._limits.max_fuel_scan) + 1)
        code = self.cursor.next(Step(rows, most, fill=False))
        if code is not Code.OK:
            if code is not Code.INVALID:
                self._final = code
            return code
        item = self.cursor.read()[1]
        assert isinstance(item, list)
        self._left = item
        return None

    def _whole(self, limit: int) -> bool:
        """Whether all fetched chunks can be returned uncut, whatever the sizes of their records."""
        rows = sum(entry.chunk.count for entry in self._left)
        sizes = [_stored_bytes(entry) for entry in self._left]
        limits, unread = self._limits, self._unread
        return (
            rows <= limit
            and sum(sizes) <= limits.max_batch_bytes
            and unread.item(max(sizes)) <= limits.max_fuel_item
            and unread.spent + unread.row * rows + unread.item(sum(sizes)) <= limits.max_fuel_scan
        )

    def _take(self, limit: int, size: int, *, first: bool) -> tuple[Placed | None, int, Code | None]:
        """Takes records of the first chunk. Returns them, their bytes, and a code if the batch must end after them."""
        offset, chunk = self._left[0]
        sizes = record_sizes(chunk)
        ends = np.cumsum(sizes)
        limits = self._limits
        admitted, over = self._unread.admit(
            chunk.count, int(ends[-1]), lambda: sizes, limits.max_fuel_item, limits.max_fuel_scan
        )
        count, code = admitted, None if over is None else Code.REJECTED
        if (fitting := int(np.searchsorted(ends, size, side="right"))) < min(admitted, limit):
            count, code = fitting, Code.OK
            if first and not fitting:  # return at least one record, unless it exceeds the limit of any batch
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
        return Code.OK, list(self._given)

    def discard(self) -> None:
        self._given = None

    def end(self, code: Code) -> None:
        super().end(code)
        self._left = []


def _stored_bytes(entry: Placed) -> int:
    """Size of a chunk as stored. For chunks without a framing only the values count: the size of Arrow's buffers
    depends on how the chunk was built."""
    chunk = entry.chunk
    return chunk.nbytes if chunk.framing is not None else packed_size(chunk.payload)
