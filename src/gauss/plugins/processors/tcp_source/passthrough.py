"""`mode = "passthrough"`: moves each connection's bytes to a capture, to another address, or both, without parsing."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable

from gauss.contracts.capture import Capture, RawContext
from gauss.contracts.transport import Connection
from gauss.model.errors import StorageError, Unavailable
from gauss.plugins.processors.tcp_source.connections import SourceConnections
from gauss.plugins.transports.connection import hang_up, start_thread, tune
from gauss.plugins.transports.mover import DISK_FULL, STALLED, Mover, Outlet

CONNECT_SECONDS = 5.0
TICK_SECONDS = 0.25
"""How long a send waits for a peer that does not read before it checks for a stop."""
DISK_WAIT_SECONDS = 0.25


class Passthrough(SourceConnections[RawContext]):
    """Moves the bytes of all connections of its transport."""

    def __init__(self, context: RawContext) -> None:
        super().__init__(context)
        self._far: set[socket.socket] = set()

    def close(self) -> None:
        self._cancel.set()
        with self._quiet:
            for sock in (*self._open, *self._far):
                hang_up(sock)
        super().close()

    def _take(self, connection: Connection) -> None:
        captures = self._context.captures
        with contextlib.ExitStack() as ending:
            far = self._reach_far(ending)
            capture = captures.begin(connection.peer) if captures is not None else None
            whole = False
            try:
                back = None if far is None else ending.enter_context(_Back(far, connection.sock, self._stalled))
                whole = self._forward(connection, capture, far)
                if back is not None and back.broken is not None:
                    whole = False
                    raise back.broken
                if far is not None:  # half closed: the far side may still send
                    hang_up(far, socket.SHUT_WR)
            finally:
                if capture is not None:
                    capture.end(whole=whole)

    def _reach_far(self, ending: contextlib.ExitStack) -> socket.socket | None:
        if self._config.forward is None:
            return None
        host, port = self._config.forward_address()
        try:
            far = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
        except OSError as error:
            raise Unavailable(
                f"no connection to {self._config.forward}: {error.strerror or error}",
                hint="is the service of forward up?",
            ) from error
        ending.callback(self._leave_far, far)
        with self._quiet:
            self._far.add(far)
        if self._cancel.is_set():  # `close` may have closed the other connections before this one existed
            hang_up(far)
        tune(far, self._config.keepalive)
        far.settimeout(None)
        _set_limit(far, socket.SO_SNDTIMEO, TICK_SECONDS)
        return far

    def _leave_far(self, far: socket.socket) -> None:
        with self._quiet:
            self._far.discard(far)
        far.close()

    def _forward(self, connection: Connection, capture: Capture | None, far: socket.socket | None) -> bool:
        """Moves bytes from the connection to its outlets until it ends; returns whether its sender ended it."""
        sock, captures = connection.sock, self._context.captures
        sock.settimeout(None)
        if self._config.idle_timeout is not None:
            _set_limit(sock, socket.SO_RCVTIMEO, self._config.idle_timeout / 1000)
        outlets = [] if capture is None else [Outlet(capture.fd, self._disk_full, capture.grew)]
        outlets += [] if far is None else [Outlet(far.fileno(), self._stalled)]
        mover = Mover(sock, outlets)
        try:
            while not self._draining:
                full = captures is not None and not captures.has_room()
                if (full or not self._context.may_read()) and not _has_ended(sock):
                    self._cancel.wait(DISK_WAIT_SECONDS)
                    continue
                moved = mover.step()
                if not moved:
                    return not self._draining
                with self._quiet:
                    self._context.status.bytes += moved
                    self._context.status.set_running()
            return False
        except TimeoutError:
            raise TimeoutError(f"nothing received for {self._config.idle_timeout} ms (idle_timeout)") from None
        finally:
            mover.close()

    def _stalled(self, error: OSError) -> None:
        if error.errno not in STALLED or self._cancel.is_set():
            raise error

    def _disk_full(self, error: OSError) -> None:
        """Waits for disk space. The bytes stay in the pipe and the sender waits, as with a full file topic."""
        if error.errno not in DISK_FULL:
            raise StorageError(f"writing a capture: {error.strerror}", hint="check the disk and the folder") from error
        self._context.status.state, self._context.status.detail = "waiting", "the disk is full: senders wait"
        if self._cancel.wait(DISK_WAIT_SECONDS):
            raise StorageError("the disk was full at the stop: the capture lacks its last bytes") from error


class _Back:
    """The other direction, in its own thread: bytes from the far side."""

    def __init__(self, far: socket.socket, near: socket.socket, stalled: Callable[[OSError], None]) -> None:
        self._far, self._near = far, near
        _set_limit(near, socket.SO_SNDTIMEO, TICK_SECONDS)
        self._mover = Mover(far, [Outlet(near.fileno(), stalled)])
        self.broken: OSError | None = None
        """The error of the connection to the far side; None if it ended normally."""

    def __enter__(self) -> _Back:
        self._thread = start_thread(self._run, f"back:{self._far.fileno()}")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            hang_up(self._far)
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._mover.step():
                pass
            hang_up(self._near, socket.SHUT_WR)
        except OSError as error:
            self.broken = error
            hang_up(self._near)  # wakes the other direction
            hang_up(self._far)
        finally:
            self._mover.close()


def _has_ended(sock: socket.socket) -> bool:
    """Whether the peer has ended its stream and all bytes were read."""
    try:
        return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # the next read raises the reason


def _set_limit(sock: socket.socket, option: int, seconds: float) -> None:
    whole, fraction = divmod(seconds, 1)
    sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", int(whole), int(fraction * 1_000_000)))
