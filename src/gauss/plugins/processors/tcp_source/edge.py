"""Connections → records → topic. Back-pressure is not reading: a full topic keeps `append` waiting."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import DeadLetter, EdgeContext
from gauss.contracts.framing import Buffer
from gauss.contracts.transport import Connection
from gauss.model.errors import FrameError, GaussError
from gauss.plugins.processors.tcp_source.decompress import DECOMPRESSORS
from gauss.plugins.processors.tcp_source.spec import TcpSourceConfig
from gauss.plugins.transports.connection import hang_up

log = logging.getLogger("gauss.tcp_source")

SMALLEST_READ = 16 << 10
LARGEST_READ = 1 << 20
MANY_RECORDS = 8_192
DISK_WAIT_SECONDS = 0.25


class TcpSource:
    """Feeds one topic from every connection of its transport."""

    def __init__(self, context: EdgeContext) -> None:
        assert isinstance(context.config, TcpSourceConfig)
        self._context = context
        self._config = context.config
        self._draining = False
        self._cancel = threading.Event()
        self._open: set[socket.socket] = set()
        self._quiet = threading.Condition()

    def start(self) -> None:
        self._context.status.state = "running"
        self._context.transport.start(self._serve, self._told)
        host, port = self._context.transport.address()
        self._context.status.detail = self._context.status.detail or f"{self._config.transport} {host}:{port}"

    def drain(self, seconds: float) -> None:
        self._draining = True
        self._context.transport.stop_accepting()
        deadline = time.monotonic() + seconds
        with self._quiet:
            for sock in self._open:
                hang_up(sock, socket.SHUT_RD)
            self._quiet.wait_for(lambda: not self._open, max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        self._draining = True
        self._cancel.set()
        self._context.transport.close()
        self._context.status.state = "stopped"

    def _told(self, what: str, why: str) -> None:
        status = self._context.status
        with self._quiet:
            status.detail = why
            if what == "refused":
                status.refused += 1
            else:
                status.state = what

    def _serve(self, connection: Connection) -> None:
        status = self._context.status
        with self._quiet:
            self._open.add(connection.sock)
            status.connections = len(self._open)
            status.accepted += 1
            status.state = "running"
        try:
            _Stream(self._context, self._config, connection, self._cancel, self._quiet).run(lambda: self._draining)
        except (GaussError, OSError) as error:
            told = error.message if isinstance(error, GaussError) else str(error)
            log.warning("%s: connection %s closed: %s", self._context.name, connection.peer, told)
            status.detail = f"{connection.peer}: {told}"
        finally:
            with self._quiet:
                self._open.discard(connection.sock)
                status.connections = len(self._open)
                self._quiet.notify_all()


class _Stream:
    """One connection: receive, decompress, cut, append, acknowledge."""

    def __init__(
        self,
        context: EdgeContext,
        config: TcpSourceConfig,
        connection: Connection,
        cancel: threading.Event,
        counting: threading.Condition,
    ) -> None:
        self._context = context
        self._config = config
        self._connection = connection
        self._cancel = cancel
        self._counting = counting
        self._splitter = context.framing.splitter(config.max_record_bytes)
        self._decompressor = None if config.compression == "none" else DECOMPRESSORS[config.compression]()
        self._visible = 0

    def run(self, draining: Callable[[], bool]) -> None:
        """Until the peer ends, the source drains, or bytes come that can't be framed (FrameError)."""
        sock = self._connection.sock
        idle_ms = self._config.idle_timeout
        sock.settimeout(None if idle_ms is None else idle_ms / 1000)
        buffer = bytearray(SMALLEST_READ)
        try:
            while not draining():
                if not self._context.may_read():
                    self._cancel.wait(DISK_WAIT_SECONDS)
                    continue
                received = self._receive(sock, buffer)
                if not received:
                    break
                count = 0
                for piece in self._plain(memoryview(buffer)[:received]):
                    count += self._append(piece)
                    self._splitter.feed(b"")  # an error behind whole records: raised now, not with the next bytes
                # Large reads only for senders that fill them (a thousand quiet connections need no gigabyte), and not
                # for tiny records: a chunk that fills a whole ring would be cut up to get in.
                if received == len(buffer) < LARGEST_READ and count < MANY_RECORDS:
                    buffer = bytearray(len(buffer) * 4)
                elif received < SMALLEST_READ < len(buffer):
                    buffer = bytearray(SMALLEST_READ)
            if self._decompressor is not None and not draining():
                self._decompressor.finish()
            # Also when draining: what was read and is no record yet would be lost without a trace.
            self._splitter.finish()
        except FrameError as error:
            self._bury(error)
            raise

    def _receive(self, sock: socket.socket, buffer: bytearray) -> int:
        try:
            return sock.recv_into(buffer)
        except TimeoutError:
            raise TimeoutError(f"nothing received for {self._config.idle_timeout} ms (idle_timeout)") from None
        except ConnectionResetError:
            return 0

    def _plain(self, data: memoryview) -> Iterator[Buffer]:
        if self._decompressor is None:
            yield data
            return
        try:
            yield from self._decompressor.feed(bytes(data))
        except FrameError:
            # The half record that stood before the corrupt bytes is a dead letter too.
            try:
                self._splitter.finish()
            except FrameError as half:
                self._bury(half)
            raise

    def _append(self, data: Buffer) -> int:
        frames = self._splitter.feed(data)
        if not frames.count:
            return 0
        framing = self._context.framing
        chunk = Chunk(frames.payload, frames.count, time.time_ns() // 1_000_000, framing if framing.raw else None)
        appended = self._context.topic.append(chunk, self._cancel)
        status = self._context.status
        with self._counting:
            status.records += appended.accepted
            status.bytes += chunk.nbytes
        self._visible += appended.accepted
        if self._config.ack == "count":
            # A sender that has gone no longer wants to know; its records stay.
            with contextlib.suppress(OSError):
                self._connection.sock.sendall(self._visible.to_bytes(8, "big"))
        return frames.count

    def _bury(self, error: FrameError) -> None:
        with self._counting:
            self._context.status.dead += 1
        self._context.dead(
            DeadLetter(
                reason=error.reason,
                detail=f"{self._connection.peer}: {error.message}",
                stage="frame",
                processor=self._context.name,
                data=error.bad,
                topic=self._context.topic.name,
                ts_ms=time.time_ns() // 1_000_000,
            )
        )
