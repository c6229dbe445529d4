"""Connections → records → topic. Back-pressure is not reading: a full topic keeps `append` waiting."""

from __future__ import annotations

from gauss.contracts.edge import EdgeContext
from gauss.contracts.transport import Connection
from gauss.plugins.processors.tcp_source.connections import Connections
from gauss.plugins.processors.tcp_source.stream import Stream


class TcpSource(Connections[EdgeContext]):
    """Feeds one topic from every connection of its transport."""

    def _take(self, connection: Connection) -> None:
        Stream(self._context, self._config, connection, self._cancel, self._quiet).run(lambda: self._draining)
