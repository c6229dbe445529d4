"""The socket of a sink's client: sends buffers, discards input, and knows how much the peer has acknowledged."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import ssl
import struct
import termios
import time
from collections.abc import Callable, Sequence

from gauss.contracts.chunk import FilePart, file_part
from gauss.plugins.transports.mover import REFUSED

Buffer = bytes | memoryview

TICK_SECONDS = 0.25
"""How long a send waits for a peer that does not read before it checks for a stop."""
MOST_BUFFERS = 512
"""Buffers per system call; the kernel takes at most 1024."""
DISCARD_BYTES = 64 << 10
LINGER_SECONDS = 1.0
FILE_BYTES = 64 << 10
"""Minimum size for sendfile; below it, many buffers in one call are faster."""
MOST_FILE_BYTES = 8 << 20
"""Maximum bytes per call, which takes as long as a slow peer needs to read them."""


class Wire:
    """Sends buffers in order, whatever the socket accepts per call."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._sends_files = not self._tls and hasattr(os, "sendfile")
        self.handed = 0
        """Bytes passed to the kernel so far, before encryption."""
        if self._tls:
            sock.settimeout(TICK_SECONDS)
        else:
            # A blocking send with a limit in the kernel is one call; Python's own timeout polls before each.
            sock.settimeout(None)
            seconds, fraction = divmod(TICK_SECONDS, 1)
            limit = struct.pack("@ll", int(seconds), int(fraction * 1_000_000))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def send(self, buffers: Sequence[Buffer], stalled: Callable[[], None]) -> None:
        """Sends all of `buffers`; calls `stalled` at every tick in which the peer accepted nothing (it may raise)."""
        views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        first = 0
        while first < len(views):
            part = _file_run(views, first) if self._sends_files else None
            if part is not None:
                sent = self._send_file(part, stalled)
            else:
                try:
                    sent = self._send_some(views[first : first + MOST_BUFFERS])
                except (BlockingIOError, TimeoutError):
                    stalled()
                    continue
                self.handed += sent
            while first < len(views) and sent >= len(views[first]):
                sent -= len(views[first])
                first += 1
            if sent:
                views[first] = views[first][sent:]

    def _send_file(self, part: FilePart, stalled: Callable[[], None]) -> int:
        """Sends a part of a file by sendfile; returns the number of sent bytes, less if the file system refuses."""
        sock, fd, sent = self._sock.fileno(), part.file.fd, 0
        while sent < part.length:
            try:
                done = os.sendfile(sock, fd, part.position + sent, min(part.length - sent, MOST_FILE_BYTES))
            except BlockingIOError:
                stalled()
                continue
            except OSError as error:
                if error.errno not in REFUSED:
                    raise
                self._sends_files = False  # the rest, and everything after it, is sent from memory
                break
            if not done:
                raise OSError(errno.EIO, "a file of the topic is shorter than it was")
            sent += done
            self.handed += done
        return sent

    def _send_some(self, views: list[memoryview]) -> int:
        if not self._tls:
            return self._sock.sendmsg(views)
        # Small chunks go out as one TLS record, large ones without a copy.
        return self._sock.send(views[0] if len(views[0]) >= 16 << 10 else b"".join(views[:64]))

    def unacknowledged(self) -> int:
        """Bytes that the peer's TCP has not acknowledged, after encryption and so never less than those of records."""
        return int(struct.unpack("i", fcntl.ioctl(self._sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0])

    def peer_has_gone(self) -> bool:
        """Whether the peer closed or reset the connection; also reads and discards some of its input."""
        try:
            if self._tls:
                self._sock.settimeout(0)
                try:
                    return not self._sock.recv(DISCARD_BYTES)
                finally:
                    self._sock.settimeout(TICK_SECONDS)
            return not self._sock.recv(DISCARD_BYTES, socket.MSG_DONTWAIT)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            return True

    def finish(self) -> None:
        """Ends the stream so that the peer gets the last byte: closing with unread input would reset the connection."""
        deadline = time.monotonic() + LINGER_SECONDS
        try:
            self._sock.settimeout(LINGER_SECONDS)
            if isinstance(self._sock, ssl.SSLSocket):
                with contextlib.suppress(OSError):  # the peer need not answer the TLS close_notify
                    self._sock.unwrap()
            socket.socket.shutdown(self._sock, socket.SHUT_WR)
            while time.monotonic() < deadline and socket.socket.recv(self._sock, DISCARD_BYTES):
                pass
        except OSError:
            return


def _file_run(views: list[memoryview], first: int) -> FilePart | None:
    """The buffers from `first` on that are contiguous in one file, as one part; None if there are too few bytes."""
    run = file_part(views[first])
    if run is None:
        return None
    for view in views[first + 1 :]:
        part = file_part(view)
        if part is None or part.file is not run.file or part.position != run.position + run.length:
            break
        run = run._replace(length=run.length + part.length)
    return run if run.length >= FILE_BYTES else None
