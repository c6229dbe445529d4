"""Moves bytes from a socket to files and sockets inside the kernel (splice and tee), or by copying.

A step takes what the source's kernel has into a pipe and empties the pipe into the outlet; for a second outlet the pipe
is duplicated by tee. Where a call is not to be had (another system, a file system without it) that part copies.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

PIPE_BYTES = 1 << 20
COPY_BYTES = 256 << 10
REFUSED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
"""Errors of a call that the system or file system does not support."""
STALLED = {errno.EAGAIN, errno.EWOULDBLOCK}
"""Errors of a peer that does not read."""
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass
class Outlet:
    """A destination of bytes."""

    fd: int
    stalled: Callable[[OSError], None]
    """Told when it can't take any now (a peer that does not read, a full disk); returns to try again, or raises."""
    took: Callable[[int], None] = field(default=lambda _: None)
    spliced: bool = hasattr(os, "splice")


class Pipe:
    """A pipe as large as the system allows."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe()
        for size in (PIPE_BYTES, PIPE_BYTES // 4):
            try:
                fcntl.fcntl(self.into, getattr(fcntl, "F_SETPIPE_SZ", 1031), size)
                break
            except OSError:  # a limit per user, or no such call: the pipe stays as it is
                continue

    def close(self) -> None:
        os.close(self.out)
        os.close(self.into)


class Mover:
    """One direction of a stream, to one outlet or two."""

    def __init__(self, source: socket.socket, outlets: list[Outlet]) -> None:
        self._source = source
        self._outlets = outlets
        self._pipe: Pipe | None = None
        self._copy_pipe: Pipe | None = None
        if all(outlet.spliced for outlet in outlets):
            self._pipe = Pipe()
            self._copy_pipe = Pipe() if len(outlets) > 1 else None
        self.copied = 0
        """Bytes that passed through this process."""

    def step(self) -> int:
        """Moves what there is, waiting for some; 0: the source has ended. A timeout of the source is a TimeoutError."""
        pipe = self._pipe
        if pipe is None:
            return self._copy()
        try:
            came = os.splice(self._source.fileno(), pipe.into, PIPE_BYTES)
        except BlockingIOError:
            raise TimeoutError("the source sent nothing in time") from None
        except OSError as error:
            if error.errno not in REFUSED:
                raise
            self.close()
            return self._copy()
        left = came
        while left:
            left -= self._pass_on(pipe, left)
        return came

    def _pass_on(self, pipe: Pipe, size: int) -> int:
        """Duplicates the pipe into its copy, as much as fits; returns how much."""
        if self._copy_pipe is not None:
            try:
                size = tee(pipe.out, self._copy_pipe.into, size)
            except OSError as error:
                if error.errno not in REFUSED:
                    raise
                data = os.read(pipe.out, size)
                self._write(data)
                if len(data) == size:
                    self.close()
                return len(data)
            self._empty(self._copy_pipe, self._outlets[1], size)
        self._empty(pipe, self._outlets[0], size)
        return size

    def _empty(self, pipe: Pipe, outlet: Outlet, size: int) -> None:
        left = size
        while left:
            if not outlet.spliced:
                data = os.read(pipe.out, left)
                self.copied += len(data)
                _write_all(outlet, data)
                left -= len(data)
                continue
            try:
                moved = os.splice(pipe.out, outlet.fd, left)
            except OSError as error:
                if error.errno in REFUSED:
                    outlet.spliced = False
                else:
                    outlet.stalled(error)
                continue
            outlet.took(moved)
            left -= moved

    def _copy(self) -> int:
        try:
            data = self._source.recv(COPY_BYTES)
        except BlockingIOError:
            raise TimeoutError("the source sent nothing in time") from None
        self._write(data)
        return len(data)

    def _write(self, data: bytes) -> None:
        self.copied += len(data)
        for outlet in self._outlets:
            _write_all(outlet, data)

    def close(self) -> None:
        """Lets go of the pipes; what comes after it is copied."""
        for pipe in (self._pipe, self._copy_pipe):
            if pipe is not None:
                pipe.close()
        self._pipe = self._copy_pipe = None


def _write_all(outlet: Outlet, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            written = os.write(outlet.fd, view)
        except OSError as error:
            outlet.stalled(error)
            continue
        outlet.took(written)
        view = view[written:]


def _libc_tee() -> Callable[[int, int, int, int], int] | None:
    try:
        found: Callable[[int, int, int, int], int] = ctypes.CDLL(None, use_errno=True).tee
    except (OSError, AttributeError):
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint]  # type: ignore[attr-defined]
    found.restype = ctypes.c_ssize_t  # type: ignore[attr-defined]
    return found


_tee = _libc_tee()


def tee(source: int, target: int, size: int) -> int:
    """Duplicates up to `size` bytes of a pipe into another without taking them out."""
    if _tee is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    while (done := _tee(source, target, size, 0)) < 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    return done
