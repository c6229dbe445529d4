"""`python -m gauss.clients.clickhouse.owner`: the process that owns an embedded ClickHouse and serves its HTTP
interface. No other process imports chDB."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gauss.clients.endpoint import Endpoint, Identity
from gauss.clients.owner import own
from gauss.model.errors import StorageError

if TYPE_CHECKING:
    from gauss.clients.clickhouse.engine import ChdbEngine
    from gauss.clients.clickhouse.http import ClickHouseServer

USER = "default"
DRAIN_SECONDS = 4.0
"""How long running requests may take to finish; a guard kills the process after five seconds."""


class EmbeddedClickHouse:
    """ClickHouse (chDB) in `DIRECTORY/store`."""

    def __init__(self) -> None:
        self._server: ClickHouseServer | None = None
        self._engine: ChdbEngine | None = None

    def start(self, directory: Path, known: Identity) -> Endpoint:
        from gauss.clients.clickhouse.engine import ChdbEngine, EngineError
        from gauss.clients.clickhouse.http import ClickHouseServer

        store = directory / "store"
        store.mkdir(mode=0o700, exist_ok=True)
        try:
            self._engine = self._engine or ChdbEngine(store)
        except (RuntimeError, EngineError) as error:
            raise StorageError(
                f"ClickHouse can't open {store}: {error}",
                hint="check the free disk space, and the version that created it",
            ) from error
        try:
            self._server = ClickHouseServer(known.port, self._engine, USER, known.password)
        except OSError as error:
            raise StorageError(f"port {known.port} can't be listened on: {error.strerror}") from error
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        return Endpoint("http", "127.0.0.1", self._server.server_port, USER, known.password, "default", os.getpid())

    def died(self) -> str:
        return ""

    def stop(self) -> None:
        if self._server is None:
            return
        self._server.shutdown()
        self._server.socket.close()
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._server.count(0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self._server.count(0):
            self._server.engine.close()


if __name__ == "__main__":
    code = own(EmbeddedClickHouse(), sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # an orderly exit hangs while chDB has connections
