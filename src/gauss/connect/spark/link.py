"""How the tasks of an attempt reach the process that runs the sync: state, checkpoints, progress, dead letters, logs.

A frame is its length as four bytes and a MessagePack value. The first frame of a connection is the attempt's token;
after it each request `[call, arguments]` gets an answer `[drain, result, error]`. A task whose connection breaks ends:
the attempt is over, and what it wrote is fenced by its generation.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import struct
import threading
import time
from typing import Any, Protocol

import msgspec

from gauss.contracts.connector.errors import ConnectorError

log = logging.getLogger("gauss.connect")
MOST_BYTES = 1 << 30
HELLO_S = 10.0
GONE_S = 60
"""A peer that has acknowledged nothing for so long is gone with its machine or the network."""
PAUSE_S = 0.05
"""Between attempts to accept a connection."""
_LENGTH = struct.Struct(">I")


class Calls(Protocol):
    """What the coordinator does for tasks; called by the thread of a connection."""

    def call(self, name: str, arguments: list[Any]) -> Any:
        """Raises ConnectorError."""
        ...

    @property
    def draining(self) -> bool:
        """Whether tasks are to end their sources."""
        ...


class LinkServer:
    """The coordinator's end: listens while an attempt runs."""

    def __init__(self, calls: Calls, host: str = "127.0.0.1") -> None:
        self._calls = calls
        self._token = secrets.token_bytes(32)
        self._listener = socket.create_server((host, 0), backlog=256)
        self.address = (host, int(self._listener.getsockname()[1]), self._token)
        """Host, port and token, for tasks."""
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name="link", daemon=True).start()

    def close(self) -> None:
        """Ends the attempt: tasks that are left break off. Idempotent."""
        with self._lock:
            self._closed = True
            ending, self._open = self._open, set()
        for each in (self._listener, *ending):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:  # not connected
                pass
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if self._closed:
                    return
                # Such as EMFILE or ECONNABORTED: a task must not wait for a coordinator that no longer listens.
                log.warning("a connection of a task could not be accepted: %s", error)
                time.sleep(PAUSE_S)
                continue
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="link-task", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(HELLO_S)
            _tune(connection)
            if not hmac.compare_digest(_receive(connection, most=256), self._token):
                return
            connection.settimeout(None)
            while True:
                name, arguments = msgspec.msgpack.decode(_receive(connection))
                _send(connection, msgspec.msgpack.encode(self._answer(name, arguments)))
        except (OSError, EOFError, msgspec.DecodeError, ValueError, TypeError):
            pass  # the task has ended, or it is no task
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answer(self, name: str, arguments: list[Any]) -> tuple[bool, Any, bytes | None]:
        try:
            return self._calls.draining, self._calls.call(name, arguments), None
        except ConnectorError as error:
            return self._calls.draining, None, error.to_json()
        except Exception as error:
            log.exception("a call of a task failed: %s", name)
            return self._calls.draining, None, ConnectorError.internal("COORDINATOR", str(error)).to_json()


class Link:
    """A task's end. Thread-safe."""

    def __init__(self, address: tuple[str, int, bytes]) -> None:
        """Raises ConnectorError if the attempt is over."""
        host, port, token = address
        self.draining = False
        self._lock = threading.Lock()
        try:
            self._connection = socket.create_connection((host, port), timeout=HELLO_S)
            self._connection.settimeout(None)
            _tune(self._connection)
            _send(self._connection, token)
        except OSError as error:
            raise over() from error

    def call(self, name: str, *arguments: Any) -> Any:
        """The coordinator's result; raises its ConnectorError, or one that says that the attempt is over."""
        try:
            with self._lock:
                _send(self._connection, msgspec.msgpack.encode((name, arguments)))
                answer = _receive(self._connection)
        except (OSError, EOFError) as error:
            raise over() from error
        self.draining, result, failure = msgspec.msgpack.decode(answer)
        if failure is not None:
            raise ConnectorError.from_json(failure)[0]
        return result

    def close(self) -> None:
        self._connection.close()


def over() -> ConnectorError:
    return ConnectorError.internal("ATTEMPT_OVER", "the process that runs the sync has ended this attempt")


def _tune(connection: socket.socket) -> None:
    """Sends at once, and notices a peer whose machine vanishes: calls have no timeout."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Probes are sent while nothing is on its way, and the last option is for what is.
    given = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": GONE_S * 1000}
    for option, value in given.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _send(connection: socket.socket, payload: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(payload)))
    connection.sendall(payload)


def _receive(connection: socket.socket, most: int = MOST_BYTES) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > most:
        raise ValueError(f"a frame has at most {most} bytes, found {length}")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = connection.recv(min(count - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
