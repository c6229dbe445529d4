"""A TCP proxy before a server, which loses answers and cuts connections."""

from __future__ import annotations

import socket
import threading
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from gauss.connect.conformance.case import NotApplicable
from gauss.connect.conformance.target import Target

CHUNK = 65_536


class Proxy:
    """Listens on localhost and passes bytes on."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._mute = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answers(self, seconds: float) -> None:
        """Loses what the server answers from now on, then cuts all connections. New ones work again."""
        self._mute.set()
        threading.Timer(seconds, self._cut).start()

    def _cut(self) -> None:
        ended, self._open = self._open, []
        for each in ended:
            _shut(each)
        self._mute.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                return
            self._open += [client, server]
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool = False) -> None:
        try:
            while data := source.recv(CHUNK):
                if not (answers and self._mute.is_set()):
                    target.sendall(data)
        except OSError:
            pass
        _shut(source)
        _shut(target)

    def close(self) -> None:
        self._listener.close()
        self._cut()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shut(side: socket.socket) -> None:
    try:
        side.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def server_of(target: Target) -> tuple[str, int]:
    """The address of the connector's server; not applicable if there is none that a proxy can stand before."""
    spec = target.spec
    if spec is None:
        raise NotApplicable("a class or module without a spec does not say which server it uses")
    found = spec.server(spec.validate(target.config))
    if found is None or not found[0] or found[0].startswith("/"):
        raise NotApplicable("the connector has no server on TCP")
    moved(target, *found)
    return found


def moved(target: Target, host: str, port: int) -> dict[str, Any]:
    """The settings with another address."""
    for key, value in target.config.items():
        if isinstance(value, str) and "://" in value:
            url = urlsplit(value)
            user = url.netloc.rpartition("@")[0]
            place = f"{user}@{host}:{port}" if user else f"{host}:{port}"
            return {key: urlunsplit(url._replace(netloc=place))}
    if "host" in target.config:
        return {"host": host, "port": port}
    raise NotApplicable("its settings name no server by a URL, or by host and port")
