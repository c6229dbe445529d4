from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.chunk import MappedFile, file_part
from gauss.plugins.processors.tcp_sink.wire import FILE_BYTES, Wire
from helpers.cases import cases


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> memoryview:
    path = tmp_path_factory.mktemp("wire") / "segment"
    path.write_bytes(os.urandom(1 << 20))
    with path.open("rb") as file:
        return memoryview(MappedFile.map(file.fileno()))


class Kernel:
    """Counts the bytes that the kernel sends from a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent = 0
        self._sendfile = os.sendfile
        monkeypatch.setattr(os, "sendfile", self._count)

    def _count(self, out: int, fd: int, offset: int, count: int) -> int:
        sent = self._sendfile(out, fd, offset, count)
        self.sent += sent
        return sent


def send(buffers: list[bytes | memoryview]) -> bytes:
    """The bytes that the peer of a wire receives."""
    ours, theirs = socket.socketpair()
    received = bytearray()

    def receive() -> None:
        while data := theirs.recv(1 << 16):
            received.extend(data)

    reader = threading.Thread(target=receive)
    reader.start()
    with ours, theirs:
        wire = Wire(ours)
        wire.send(buffers, lambda: None)
        assert wire.handed == sum(len(buffer) for buffer in buffers)
        ours.shutdown(socket.SHUT_WR)
        reader.join(20)
    return bytes(received)


def test_a_part_of_a_file_knows_where_it_lies(mapped: memoryview) -> None:
    part = file_part(mapped[1000:5000][10:20])
    assert part is not None
    assert (part.position, part.length) == (1010, 10)
    assert os.pread(part.file.fd, part.length, part.position) == bytes(mapped[1010:1020])
    assert file_part(memoryview(b"abc")) is None


def test_neighbours_in_a_file_are_sent_by_the_kernel_as_one(
    mapped: memoryview, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(monkeypatch)
    small = FILE_BYTES // 4
    assert send([mapped[start : start + small] for start in range(0, 8 * small, small)]) == mapped[: 8 * small]
    assert kernel.sent == 8 * small


def test_few_bytes_of_a_file_go_with_others_in_one_call(mapped: memoryview, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    assert send([mapped[:100], b"x", mapped[200:300]]) == bytes(mapped[:100]) + b"x" + bytes(mapped[200:300])
    assert kernel.sent == 0


@settings(deadline=None, max_examples=cases(60))
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 20), st.integers(0, 1 << 19)), max_size=8))
def test_any_mixture_of_files_and_memory_arrives_in_order(
    mapped: memoryview, parts: list[tuple[bool, int, int]]
) -> None:
    views = [mapped[start : start + length] for _, start, length in parts]
    buffers = [view if in_file else bytes(view) for view, (in_file, _, _) in zip(views, parts, strict=True)]
    assert send(buffers) == b"".join(buffers)


def test_a_file_that_is_removed_can_still_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"y" * FILE_BYTES)
    with path.open("rb") as file:
        view = memoryview(MappedFile.map(file.fileno()))
    path.unlink()
    assert send([view]) == b"y" * FILE_BYTES


def test_a_file_system_that_refuses_in_the_middle_is_read_instead(
    mapped: memoryview, monkeypatch: pytest.MonkeyPatch
) -> None:
    sendfile, asked = os.sendfile, []

    def refuse(out: int, fd: int, offset: int, count: int) -> int:
        asked.append(count)
        if len(asked) > 1:
            raise OSError(errno.EINVAL, "no")
        return sendfile(out, fd, offset, 1000)

    monkeypatch.setattr(os, "sendfile", refuse)
    assert send([mapped[:200_000], mapped[200_000:400_000], b"end"]) == bytes(mapped[:400_000]) + b"end"
    assert len(asked) == 2, "asked again though it had refused"


def test_a_peer_that_does_not_read_is_told_of_while_a_file_is_sent(mapped: memoryview) -> None:
    class Enough(Exception):
        pass

    def stalled() -> None:
        raise Enough

    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = Wire(ours)
        with pytest.raises(Enough):
            wire.send([mapped], stalled)
        assert 0 < wire.handed < len(mapped)
        received = 0
        while received < wire.handed:
            received += len(theirs.recv(1 << 16))
        assert received == wire.handed
