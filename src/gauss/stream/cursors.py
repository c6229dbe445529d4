"""A cursor of a topic in another process: the client's side of one Flight exchange."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.contracts.cursor import Code, Program, Step
from gauss.model.errors import GaussError, Rejected
from gauss.scan.program.blob import encode_program, encode_step
from gauss.stream.protocol import LEASE_S, MOST_WAIT_MS, Ask, Open, Opened, State

STEP = Step(limit=65_536, max_bytes=1 << 20)
WAIT_MS = 5_000


class RemoteCursor:
    """`contracts.cursor.Cursor` over a wire. One thread calls it, any may cancel; a fault of the call is a FlightError.

    `next` fetches what it prepares, so that a step is one round trip; `ask` gives codes and blobs one by one."""

    def __init__(self, client: Any, options: Any, head: Open) -> None:
        descriptor = flight.FlightDescriptor.for_command(msgspec.json.encode(head))
        self._writer, self._reader = client.do_exchange(descriptor, options)
        self._item: pa.RecordBatch | bytes | None = None
        self._steps: dict[Step, bytes] = {}
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

    def next(self, step: Step) -> Code:
        """Prepares the next batch and brings it along."""
        blob = self._steps.get(step)
        if blob is None:
            blob = self._steps.setdefault(step, Ask.STEP.value + encode_step(step))
        self._writer.write_metadata(blob)
        chunk = self._answer()
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
        self._writer.write_metadata(what.value + argument)
        self._state, blob = State.decode(self._answer().app_metadata.to_pybytes())
        return self._state.code, blob

    def wait(self, milliseconds: int = WAIT_MS) -> None:
        """Returns once the topic has moved beyond the cursor, or the time is over."""
        self.ask(Ask.WAIT, min(milliseconds, MOST_WAIT_MS).to_bytes(4, "little"))

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


def opening(topic: str, program: Program, *, inc: int | None = None, name: str = "") -> Open:
    return Open(topic, encode_program(program), inc, name)
