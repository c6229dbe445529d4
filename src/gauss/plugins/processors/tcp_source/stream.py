"""One connection of a source: receive, decompress, split, append, acknowledge."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import EdgeContext
from gauss.contracts.framing import Buffer, Frames, Framing, cut
from gauss.contracts.letter import Letter
from gauss.contracts.transport import Connection
from gauss.model.errors import FrameError
from gauss.plugins.framings.newline.framing import NewlineFraming
from gauss.plugins.framings.newline.spec import NewlineConfig
from gauss.plugins.processors.tcp_source.budget import OVER_BUDGET, Holding
from gauss.plugins.processors.tcp_source.decompress import DECOMPRESSORS, CompressionError, Decompressor
from gauss.plugins.processors.tcp_source.encoding import detect
from gauss.plugins.processors.tcp_source.opening import Opening
from gauss.plugins.processors.tcp_source.spec import TcpSourceConfig

log = logging.getLogger("gauss.tcp_source")

SMALLEST_READ = 16 << 10
LARGEST_READ = 1 << 20
MANY_RECORDS = 8_192
DISK_WAIT_SECONDS = 0.25
MOST_UNFINISHED_BYTES = 64 << 10
"""Maximum bytes of an unfinished record that are kept when its connection is closed because of it."""


class SourceStream:
    """Writes the records of one connection to the topic."""

    def __init__(
        self,
        context: EdgeContext,
        connection: Connection,
        cancel: threading.Event,
        counting: threading.Condition,
        holding: Holding,
    ) -> None:
        config = context.config
        assert isinstance(config, TcpSourceConfig)
        self._context = context
        self._config = config
        self._connection = connection
        self._cancel = cancel
        self._counting = counting
        self._holding = holding
        assert context.framing is not None
        self._framing: Framing = context.framing
        self._splitter = self._framing.splitter(config.max_record_bytes)
        self._decompressor: Decompressor | None = (
            None if config.compression == "none" else DECOMPRESSORS[config.compression]()
        )
        self._visible = 0
        self._opening = None if config.allow_http else Opening()
        self._head: bytearray | None = None
        """Bytes received before the encoding is known."""
        self._decide_at: float | None = None
        if config.encoding == "auto":
            self._head = bytearray()
            context.status.phases[connection.peer] = "detecting encoding"

    def run(self, draining: Callable[[], bool]) -> None:
        """Runs until the peer ends or the source drains; raises any other reason. An incomplete record becomes a dead
        letter."""
        status, peer = self._context.status, self._connection.peer
        try:
            self._run(draining)
        finally:
            status.phases.pop(peer, None)
            status.clients.pop(peer, None)

    def _run(self, draining: Callable[[], bool]) -> None:
        try:
            self._read(draining)
            self._holding.hold(0)  # raises if it was closed because of the budget
            self._decide(final=True)
            if self._decompressor is not None and not draining():
                self._decompressor.finish()
        except FrameError as error:
            if error.reason == OVER_BUDGET:
                error.bad = self._half_record()[:MOST_UNFINISHED_BYTES]
            self._dead_letter(error)
            if isinstance(error, CompressionError):
                self._dead_letter_half_record()
            raise
        except OSError:
            self._dead_letter_half_record()
            raise
        try:
            # Also when draining: otherwise an incomplete record would be lost without a trace.
            self._splitter.finish()
        except FrameError as error:
            self._dead_letter(error)
            raise

    def _read(self, draining: Callable[[], bool]) -> None:
        buffer = bytearray(SMALLEST_READ)
        idle_ms = self._config.idle_timeout
        self._patience = None if idle_ms is None else idle_ms / 1000
        self._connection.sock.settimeout(self._patience)
        while not draining():
            if not self._context.may_read():
                self._cancel.wait(DISK_WAIT_SECONDS)
                continue
            received = self._receive(buffer)
            if received is None:
                self._decide(final=True)
                continue
            if not received:
                return
            count = self._take(memoryview(buffer)[:received], len(buffer) - SMALLEST_READ)
            # Large reads only for senders that fill them (a thousand quiet connections need no gigabyte), and not
            # for tiny records: a chunk that fills a whole ring would be cut up to get in.
            if received == len(buffer) < LARGEST_READ and count < MANY_RECORDS:
                if self._holding.may_grow(4 * len(buffer)):
                    buffer = bytearray(len(buffer) * 4)
            elif received < SMALLEST_READ < len(buffer):
                buffer = bytearray(SMALLEST_READ)

    def _take(self, data: memoryview, buffered: int) -> int:
        """Splits and appends the received bytes; returns the number of records."""
        if self._opening is not None and self._opening.is_over(data):
            self._opening = None
        count = self._append(data) if self._decompressor is None else self._inflate(self._decompressor, data, buffered)
        if count:
            self._holding.finished()
        self._holding.hold(self._held() + buffered)
        return count

    def _inflate(self, decompressor: Decompressor, data: memoryview, buffered: int) -> int:
        count = 0
        with self._holding.passing(decompressor.piece_bytes):
            for piece in decompressor.feed(bytes(data)):
                if self._cancel.is_set():  # a small read may decompress to a gigabyte
                    break
                self._holding.hold(self._held() + buffered)
                count += self._append(piece)
        return count

    def _held(self) -> int:
        return self._splitter.held() + (self._decompressor.held() if self._decompressor is not None else 0)

    def _receive(self, buffer: bytearray) -> int | None:
        """The number of received bytes; None if the time to detect the encoding is over."""
        sock = self._connection.sock
        try:
            if self._decide_at is None:
                return sock.recv_into(buffer)
            left = self._decide_at - time.monotonic()
            sock.settimeout(max(left, 0.001))
            try:
                return sock.recv_into(buffer)
            finally:
                sock.settimeout(self._patience)
        except TimeoutError:
            if self._decide_at is not None:
                return None
            raise TimeoutError(f"nothing received for {self._config.idle_timeout} ms (idle_timeout)") from None
        except ConnectionResetError:
            return 0

    def _append(self, data: Buffer) -> int:
        if self._head is not None:
            if self._decide_at is None:
                self._decide_at = time.monotonic() + self._config.detect_timeout / 1000
            self._head += data
            return self._decide(final=time.monotonic() >= self._decide_at)
        return self._cut(data)

    def _decide(self, *, final: bool) -> int:
        """Splits the buffered bytes once the encoding is known; returns the number of records."""
        held = self._head
        if held is None or (found := detect(held, final=final)) is None:
            return 0
        self._head = self._decide_at = None
        parameters = {} if self._config.input is None else self._config.input.parameters()
        self._framing = NewlineFraming(NewlineConfig(**parameters, encoding=found.encoding))
        self._splitter = self._framing.splitter(self._config.max_record_bytes)
        status, peer = self._context.status, self._connection.peer
        status.phases.pop(peer, None)
        status.clients[peer] = {"encoding": found.encoding}
        return self._cut(bytes(held[found.mark :]))

    def _cut(self, data: Buffer) -> int:
        count = 0
        for frames in cut(self._splitter, data):
            self._add(frames)
            count += frames.count
            if self._cancel.is_set():
                break
        return count

    def _add(self, frames: Frames) -> None:
        framing = self._framing
        now_ms = time.time_ns() // 1_000_000
        chunk = Chunk(frames.payload, frames.count, now_ms, framing if framing.raw else None, frames.bounds)
        appended = self._context.topic.append(chunk, self._cancel)
        if self._cancel.is_set() and appended.accepted + appended.dropped < chunk.count:
            log.warning(
                "%s: %s: the topic was full at the stop; up to %d received records are lost",
                self._context.name,
                self._connection.peer,
                chunk.count - appended.accepted - appended.dropped,
            )
        self._visible += appended.accepted
        with self._counting:
            self._context.status.records += appended.accepted
            self._context.status.bytes += chunk.nbytes
        if self._config.ack == "count":
            # A disconnected sender needs no acknowledgement; its records stay.
            with contextlib.suppress(ConnectionError):
                self._connection.sock.sendall(self._visible.to_bytes(8, "big"))

    def _half_record(self) -> bytes:
        try:
            self._splitter.finish()
        except FrameError as half:
            return half.bad
        return b""

    def _dead_letter_half_record(self) -> None:
        try:
            self._decide(final=True)  # the buffered bytes may be complete records
            self._splitter.finish()
        except FrameError as half:
            self._dead_letter(half)

    def _dead_letter(self, error: FrameError) -> None:
        with self._counting:
            self._context.status.dead += 1
        self._context.dead(
            Letter(
                reason=error.reason,
                detail=f"{self._connection.peer}: {error.message}",
                stage="frame",
                processor=self._context.name,
                data=error.bad,
                topic=self._context.topic.name,
                ts_ms=time.time_ns() // 1_000_000,
            )
        )
