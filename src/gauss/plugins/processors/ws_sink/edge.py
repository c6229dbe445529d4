"""The ws-sink processor: a tcp-sink whose clients start with a handshake and whose frames are WebSocket messages."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from websockets.server import ServerProtocol

from gauss.contracts.edge import GREETED, HANDSHAKE, EdgeContext
from gauss.contracts.transport import Connection
from gauss.plugins.processors.tcp_sink.edge import TcpSink
from gauss.plugins.processors.tcp_sink.encode import Encodes
from gauss.plugins.processors.tcp_sink.wire import Wire
from gauss.plugins.processors.ws_sink.encode import Messages
from gauss.plugins.processors.ws_sink.spec import WsSinkConfig
from gauss.plugins.processors.ws_sink.wire import Refused, WsWire, open_handshake
from gauss.plugins.transports.connection import TcpConnection

if TYPE_CHECKING:
    from gauss.plugins.processors.tcp_sink.convert import Conversion

log = logging.getLogger("gauss.ws_sink")


@dataclass
class WsConnection(TcpConnection):
    """A connection after its opening handshake."""

    protocol: ServerProtocol


class WsSink(TcpSink):
    """Sends one topic to every WebSocket client."""

    def __init__(self, context: EdgeContext) -> None:
        assert isinstance(context.config, WsSinkConfig)
        self._ws = context.config
        super().__init__(context)

    def _serve(self, connection: Connection) -> None:
        self._report(HANDSHAKE, connection.peer)
        try:
            protocol = open_handshake(connection.sock, self._ws)
        except (Refused, OSError) as error:
            why = error.message if isinstance(error, Refused) else str(error)
            self._report("refused", f"{connection.peer} refused: {why}")
            log.warning("%s: client %s refused: %s", self._context.name, connection.peer, why)
            return
        finally:
            self._report(GREETED, connection.peer)
        super()._serve(WsConnection(connection.sock, connection.peer, protocol))

    def _ends(self, connection: Connection) -> tuple[Wire, Encodes]:
        assert isinstance(connection, WsConnection)
        messages = Messages(self._conversion, self._dead_letter, marks=self._ws.snapshot_marks)
        return WsWire(connection.sock, connection.protocol, self._stop), messages

    def _converting(self) -> Conversion | None:
        """With an input format alone, messages are JSON objects."""
        given = self._ws.input
        if self._ws.output is not None or given is None or given.format is None:
            return super()._converting()
        from gauss.plugins.formats.json.codec import JsonFormat  # lazy: imports polars
        from gauss.plugins.formats.json.spec import JsonConfig
        from gauss.plugins.processors.tcp_sink.convert import Conversion

        return Conversion(self._context.format(given.format), JsonFormat(JsonConfig()))

    def _words(self) -> str:
        return "wss" if self._ws.tls is not None else "ws"
