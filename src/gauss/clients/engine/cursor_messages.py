"""What a cursor and its client say to each other, and the reads of ranges and pinned tables."""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple

import msgspec

from gauss.clients.engine.positions import At
from gauss.contracts.cursor import Code


class Read(msgspec.Struct, tag=True):
    """Ticket of `do_get`: records [start, stop) of one incarnation. Records below the floor or of an earlier
    incarnation are left out and counted as lost for `processor`; without a processor, an earlier incarnation is
    rejected."""

    topic: str
    inc: int
    start: int
    stop: int
    processor: str = ""
    generation: int = 0
    program: bytes = b""
    """A scan program to run over the range: its results are sent instead of the records."""


class Open(msgspec.Struct, tag=True):
    """Descriptor of `do_exchange`: opens a cursor in a reader task of its own. The answer is `Opened`, then a `State`
    for every `Ask`, until either side closes. A cursor that is asked nothing for `LEASE_S` is closed."""

    topic: str
    program: bytes
    """Encoded as in `docs/scan-programs.md`."""
    inc: int | None = None
    """The incarnation to read; None: the current one."""
    name: str = ""
    """The name of the reader, for display."""
    held: int | None = None
    """A version of a table that `Pinned` holds for the reader."""
    returns: bool = False
    """Whether the reader will reopen the cursor at its position; only tables need to know."""
    rows: bool = False
    """Whether to read the newest record of each key of a log, instead of all its records."""


class Opened(msgspec.Struct):
    """An open cursor."""

    scan: int
    """The number of the scan in the engine."""
    inc: int
    pinned_version: int
    position: int


LEASE_S = 30.0


MOST_WAIT_MS = 10_000
"""The longest wait for records; less than the lease, so that a waiting cursor is not closed."""


class Ask(Enum):
    """The first byte of a request to a cursor; its argument follows."""

    STEP = b"S"  # a step blob: next and, if that succeeds, read; rows and scalars come as an Arrow batch
    NEXT = b"N"  # a step blob
    READ = b"R"  # the prepared batch as a blob
    WAIT = b"W"  # milliseconds as four bytes: OK once the topic has moved beyond the cursor, INVALID if not by then


_STATE = struct.Struct("<Bqq")


class State(NamedTuple):
    """The metadata of every answer of a cursor, followed by a blob or nothing."""

    code: Code
    position: int
    hold: int

    def encode(self, blob: bytes = b"") -> bytes:
        return _STATE.pack(*self) + blob

    @classmethod
    def decode(cls, data: bytes) -> tuple[State, bytes]:
        code, position, hold = _STATE.unpack_from(data)
        return cls(Code(code), position, hold), data[_STATE.size :]


class Pinned(msgspec.Struct, tag=True):
    """Asks for the version of a table that a batch was planned with. The answer is an `At` that is held until the batch
    is committed: that version or, if the engine restarted meanwhile, the newest, the same for every task of the
    batch."""

    processor: str
    generation: int
    topic: str
    at: At
