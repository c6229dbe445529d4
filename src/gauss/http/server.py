"""The HTTP server of control: uvicorn in a thread. Its socket listens before the web framework is imported."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gauss.model.errors import ConfigError


def listen(host: str, port: int) -> socket.socket:
    """Opens the listening socket; connections queue until the server runs."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"api.port: {host}:{port} cannot be bound: {error.strerror}",
            hint="free the port, or remove api.port to use any free port",
        ) from error
    return listener


def url_of(listener: socket.socket, *, tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def tls_context(cert: Path, key: Path) -> ssl.SSLContext:
    """The TLS context, created before anything starts to report bad files early."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:  # SSLError is one
        reason = getattr(error, "reason", None) or error.strerror or error
        raise ConfigError(
            f"api.tls: can't use certificate {cert} with key {key}: {reason}",
            hint="expected PEM files, with the key of the first certificate",
        ) from error
    return context


class ApiServer:
    """Serves the application that `make_app` creates in the thread of the server."""

    def __init__(
        self,
        listener: socket.socket,
        make_app: Callable[[], Any],
        *,
        allow: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.listener = listener
        self._allow = allow
        self._tls = tls
        self._make_app = make_app
        self._server: Any = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        import uvicorn

        from gauss.http.connections import HEAD_BYTES, KEEP_ALIVE_SECONDS, MOST_MESSAGE_BYTES, HttpConnections, Socket

        config = uvicorn.Config(
            self._make_app(),
            http=HttpConnections(self._allow).protocol,  # type: ignore[arg-type]
            ws=Socket,
            loop="gauss.http.connections:Loop",
            ssl_context_factory=None if (tls := self._tls) is None else lambda *_: tls,
            ws_max_size=MOST_MESSAGE_BYTES,
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._server.should_exit = self._stopping.is_set()
        self._server.run(sockets=[self.listener])

    def stop(self, seconds: float = 2.0) -> None:
        """Stops the server and closes its socket."""
        self._stopping.set()
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(seconds)
        self.listener.close()
