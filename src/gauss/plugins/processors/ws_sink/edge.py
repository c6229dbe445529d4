"""Topic → WebSocket messages: a tcp-sink whose clients open with a handshake and whose frames are messages."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from websockets.server import ServerProtocol

from gauss.contracts.edge import GREETED, HANDSHAKE, EdgeContext
from gauss.contracts.transport import Connection
from gauss.plugins.processors.tcp_sink.edge import TcpSink
from gauss.plugins.processors.tcp_sink.encode import Encodes
from gauss.plugins.processors.tcp_sink.wire import Wire
from gauss.plugins.processors.ws_sink.encode import JsonMessages, Messages
from gauss.plugins.processors.ws_sink.spec import WsSinkConfig
from gauss.plugins.processors.ws_sink.wire import Refused, WsWire, open_handshake
from gauss.plugins.transports.connection import TcpConnection

log = logging.getLogger("gauss.ws_sink")


@dataclass
class WsConnection(TcpConnection):
    """A connection past its opening handshake."""

    protocol: ServerProtocol


class WsSink(TcpSink):
    """Sends one topic to every WebSocket client."""

    def __init__(self, context: EdgeContext) -> None:
        super().__init__(context)
        assert isinstance(context.config, WsSinkConfig)
        self._ws = context.config
        given = context.config.input
        self._format = context.format(given.format) if given is not None and given.format else None

    def _serve(self, connection: Connection) -> None:
        self._told(HANDSHAKE, connection.peer)
        try:
            protocol = open_handshake(connection.sock, self._ws.path, self._ws.token)
        except (Refused, OSError) as error:
            why = error.message if isinstance(error, Refused) else str(error)
            self._told("refused", f"{connection.peer} refused: {why}")
            log.warning("%s: client %s refused: %s", self._context.name, connection.peer, why)
            return
        finally:
            self._told(GREETED, connection.peer)
        super()._serve(WsConnection(connection.sock, connection.peer, protocol))

    def _ends(self, connection: Connection) -> tuple[Wire, Encodes]:
        assert isinstance(connection, WsConnection)
        encoder = Messages() if self._format is None else JsonMessages(self._format, self._bury)
        return WsWire(connection.sock, connection.protocol), encoder

    def _words(self) -> str:
        return "wss" if self._ws.tls is not None else "ws"
