"""The client side of a topic's cursor in the engine, over one Flight exchange."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.clients.engine.cursor_messages import (
    LEASE_S,
    MOST_WAIT_MS,
    Ask,
    Open,
    Opened,
    State,
)
from gauss.clients.engine.positions import At
from gauss.contracts.cursor import Code, Mode, Program, Seq, Step
from gauss.model.errors import Collected, GaussError, Rejected
from gauss.scan.program.blob import encode_program, encode_step

STEP = Step(limit=65_536, max_bytes=256 << 10)
"""The step of an interactive scan. Small, because some five steps are buffered for a client that does not read; larger
ones are no faster, since replies are JSON."""
WAIT_MS = 5_000


class RemoteCursor:
    """`contracts.cursor.Cursor` over Flight. One thread uses it, any may cancel it; failed calls raise FlightError.

    `next` also fetches the batch that it prepares, so that a step is one round trip, or less if the following step is
    requested at the same time; `ask` returns codes and blobs one by one."""

    def __init__(self, client: Any, options: Any, head: Open) -> None:
        descriptor = flight.FlightDescriptor.for_command(msgspec.json.encode(head))
        self._writer, self._reader = client.do_exchange(descriptor, options)
        self._item: pa.RecordBatch | bytes | None = None
        self._steps: dict[Step, bytes] = {}
        self._under_way = False  # whether a step was requested whose reply is not yet consumed
        self._early: Any = None  # the reply of that step, if something else was requested in between
        self._open = True
        try:
            self.opened = msgspec.json.decode(self._answer().app_metadata.to_pybytes(), type=Opened)
        except BaseException:
            self.cancel()
            raise
        self.pinned_version = self.opened.pinned_version
        self._state = State(Code.INVALID, self.opened.position, self.pinned_version)

    @property
    def position(self) -> int:
        return self._state.position

    @property
    def hold(self) -> int:
        return self._state.hold

    def next(self, step: Step, *, again: bool = False) -> Code:
        """Prepares and fetches the next batch. `again`: also requests the same step once more, which the engine
        prepares while the caller works on this one."""
        blob = self._steps.get(step)
        if blob is None:
            blob = self._steps.setdefault(step, Ask.STEP.value + encode_step(step))
        early = self._under_way
        if not early:
            self._writer.write_metadata(blob)
        if again:
            with contextlib.suppress(flight.FlightError, pa.ArrowException):  # the reply has the reason
                self._writer.write_metadata(blob)
        code = self._taken(again)
        if code is not Code.OK and (early or again):  # more may have arrived; no request stays open at an end
            if not again:
                self._writer.write_metadata(blob)
            code = self._taken(False)
        return code

    def _taken(self, under_way: bool) -> Code:
        """Consumes the reply to a step; `under_way`: whether another step is requested."""
        chunk = self._answer() if self._early is None else self._early
        self._early = None
        self._under_way = under_way
        self._state, rest = State.decode(chunk.app_metadata.to_pybytes())
        self._item = chunk.data if chunk.data is not None else rest
        if self._state.code is not Code.OK:
            self._item = None
        return self._state.code

    def read(self) -> tuple[Code, pa.RecordBatch | bytes | None]:
        """The prepared batch: a batch for `rows` and `scalar`, a blob for `columnar` and `offset_len`."""
        return (Code.INVALID if self._item is None else Code.OK), self._item

    def ask(self, what: Ask, argument: bytes = b"") -> tuple[Code, bytes]:
        """One call of the ABI: NEXT with a step blob, READ, or WAIT."""
        if self._under_way and self._early is None:
            self._early = self._answer()
        self._writer.write_metadata(what.value + argument)
        state, blob = State.decode(self._answer().app_metadata.to_pybytes())
        if not self._under_way:  # otherwise the engine's cursor is ahead of the consumed replies
            self._state = state
        return state.code, blob

    def wait(self, milliseconds: int = WAIT_MS) -> bool:
        """Waits for new records; returns True if the topic has moved beyond the cursor, False on timeout."""
        most = 0 if self._under_way else min(milliseconds, MOST_WAIT_MS)
        code, _ = self.ask(Ask.WAIT, most.to_bytes(4, "little"))
        if code is Code.PANIC:
            raise refused(code)
        return code is Code.OK or self._under_way

    def _answer(self) -> Any:
        try:
            return self._reader.read_chunk()
        except StopIteration:
            raise flight.FlightUnavailableError("the engine has ended the scan") from None

    def close(self) -> None:
        """Closes the cursor; returns when the engine has released its resources."""
        if self._open:
            self._open = False
            with contextlib.suppress(flight.FlightError, pa.ArrowException, StopIteration):
                self._writer.done_writing()
                while True:  # up to the end: the reply to a step may be outstanding
                    self._reader.read_chunk()
            self._end()

    def cancel(self) -> None:
        """Closes the cursor from any thread; a call in progress fails."""
        self._open = False
        self._reader.cancel()
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(flight.FlightError, pa.ArrowException):
            self._writer.close()

    def __enter__(self) -> RemoteCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Scanning:
    """A scan as an iterator of batches. A live scan waits for more records, and reopens at the floor of a log if its
    position has expired. Iterate it in one thread, cancel it from any."""

    def __init__(
        self, open_: Callable[[Program], RemoteCursor], oldest: Callable[[], At | None], program: Program
    ) -> None:
        """`oldest` returns the place of the oldest record of a log, or None for a table, whose reader cannot skip
        changes and has to start over."""
        self.missed = 0
        self._open = open_
        self._oldest = oldest
        self._program = program
        self.live = program.mode is Mode.LIVE
        self._cancelled = False
        self._inc: int | None = None
        self.cursor = self._opened(program)
        self.idle_at = self.cursor.position
        """The position up to which all rows have been returned."""

    def _opened(self, program: Program) -> RemoteCursor:
        while True:
            try:
                opened = self._open(program)
                self._inc = opened.opened.inc
                return opened
            except Collected:
                if (begin := self._behind(getattr(program.view, "start", None))) is None:
                    raise
                program = dataclasses.replace(program, view=Seq(begin))

    def _behind(self, position: int | None) -> int | None:
        """The position at which a live scan continues if `position` has expired; None if it cannot continue."""
        if not self.live or not isinstance(self._program.view, Seq) or position is None:
            return None
        oldest = self._oldest()
        if oldest is None:
            return None
        if self._inc not in (None, oldest.inc):  # made anew
            return oldest.off
        if oldest.off <= position:
            return None
        self.missed += oldest.off - position
        return oldest.off

    def batches(self, limit: int | None = None, *, full: bool = False) -> Iterator[pa.RecordBatch]:
        """The batches, with at most `limit` rows. Unless `full`, the first batches are small, so that the few rows of a
        long search are shown early."""
        left = limit
        most = 1 if self._program.stages and not full else STEP.limit
        while (left is None or left > 0) and not self._cancelled:
            step = Step(most if left is None else min(left, most), STEP.max_bytes)
            code = self.cursor.next(step, again=left is None and most == STEP.limit)
            most = min(2 * most, STEP.limit)
            if code is Code.OK:
                batch = self.cursor.read()[1]
                assert isinstance(batch, pa.RecordBatch)
                left = None if left is None else left - batch.num_rows
                yield batch
            elif code is not Code.INVALID:
                self._begin_anew(code)
            elif self.live:
                self.idle_at = self.cursor.position
                self.cursor.wait()
            else:
                return

    def _begin_anew(self, code: Code) -> None:
        begin = self._behind(self.cursor.position) if code is Code.REJECTED else None
        if begin is None:
            raise refused(code)
        self.cursor.close()
        self.cursor = self._opened(dataclasses.replace(self._program, view=Seq(begin)))

    def keep(self) -> None:
        """Renews the lease of the cursor for a slow reader."""
        self.cursor.wait(0)

    def close(self) -> None:
        self.cursor.close()

    def cancel(self) -> None:
        self._cancelled = True
        self.cursor.cancel()


def refused(code: Code) -> GaussError:
    """The error of a scan that ended early."""
    if code is Code.REJECTED:
        hint = "its position has expired, or it exceeded the cost limit of a scan: start it again, or ask for less"
        return Rejected("the scan was ended by a limit of its topic", hint=hint)
    lapsed = f"it was not read for {LEASE_S:.0f} s, or the topic's storage failed"
    return GaussError("the scan has ended", hint=f"{lapsed}: see logs/engine.log")


def parsed(program: Program | str) -> Program:
    """The given program, or the snapshot scan of the given text."""
    if isinstance(program, Program):
        return program
    from gauss.scan.program.parse import parse_scan  # lazy: builds the grammar

    return parse_scan(program)


def opening(
    topic: str,
    program: Program,
    *,
    inc: int | None = None,
    name: str = "",
    held: int | None = None,
    returns: bool = False,
    rows: bool = False,
) -> Open:
    return Open(topic, encode_program(program), inc, name, held, returns, rows)
