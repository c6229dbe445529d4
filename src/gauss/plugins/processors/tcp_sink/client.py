"""One client of a sink: its cursor, the bytes it was sent, and how many of them its TCP has acknowledged."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from gauss.contracts.chunk import file_part
from gauss.contracts.cursor import Code, Last, Mode, Output, Placed, Program, ReaderCursor, Seq, Step
from gauss.contracts.edge import EdgeContext, ReaderHandle
from gauss.model.errors import GaussError
from gauss.plugins.processors.tcp_sink.client_config import ClientConfig
from gauss.plugins.processors.tcp_sink.encode import Encodes, WireChunk
from gauss.plugins.processors.tcp_sink.wire import TICK_SECONDS, Wire

STEP = Step(limit=1 << 20, max_bytes=1 << 20, fill=False)
"""Small enough that the topic gets free space while the rest is still being sent."""
FILE_STEP = Step(limit=1 << 20, max_bytes=32 << 20, fill=False)
"""For a client that catches up from files: it blocks no writer, and the kernel sends long runs in few calls."""
FIRST_LOOK_SECONDS = 0.001
DRAIN_LOOK_SECONDS = 0.01
LONGEST_LOOK_SECONDS = 2.0


class PeerGone(GaussError):
    """The client closed the connection; not a fault."""

    code = "peer_gone"


class SlowClient(GaussError):
    """The client does not read and `slow_client = "disconnect"` drops it."""

    code = "slow_client"


class Stop:
    """When the clients of a sink have to end: at once, or after all records below an offset."""

    def __init__(self) -> None:
        self.now = threading.Event()
        self.at: int | None = None


class SinkClient:
    """Sends records until the peer disconnects, the sink stops, or the client is dropped for being slow."""

    def __init__(
        self,
        context: EdgeContext,
        config: ClientConfig,
        wire: Wire,
        encoder: Encodes,
        stop: Stop,
        *,
        peer: str,
        count: Callable[[int, int], None],
    ) -> None:
        self._context = context
        self._topic = context.topic
        self._config = config
        self._wire = wire
        self._peer = peer
        self._stop = stop
        self._count = count
        self._encoder = encoder
        self._position = 0
        self._inc = context.topic.inc
        self._step = STEP
        self._unconfirmed: deque[tuple[int, WireChunk]] = deque()
        self._confirmed = 0
        self._look = self._confirm_look = FIRST_LOOK_SECONDS
        self.shown: dict[str, object] = {
            "since_ms": time.time_ns() // 1_000_000,
            "position": 0,
            "records": 0,
            "bytes": 0,
            "blocked_since_ms": None,
        }
        """This client's entry in the sink's status."""

    def wait_for_turn(self, turn: threading.Lock) -> bool:
        """Waits until the sink's stored position is free; returns False if the sink stops or the peer disconnects."""
        self.shown["detail"] = "waiting: another client holds the position that `resume` keeps"
        while not turn.acquire(timeout=TICK_SECONDS):
            if self._stop.now.is_set() or self._stop.at is not None or self._wire.peer_has_gone():
                return False
        self.shown.pop("detail")
        return True

    def follow(self, reader: ReaderHandle, *, confirmed: bool) -> None:
        """Sends all records from the reader's position on. `confirmed`: the reader moves past a record only when the
        peer's TCP has acknowledged it; records in flight when the connection ends are sent again to the next one."""
        reader.peer = self._peer
        cursor = self._open_at(reader.position)
        try:
            while not self._stop.now.is_set():
                if (sought := reader.take_seek()) is not None:
                    cursor.close()
                    self._unconfirmed.clear()
                    cursor = self._open_at(sought)
                    reader.move(sought)  # another move may have happened in between
                if self._forward(cursor, reader, confirmed):
                    continue
                if self._stop.at is not None and cursor.position >= self._stop.at and not self._under_way(confirmed):
                    self._wire.finish()
                    return
                self._rest(cursor, reader, confirmed)
        finally:
            cursor.close()
            if confirmed:
                reader.move(self._confirmed_position(exact=True))

    def _open_at(self, offset: int) -> ReaderCursor:
        self._position = self._confirmed = offset
        self._inc = self._topic.inc
        return self._topic.open(Program(Seq(offset), Mode.LIVE, Output.CHUNKS))

    def _forward(self, cursor: ReaderCursor, reader: ReaderHandle, confirmed: bool) -> bool:
        missed = cursor.missed
        code = cursor.next(self._step)
        if cursor.missed > missed:
            reader.missed(cursor.missed - missed)
        if code is Code.INVALID:
            return False
        if code is Code.REJECTED and self._topic.inc != self._inc:  # made anew: the reader is moved to its start
            self._stop.now.wait(FIRST_LOOK_SECONDS)
            return False
        if code is not Code.OK:
            raise GaussError(f"the topic refused to be read at {cursor.position}: {code.name}")
        placed = cursor.read()[1]
        assert isinstance(placed, list)
        payload = placed[-1].chunk.payload
        self._step = FILE_STEP if isinstance(payload, memoryview) and file_part(payload) is not None else STEP
        self._send(placed, confirmed)
        self._position = cursor.position
        reader.move(self._confirmed_position(exact=False) if confirmed else cursor.position)
        return True

    def _rest(self, cursor: ReaderCursor, reader: ReaderHandle, confirmed: bool) -> None:
        """Waits for new records; without any, checks whether the peer is connected and what it has acknowledged."""
        unconfirmed = confirmed and bool(self._unconfirmed)
        if self._topic.wait(cursor.position, self._patience(unconfirmed)) > cursor.position:
            return
        if self._wire.peer_has_gone():
            raise PeerGone("the client closed the connection")
        if unconfirmed:
            reader.move(self._confirmed_position(exact=False))

    def _patience(self, unconfirmed: bool) -> float:
        if self._stop.at is not None:
            return DRAIN_LOOK_SECONDS
        if unconfirmed:  # a full topic may be waiting for the acknowledgement
            self._confirm_look = min(self._confirm_look * 2, TICK_SECONDS)
            return self._confirm_look
        # Soon at first, since many who connect hang up at once; later all clients together wake some two hundred
        # times a second, however many they are, but none sleeps so long that a stop would wait for it.
        self._look = min(
            self._look * 2, max(TICK_SECONDS, min(self._context.status.connections / 200, LONGEST_LOOK_SECONDS))
        )
        return self._look

    def _under_way(self, confirmed: bool) -> bool:
        return confirmed and self._wire.unacknowledged() > 0

    def follow_latest(self) -> None:
        """Sends the newest record, then always the newest one when there is a newer; records in between are skipped."""
        seen = 0
        while not self._stop.now.is_set():
            if self._topic.inc != self._inc:  # made anew
                self._inc, seen = self._topic.inc, 0
            version = self._topic.wait(seen, self._patience(False))
            if version > seen:
                cursor = self._topic.open(Program(Last(), Mode.SNAPSHOT, Output.CHUNKS))
                if cursor.next(Step(limit=1)) is Code.OK:
                    placed = cursor.read()[1]
                    assert isinstance(placed, list)
                    self._send(placed, confirmed=False)
                    self._position = cursor.position
                seen = max(cursor.pinned_version, seen)
                cursor.close()
            elif self._wire.peer_has_gone():
                raise PeerGone("the client closed the connection")
            elif self._stop.at is not None:
                self._wire.finish()
                return

    def _send(self, placed: list[Placed], confirmed: bool) -> None:
        encoded = [self._encoder.encode(entry) for entry in placed]
        self._confirm_look = FIRST_LOOK_SECONDS
        if confirmed:
            end = self._wire.handed
            for entry in encoded:
                end += len(entry.payload)
                self._unconfirmed.append((end, entry))
        before = self._wire.handed
        self._wire.send([entry.payload for entry in encoded], self._stalled)
        count, size = sum(entry.chunk.count for entry in placed), self._wire.handed - before
        self._count(count, size)
        shown = self.shown
        shown["position"] = encoded[-1].stop
        shown["records"] = int(str(shown["records"])) + count
        shown["bytes"] = int(str(shown["bytes"])) + size
        shown["blocked_since_ms"] = None

    def _stalled(self) -> None:
        if self._stop.now.is_set():
            raise PeerGone("the sink stopped while the client was not reading")
        if self.shown["blocked_since_ms"] is None:
            self.shown["blocked_since_ms"] = int((time.time() - TICK_SECONDS) * 1000)
        if self._config.slow_client == "block":
            return
        behind, allowed = self._topic.bytes_from(self._position), self._config.slow_client_bytes
        if behind > allowed:
            raise SlowClient(f"it does not read and is {behind} bytes behind (slow_client_bytes = {allowed})")
        blocked = self._topic.blocked()
        if blocked is not None and blocked.peer == self._peer:
            raise SlowClient("it does not read and the topic is full of what it has not read")

    def _confirmed_position(self, *, exact: bool) -> int:
        """Offset of the first record that the peer's TCP has not fully acknowledged; by chunks unless `exact`."""
        arrived = self._wire.handed - self._wire.unacknowledged()
        while self._unconfirmed and self._unconfirmed[0][0] <= arrived:
            self._confirmed = self._unconfirmed.popleft()[1].stop
        if not self._unconfirmed:
            self._confirmed = max(self._confirmed, self._position)
        elif exact and self._unconfirmed[0][1].frames is not None:
            end, entry = self._unconfirmed[0]
            inside = arrived - (end - len(entry.payload))
            assert entry.frames is not None
            self._confirmed = entry.first + int(np.searchsorted(entry.frames.frame_ends(), inside, side="right"))
        return self._confirmed
