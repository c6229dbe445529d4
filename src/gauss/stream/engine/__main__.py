"""`python -m gauss.stream.engine DATA_DIR`: the engine process, started by control under its guard."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from gauss.model.errors import GaussError
from gauss.model.memory import keep_heap_small
from gauss.model.paths import DataDir
from gauss.process.ready import report
from gauss.process.signal_event import SignalEvent
from gauss.stream.child import assignment, set_up_logs

DRAIN_S = 4.0


class NoPandas:
    """Hides pandas: pyarrow imports it at the first array only to check for pandas' own types, which costs half a
    second and 40 MB."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the engine does without pandas", name=name)


def main() -> None:
    keep_heap_small()  # before any thread: glibc fixes the number of heaps once several threads have allocated
    sys.meta_path.insert(0, NoPandas)
    data_dir = Path(sys.argv[1])
    paths = DataDir(data_dir)
    # The cache of compiled walks over length prefixes; numba reads it at its import.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(paths.cache / "numba"))
    log = logging.getLogger("gauss.engine")
    ended = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        set_up_logs(paths.logs, "engine", assignment(paths).redactor)
        from gauss.clients.engine.client import hold_run_lock
        from gauss.stream.engine.runtime import Engine

        engine = Engine(data_dir)
        hold_run_lock(engine.lock_path)
        engine.open()
        engine.start()
    except Exception as error:
        log.exception("the engine did not start")
        known = error if isinstance(error, GaussError) else GaussError(f"{type(error).__name__}: {error}")
        report({"error": known.to_dict()})
        # Started threads must not keep a failed process alive.
        os._exit(1)
    report({"ready": True})
    log.info("ready")
    # Python handles signals between two bytecodes of this thread, so it must wake up regularly.
    while not ended.wait(1.0):
        pass
    engine.drain(DRAIN_S)
    engine.close()
    log.info("stopped")
    logging.shutdown()
    # Without the interpreter's shutdown, which would wait for a stalled client's call.
    os._exit(0)


if __name__ == "__main__":
    main()
