"""A cursor of a topic in another process: the client's side of one Flight exchange."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.contracts.cursor import Code, Mode, Program, Seq, Step
from gauss.model.errors import Collected, GaussError, Rejected
from gauss.scan.program.blob import encode_program, encode_step
from gauss.stream.protocol import LEASE_S, MOST_WAIT_MS, Ask, Open, Opened, State

STEP = Step(limit=65_536, max_bytes=256 << 10)
"""Of a scan for people. Some five steps are on their way to a client that does not read, so that they are small; larger
ones are no faster, since the answers are JSON."""
WAIT_MS = 5_000


class RemoteCursor:
    """`contracts.cursor.Cursor` over a wire. One thread calls it, any may cancel; a fault of the call is a FlightError.

    `next` fetches what it prepares, so that a step is one round trip, or less when the one after it is asked for at the
    same time; `ask` gives codes and blobs one by one."""

    def __init__(self, client: Any, options: Any, head: Open) -> None:
        descriptor = flight.FlightDescriptor.for_command(msgspec.json.encode(head))
        self._writer, self._reader = client.do_exchange(descriptor, options)
        self._item: pa.RecordBatch | bytes | None = None
        self._steps: dict[Step, bytes] = {}
        self._under_way = False  # a step that was asked for and not taken yet
        self._early: Any = None  # its answer, if something else was asked meanwhile
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
        """Prepares the next batch and brings it along. `again`: the next step will be the same, so it is asked for
        already; the engine prepares it while the caller works on this one."""
        blob = self._steps.get(step)
        if blob is None:
            blob = self._steps.setdefault(step, Ask.STEP.value + encode_step(step))
        early = self._under_way
        if not early:
            self._writer.write_metadata(blob)
        if again:
            with contextlib.suppress(flight.FlightError, pa.ArrowException):  # the answer will say why
                self._writer.write_metadata(blob)
        code = self._taken(again)
        if code is not Code.UNSET and (early or again):  # more may have come since; nothing stays under way at an end
            if not again:
                self._writer.write_metadata(blob)
            code = self._taken(False)
        return code

    def _taken(self, under_way: bool) -> Code:
        """The answer to a step; one after it may be under way."""
        chunk = self._answer() if self._early is None else self._early
        self._early = None
        self._under_way = under_way
        self._state, rest = State.decode(chunk.app_metadata.to_pybytes())
        self._item = chunk.data if chunk.data is not None else rest
        if self._state.code is not Code.UNSET:
            self._item = None
        return self._state.code

    def read(self) -> tuple[Code, pa.RecordBatch | bytes | None]:
        """The prepared batch: rows and scalar as a batch, columnar and offset_len as their blob."""
        return (Code.INVALID if self._item is None else Code.UNSET), self._item

    def ask(self, what: Ask, argument: bytes = b"") -> tuple[Code, bytes]:
        """One call of the ABI: NEXT with a step blob, READ, or WAIT."""
        if self._under_way and self._early is None:
            self._early = self._answer()
        self._writer.write_metadata(what.value + argument)
        state, blob = State.decode(self._answer().app_metadata.to_pybytes())
        if not self._under_way:  # else the engine's cursor is ahead of what was taken here
            self._state = state
        return state.code, blob

    def wait(self, milliseconds: int = WAIT_MS) -> bool:
        """True once the topic has moved beyond the cursor, False when the time is over."""
        most = 0 if self._under_way else min(milliseconds, MOST_WAIT_MS)
        code, _ = self.ask(Ask.WAIT, most.to_bytes(4, "little"))
        if code is Code.PANIC:
            raise refused(code)
        return code is Code.UNSET or self._under_way

    def _answer(self) -> Any:
        try:
            return self._reader.read_chunk()
        except StopIteration:
            raise flight.FlightUnavailableError("the engine has ended the scan") from None

    def close(self) -> None:
        """Lets go what the cursor held; returns once the engine has."""
        if self._open:
            self._open = False
            with contextlib.suppress(flight.FlightError, pa.ArrowException, StopIteration):
                self._writer.done_writing()
                while True:  # up to the end: a step may be under way
                    self._reader.read_chunk()
            self._end()

    def cancel(self) -> None:
        """The same from another thread, in the middle of a call too: that call fails."""
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
    """A scan from its first batch to its last, as batches. A live one waits for more, and opens anew at the floor of a
    log that it fell behind. Iterate it in one thread, cancel it from any."""

    def __init__(
        self, open_: Callable[[Program], RemoteCursor], floor: Callable[[], int | None], program: Program
    ) -> None:
        """`floor` gives the oldest offset of a log, and None of a table: its rows are wrong without the changes that
        were left out, so that whoever lies behind must begin anew."""
        self.missed = 0
        self._open = open_
        self._floor = floor
        self._program = program
        self.live = program.mode is Mode.LIVE
        self._cancelled = False
        self.cursor = self._opened(program)
        self.idle_at = self.cursor.position
        """Up to there nothing is left to give."""

    def _opened(self, program: Program) -> RemoteCursor:
        while True:
            try:
                return self._open(program)
            except Collected:
                if (begin := self._behind(getattr(program.view, "start", None))) is None:
                    raise
                program = dataclasses.replace(program, view=Seq(begin))

    def _behind(self, position: int | None) -> int | None:
        """Where a live scan that stands at `position` goes on; None: nowhere."""
        if not self.live or not isinstance(self._program.view, Seq) or position is None:
            return None
        floor = self._floor()
        if floor is None or floor <= position:
            return None
        self.missed += floor - position
        return floor

    def batches(self, limit: int | None = None, *, full: bool = False) -> Iterator[pa.RecordBatch]:
        """`limit` rows at most. Small batches come first, so that the few rows of a long search are seen early, unless
        they shall be `full`."""
        left = limit
        most = 1 if self._program.stages and not full else STEP.limit
        while (left is None or left > 0) and not self._cancelled:
            step = Step(most if left is None else min(left, most), STEP.max_bytes)
            code = self.cursor.next(step, again=left is None and most == STEP.limit)
            most = min(2 * most, STEP.limit)
            if code is Code.UNSET:
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
        """Tells the engine that the reader is there, though it takes nothing."""
        self.cursor.wait(0)

    def close(self) -> None:
        self.cursor.close()

    def cancel(self) -> None:
        self._cancelled = True
        self.cursor.cancel()


def refused(code: Code) -> GaussError:
    """Why a scan ended before its end."""
    if code is Code.REJECTED:
        hint = "what it would read next is gone, or it cost more than one scan may: begin it anew, or ask for less"
        return Rejected("the scan was ended by a limit of its topic", hint=hint)
    lapsed = f"nothing was asked of it for {LEASE_S:.0f} s, or the topic's storage failed"
    return GaussError("the scan has ended", hint=f"{lapsed}: see logs/engine.log")


def parsed(program: Program | str) -> Program:
    """A program, or the snapshot of rows that a text asks for."""
    if isinstance(program, Program):
        return program
    from gauss.scan.program.parse import parse_scan  # brings the grammar

    return parse_scan(program)


def opening(
    topic: str,
    program: Program,
    *,
    inc: int | None = None,
    name: str = "",
    held: int | None = None,
    returns: bool = False,
) -> Open:
    return Open(topic, encode_program(program), inc, name, held, returns)
