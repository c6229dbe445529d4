"""`python -m gauss.dbstates.engine DATA_DIR`: the process of the engine."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

from gauss.dbstates.engine.discovery import Listener, announce, withdraw
from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.store.layout import StateDir
from gauss.model.errors import GaussError
from gauss.process.descriptors import raise_limit
from gauss.process.ready import report
from gauss.process.signal_event import SignalEvent


def main(argv: list[str]) -> int:
    raise_limit()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asked = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    folder = StateDir.of(Path(argv[0]))
    try:
        engine = DatabaseEngine(folder)
    except GaussError as error:
        report({"error": error.to_dict()})
        return 1
    listener = Listener(folder)
    from gauss.dbstates.engine.api.app import create_app
    from gauss.http.server import ApiServer

    token = announce(engine, listener)
    server = ApiServer(listener.socket, lambda: create_app(engine, token))
    try:
        engine.start()
        server.start()
        report({"ready": True})
        while not asked.wait(0.05) and not engine.stopped.is_set():
            pass
        withdraw(folder)
        server.stop()
        listener.close()
        engine.close()
    except GaussError as error:
        report({"error": error.to_dict()})
        withdraw(folder)
        logging.exception("the engine failed")
        return 1
    finally:
        listener.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
