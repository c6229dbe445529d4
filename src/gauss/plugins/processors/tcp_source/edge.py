"""The framed mode of a tcp-source. Backpressure: while the topic is full, `append` waits and nothing is read."""

from __future__ import annotations

from gauss.contracts.edge import EdgeContext
from gauss.contracts.transport import Connection
from gauss.plugins.processors.tcp_source.budget import BufferBudget
from gauss.plugins.processors.tcp_source.connections import SourceConnections
from gauss.plugins.processors.tcp_source.stream import SourceStream
from gauss.plugins.transports.connection import hang_up


class TcpSource(SourceConnections[EdgeContext]):
    """Writes the records of all connections of its transport to one topic."""

    def __init__(self, context: EdgeContext) -> None:
        super().__init__(context)
        self._budget = BufferBudget(self._config.max_buffer_bytes, self._cancel)

    def _serve(self, connection: Connection) -> None:
        super()._serve(connection)
        self._budget.give_back()  # after the stream and its buffers are released

    def _take(self, connection: Connection) -> None:
        holding = self._budget.open(lambda: hang_up(connection.sock))
        try:
            stream = SourceStream(self._context, connection, self._cancel, self._quiet, holding)
            stream.run(lambda: self._draining)
        finally:
            holding.close()
