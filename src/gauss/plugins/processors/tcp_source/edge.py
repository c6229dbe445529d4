"""Connections → records → topic. Back-pressure is not reading: a full topic keeps `append` waiting."""

from __future__ import annotations

from gauss.contracts.edge import EdgeContext
from gauss.contracts.transport import Connection
from gauss.model.memory import keep_heap_small
from gauss.plugins.processors.tcp_source.budget import BufferBudget
from gauss.plugins.processors.tcp_source.connections import Connections
from gauss.plugins.processors.tcp_source.stream import Stream
from gauss.plugins.transports.connection import hang_up


class TcpSource(Connections[EdgeContext]):
    """Feeds one topic from every connection of its transport."""

    def __init__(self, context: EdgeContext) -> None:
        super().__init__(context)
        keep_heap_small()
        self._budget = BufferBudget(self._config.max_buffer_bytes, self._cancel)

    def _serve(self, connection: Connection) -> None:
        super()._serve(connection)
        self._budget.give_back()  # not before the stream is gone with what it held

    def _take(self, connection: Connection) -> None:
        holding = self._budget.open(lambda: hang_up(connection.sock))
        try:
            stream = Stream(self._context, connection, self._cancel, self._quiet, holding)
            stream.run(lambda: self._draining)
        finally:
            holding.close()
