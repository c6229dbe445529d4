"""Connection handling that both modes of a tcp-source share: counting, status and shutdown."""

from __future__ import annotations

import logging
import socket
import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from gauss.contracts.capture import RawContext
from gauss.contracts.edge import EdgeContext
from gauss.contracts.transport import Connection
from gauss.model.errors import GaussError, Rejected
from gauss.plugins.processors.tcp_source.spec import TcpSourceConfig
from gauss.plugins.transports.connection import hang_up

log = logging.getLogger("gauss.tcp_source")

Context = TypeVar("Context", EdgeContext, RawContext)


class SourceConnections(ABC, Generic[Context]):
    """Serves all connections of its transport until it is drained or closed."""

    def __init__(self, context: Context) -> None:
        assert isinstance(context.config, TcpSourceConfig)
        self._context: Context = context
        self._config = context.config
        self._draining = False
        self._cancel = threading.Event()
        self._open: set[socket.socket] = set()
        self._quiet = threading.Condition()

    @abstractmethod
    def _take(self, connection: Connection) -> None:
        """Reads one connection until it ends."""

    def start(self) -> None:
        self._context.status.state = "running"
        self._context.transport.start(self._serve, self._report)
        host, port = self._context.transport.address()
        self._context.status.address = f"{self._config.transport} {host}:{port}"

    def drain(self, seconds: float) -> None:
        self._draining = True
        self._context.transport.stop_accepting()
        with self._quiet:
            for sock in self._open:
                hang_up(sock, socket.SHUT_RD)
            self._quiet.wait_for(lambda: not self._open, seconds)

    def close(self) -> None:
        self._draining = True
        self._cancel.set()
        self._context.transport.close()
        self._context.status.state = "stopped"

    def _report(self, what: str, why: str) -> None:
        with self._quiet:
            self._context.status.report(what, why)

    def _serve(self, connection: Connection) -> None:
        status = self._context.status
        with self._quiet:
            self._open.add(connection.sock)
            status.connections = len(self._open)
            status.accepted += 1
            status.set_running()
        try:
            self._take(connection)
        except (GaussError, OSError) as error:
            told = error.message if isinstance(error, GaussError) else str(error.strerror or error)
            log.warning("%s: connection %s closed: %s", self._context.name, connection.peer, told)
            status.detail = f"{connection.peer}: {told}"
            if isinstance(error, Rejected):
                with self._quiet:
                    status.refused += 1
        finally:
            with self._quiet:
                self._open.discard(connection.sock)
                status.connections = len(self._open)
                self._quiet.notify_all()
