"""A proxy in front of a server: terminates TLS, limits the rate, drops answers, or closes connections."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from pathlib import Path

_SSL_REQUEST = bytes.fromhex("0000000804d2162f")
"""The SSLRequest message of the Postgres protocol."""


class Proxy:
    """Forwards bytes to a port of this machine; `bytes_per_second` limits the direction to the server."""

    def __init__(
        self,
        target: int,
        *,
        certificate: tuple[Path, Path] | None = None,
        postgres: bool = False,
        host: str = "0.0.0.0",
        port: int = 0,
    ) -> None:
        self.bytes_per_second = 0
        self.is_mute = False
        """Whether answers of the server are dropped."""
        self._target, self._postgres = target, postgres
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._context is not None:
                if self._postgres:
                    assert client.recv(8, socket.MSG_WAITALL) == _SSL_REQUEST
                    client.sendall(b"S")
                client = self._context.wrap_socket(client, server_side=True)
            server = socket.create_connection(("127.0.0.1", self._target))
        except (OSError, AssertionError):
            client.close()
            return
        threading.Thread(target=self._pass, args=(server, client), daemon=True).start()
        self._pass(client, server, to_server=True)

    def _pass(self, source: socket.socket, target: socket.socket, *, to_server: bool = False) -> None:
        try:
            self._copy(source, target, to_server)
        except OSError:
            pass
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _copy(self, source: socket.socket, target: socket.socket, to_server: bool) -> None:
        while data := source.recv(16_384):
            if to_server and self.bytes_per_second:
                time.sleep(len(data) / self.bytes_per_second)
            if to_server or not self.is_mute:
                target.sendall(data)

    def close(self) -> None:
        self._listener.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
