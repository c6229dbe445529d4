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
    """pyarrow imports pandas at the first array it makes, only to ask whether it was given one of pandas' own: half
    a second and 40 MB for nothing. Here it finds pandas not installed."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the engine does without pandas", name=name)


def main() -> None:
    keep_heap_small()  # before any thread: glibc fixes the number of heaps once a few of them have allocated
    sys.meta_path.insert(0, NoPandas)
    data_dir = Path(sys.argv[1])
    paths = DataDir(data_dir)
    # Where the compiled walks over length prefixes are kept; numba looks at it when it is first imported.
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
        # Threads that were started already must not keep a process that failed.
        os._exit(1)
    report({"ready": True})
    log.info("ready")
    # A signal arrives between two bytecodes of this thread: it must wake up now and then.
    while not ended.wait(1.0):
        pass
    engine.drain(DRAIN_S)
    engine.close()
    log.info("stopped")
    logging.shutdown()
    # Not by way of the interpreter's end: that would wait for a call that a stalled client never finishes.
    os._exit(0)


if __name__ == "__main__":
    main()
