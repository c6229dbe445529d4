from __future__ import annotations

import errno
import os
import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gauss.plugins.transports import mover
from gauss.plugins.transports.mover import Mover, Outlet

DATA = random.Random(1).randbytes(3 << 20)


def refuse(_: OSError) -> None:
    raise AssertionError("nothing should stall here")


class Ends:
    """A source and the requested number of outlets: a file first, then a socket."""

    def __init__(self, folder: Path, *, file: bool, far: bool) -> None:
        self.near, self.source = socket.socketpair()
        self.path = folder / "capture"
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT)
        self.out, self.far = socket.socketpair()
        self.received = bytearray()
        self.outlets = [Outlet(self.fd, refuse)] * file + [Outlet(self.out.fileno(), refuse)] * far

    def run(self, data: bytes) -> Mover:
        """Sends and moves all data."""

        def send() -> None:
            self.near.sendall(data)
            self.near.shutdown(socket.SHUT_WR)

        def receive() -> None:
            while piece := self.far.recv(1 << 16):
                self.received += piece

        threads = [threading.Thread(target=send), threading.Thread(target=receive)]
        for thread in threads:
            thread.start()
        mover = Mover(self.source, self.outlets)
        while mover.step():
            pass
        mover.close()
        self.out.shutdown(socket.SHUT_WR)
        for thread in threads:
            thread.join(20)
        for sock in (self.near, self.source, self.out, self.far):
            sock.close()
        os.close(self.fd)
        return mover


@pytest.mark.parametrize(("file", "far"), [(True, False), (False, True), (True, True)])
def test_every_outlet_gets_every_byte_and_none_passes_this_process(tmp_path: Path, file: bool, far: bool) -> None:
    ends = Ends(tmp_path, file=file, far=far)
    mover = ends.run(DATA)
    assert ends.path.read_bytes() == (DATA if file else b"")
    assert bytes(ends.received) == (DATA if far else b"")
    assert mover.copied == 0


def failing(call: Callable[..., int], code: int, after: int) -> Callable[..., int]:
    left = [after]

    def maybe(*args: object, **kwargs: object) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(code, os.strerror(code))
        return call(*args, **kwargs)

    return maybe


@pytest.mark.parametrize("after", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS])
def test_a_splice_that_is_refused_at_any_point_becomes_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, code: int
) -> None:
    monkeypatch.setattr(os, "splice", failing(os.splice, code, after))
    ends = Ends(tmp_path, file=True, far=True)
    mover = ends.run(DATA)
    assert ends.path.read_bytes() == DATA
    assert bytes(ends.received) == DATA
    assert mover.copied > 0


@pytest.mark.parametrize("after", [0, 2])
def test_a_tee_that_is_refused_becomes_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    monkeypatch.setattr(mover, "tee", failing(mover.tee, errno.EINVAL, after))
    ends = Ends(tmp_path, file=True, far=True)
    ends.run(DATA)
    assert ends.path.read_bytes() == bytes(ends.received) == DATA


def test_a_system_without_splice_copies(tmp_path: Path) -> None:
    ends = Ends(tmp_path, file=True, far=True)
    for outlet in ends.outlets:
        outlet.spliced = False
    assert ends.run(DATA).copied == len(DATA)
    assert ends.path.read_bytes() == bytes(ends.received) == DATA


def test_a_quiet_source_with_a_limit_times_out() -> None:
    near, source = socket.socketpair()
    source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 8 + (20_000).to_bytes(8, "little"))
    with near, source:
        mover = Mover(source, [Outlet(0, refuse)])
        with pytest.raises(TimeoutError):
            mover.step()
        mover.close()
