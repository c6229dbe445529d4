"""Senders and receivers at both ends of a run."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

from helpers.waiting import wait_until

Record = Callable[[int], bytes]


def connect(port: int, seconds: float = 60.0) -> socket.socket:
    """Connects, retrying until the port is open."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=30)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def send(port: int, data: bytes) -> None:
    """Sends the data, then waits for the peer to close: closing with unread acknowledgements would reset the
    connection."""
    with connect(port) as sock:
        sock.settimeout(240)  # for the whole call: a full topic accepts data only as fast as its readers read
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65_536):
            pass


def push_until_stuck(sock: socket.socket, data: bytes, shown: Callable[[], object], seconds: float = 120.0) -> None:
    """Sends the same bytes until the peer has accepted none for two seconds and the blocking reason is shown (a stall
    without a reason may only be a slow machine). Fails if the peer never stops accepting."""
    sock.setblocking(False)
    deadline, taken = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() - taken < 2 or not shown():
        assert time.monotonic() < deadline, "back-pressure never reached the sender"
        try:
            sock.send(data)
            taken = time.monotonic()
        except BlockingIOError:
            time.sleep(0.05)


class Collector:
    """Reads lines from a sink in a thread and reconnects when the connection ends."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.lines: list[bytes] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with connect(self.port, 1.0) as sock, sock.makefile("rb") as stream:
                    sock.settimeout(None)  # a pause without data is no reason to reconnect
                    for line in stream:
                        if line.endswith(b"\n"):
                            self.lines.append(line[:-1])
                        if self._stop.is_set():
                            return
            except OSError:
                time.sleep(0.1)

    def wait(self, count: int, seconds: float = 60.0) -> list[bytes]:
        """Waits for at least `count` lines; returns all lines received."""
        wait_until(lambda: len(self.lines) >= count, seconds, lambda: f"{len(self.lines)} of {count} lines")
        return self.lines

    def close(self) -> None:
        self._stop.set()


class Counter:
    """Sends 0, 1, 2, … (or `record(n)`) to a source with acknowledgements until `finish`; after a lost connection it
    continues behind the last acknowledged record."""

    def __init__(
        self, port: int, per_second: int = 5_000, record: Callable[[int], bytes] = b'{"n":%d}'.__mod__
    ) -> None:
        self.port, self.step = port, per_second // 50
        self._record = record
        self.acknowledged = 0
        self._sent = 0
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._goes_on():
            try:
                with connect(self.port, 60) as sock:
                    self._feed(sock)
            except OSError:
                time.sleep(0.1)

    def _goes_on(self) -> bool:
        """Whether to keep sending: until `finish`, and then until everything sent is acknowledged, since records of a
        broken connection may or may not be in the topic."""
        return not self._finished.is_set() or self.acknowledged < self._sent

    def _feed(self, sock: socket.socket) -> None:
        base = self.acknowledged
        while self._goes_on():
            stop = self._sent = max(self._sent, self.acknowledged + self.step)
            sock.sendall(b"".join(self._record(n) + b"\n" for n in range(self.acknowledged, stop)))
            while self.acknowledged < stop:
                data = sock.recv(8, socket.MSG_WAITALL)
                if len(data) < 8:
                    raise ConnectionResetError
                self.acknowledged = base + struct.unpack(">Q", data)[0]
            time.sleep(0.02)

    def finish(self) -> int:
        """Stops sending; returns the number of acknowledged records."""
        self._finished.set()
        self._thread.join(180)
        assert not self._thread.is_alive()
        return self.acknowledged
