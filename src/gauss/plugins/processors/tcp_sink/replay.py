"""`mode = "passthrough"`: sends the captures of a topic to every client, oldest first, directly from their files."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from gauss.contracts.capture import RawContext
from gauss.contracts.chunk import MappedFile
from gauss.contracts.transport import Connection
from gauss.plugins.processors.tcp_sink.client import PeerGone
from gauss.plugins.processors.tcp_sink.wire import Wire

log = logging.getLogger("gauss.tcp_sink")


class CaptureReplay:
    """Sends the captures that were complete when a client connected, then closes the connection."""

    def __init__(self, context: RawContext) -> None:
        assert context.captures is not None
        self._context = context
        self._captures = context.captures
        self._stopped = threading.Event()
        self._changed = threading.Condition()

    def start(self) -> None:
        self._context.status.state = "running"
        self._context.transport.start(self._serve, self._report)
        host, port = self._context.transport.address()
        self._context.status.address = f"raw replay {host}:{port}"

    def drain(self, seconds: float) -> None:
        self._context.transport.stop_accepting()
        with self._changed:
            self._changed.wait_for(lambda: not self._context.status.connections, seconds)

    def close(self) -> None:
        self._stopped.set()
        self._context.transport.close()
        self._context.status.state = "stopped"

    def _report(self, what: str, why: str) -> None:
        with self._changed:
            self._context.status.report(what, why)

    def _serve(self, connection: Connection) -> None:
        status = self._context.status
        shown: dict[str, object] = {"since_ms": time.time_ns() // 1_000_000, "file": "", "bytes": 0}
        with self._changed:
            status.connections += 1
            status.accepted += 1
            status.clients[connection.peer] = shown
        try:
            wire = Wire(connection.sock)
            for path in self._captures.finished():
                shown["file"] = path.name
                self._send(wire, path)
                shown["bytes"] = wire.handed
            wire.finish()
        except (PeerGone, OSError) as gone:
            log.info("%s: client %s disconnected: %s", self._context.name, connection.peer, gone)
        finally:
            with self._changed:
                status.connections -= 1
                status.clients.pop(connection.peer, None)
                self._changed.notify_all()

    def _send(self, wire: Wire, path: Path) -> None:
        before = wire.handed
        try:
            with path.open("rb") as file:
                if not path.stat().st_size:
                    return
                content = memoryview(MappedFile.map(file.fileno()))
        except FileNotFoundError:
            return  # removed by retention in the meantime
        wire.send([content], self._stalled)
        with self._changed:
            self._context.status.bytes += wire.handed - before

    def _stalled(self) -> None:
        if self._stopped.is_set():
            raise PeerGone("the sink stopped while the client was not reading")
