"""The framed mode of a tcp-sink. Each client has its own cursor and, with `read = "offset"`, its own reader."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from gauss.contracts.edge import EdgeContext, ReaderHandle
from gauss.contracts.letter import Letter
from gauss.contracts.transport import Connection
from gauss.model.errors import GaussError
from gauss.plugins.processors.tcp_sink.client import PeerGone, SinkClient, Stop
from gauss.plugins.processors.tcp_sink.client_config import ClientConfig
from gauss.plugins.processors.tcp_sink.encode import Encoder, Encodes
from gauss.plugins.processors.tcp_sink.spec import TcpSinkConfig
from gauss.plugins.processors.tcp_sink.table_client import TableClient
from gauss.plugins.processors.tcp_sink.wire import Wire

if TYPE_CHECKING:
    from gauss.plugins.processors.tcp_sink.convert import Conversion

log = logging.getLogger("gauss.tcp_sink")

MOST_REMEMBERED = 100_000


class TcpSink:
    """Sends one topic to all connections of its transport."""

    def __init__(self, context: EdgeContext) -> None:
        assert isinstance(context.config, ClientConfig)
        self._context = context
        self._config = context.config
        self._stop = Stop()
        self._kept: ReaderHandle | None = None
        self._turn = threading.Lock()
        self._clients: set[SinkClient] = set()
        self._changed = threading.Condition()
        self._buried: set[int] = set()
        self._conversion = self._converting()

    def start(self) -> None:
        # A position that outlives connections is registered before the first one and retains records from then on.
        if self._context.read == "offset" and self._config.keeps_place():
            self._kept = self._context.topic.reader(self._context.name, self._config.starts_at(), keep=True)
        self._context.status.state = "running"
        self._context.transport.start(self._serve, self._report)
        host, port = self._context.transport.address()
        self._context.status.address = f"{self._words()} {host}:{port}"

    def drain(self, seconds: float) -> None:
        self._context.transport.stop_accepting()
        self._stop.at = self._context.topic.version()
        with self._changed:
            self._changed.wait_for(lambda: not self._clients, seconds)

    def close(self) -> None:
        self._stop.now.set()
        self._context.transport.close()
        if self._kept is not None:
            self._kept.close()
        self._context.status.state = "stopped"

    def _report(self, what: str, why: str) -> None:
        with self._changed:
            self._context.status.report(what, why)

    def _serve(self, connection: Connection) -> None:
        kind = TableClient if self._context.read in ("snapshot", "subscribe") else SinkClient
        wire, encoder = self._ends(connection)
        client = kind(self._context, self._config, wire, encoder, self._stop, peer=connection.peer, count=self._count)
        status = self._context.status
        with self._changed:
            self._clients.add(client)
            status.connections = len(self._clients)
            status.accepted += 1
            status.set_running()
            status.clients[connection.peer] = client.shown
        try:
            self._follow(client)
        except (PeerGone, ConnectionError) as gone:  # clients come and go; most go with bytes unread
            log.info("%s: client %s disconnected: %s", self._context.name, connection.peer, gone)
        except (GaussError, OSError) as error:
            told = error.message if isinstance(error, GaussError) else str(error.strerror or error)
            log.warning("%s: connection %s closed: %s", self._context.name, connection.peer, told)
            status.detail = f"{connection.peer}: {told}"
        finally:
            with self._changed:
                self._clients.discard(client)
                status.connections = len(self._clients)
                status.clients.pop(connection.peer, None)
                self._changed.notify_all()

    def _ends(self, connection: Connection) -> tuple[Wire, Encodes]:
        """A client's socket and its encoder."""
        assert self._context.framing is not None
        assert isinstance(self._config, TcpSinkConfig)
        framing, end = self._context.framing, self._config.snapshot_end
        return Wire(connection.sock), Encoder(framing, self._conversion, self._dead_letter, end)

    def _converting(self) -> Conversion | None:
        """The conversion to the output format; None if records are sent unchanged."""
        if self._context.formats is None:
            return None
        from gauss.plugins.processors.tcp_sink.convert import Conversion

        return Conversion(*map(self._context.format, self._context.formats))

    def _follow(self, client: SinkClient) -> None:
        if isinstance(client, TableClient):
            client.follow_table()
        elif self._context.read == "latest":
            client.follow_latest()
        elif self._kept is None:
            reader = self._context.topic.reader(self._context.name, self._config.starts_at(), keep=False)
            try:
                client.follow(reader, confirmed=False)
            finally:
                reader.close()
        elif client.wait_for_turn(self._turn):
            try:
                client.follow(self._kept, confirmed=True)
            finally:
                self._kept.peer = ""
                self._turn.release()

    def _count(self, records: int, size: int) -> None:
        with self._changed:
            self._context.status.records += records
            self._context.status.bytes += size

    def _words(self) -> str:
        """The kind of sink, for the status."""
        assert isinstance(self._config, TcpSinkConfig)
        return self._config.transport

    def _dead_letter(self, offset: int, data: bytes, reason: str, detail: str, stage: str) -> None:
        """Writes a record that cannot be sent to the dead letters, once for all clients."""
        with self._changed:
            if offset in self._buried:
                return
            if len(self._buried) >= MOST_REMEMBERED:
                self._buried.clear()
            self._buried.add(offset)
            self._context.status.dead += 1
        self._context.dead(
            Letter(
                reason=reason,
                detail=detail,
                stage=stage,
                processor=self._context.name,
                data=data,
                topic=self._context.topic.name,
                inc=self._context.topic.inc,
                offset=offset,
                ts_ms=time.time_ns() // 1_000_000,
            )
        )
