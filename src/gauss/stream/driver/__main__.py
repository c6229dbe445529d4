"""`python -m gauss.stream.driver DATA_DIR`: runs processors on Spark, as standing jobs and streaming queries."""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from gauss.contracts.processor import ProcessorSpec, Where
from gauss.model.closing import close_process
from gauss.model.errors import GaussError
from gauss.model.paths import DataDir
from gauss.process.ready import report
from gauss.process.signal_event import SignalEvent
from gauss.registry import spec
from gauss.spark import archive, leave_out_pandas, session
from gauss.stream.child import assignment, set_up_logs
from gauss.stream.driver.planning.jvm_use import use_of
from gauss.stream.driver.planning.shared_reads import is_hosted, standing_tasks
from gauss.stream.driver.preload import PRELOAD
from gauss.stream.graph import build_graph

if TYPE_CHECKING:
    from gauss.clients.engine.driver_messages import DriverSynced, QueryStatus
    from gauss.stream.driver.work import Work

TICK_SECONDS = 0.2
SYNC_SECONDS = 0.5
JVM_GONE = 76
"""The exit code after which the control process restarts the driver."""

log = logging.getLogger("gauss.driver")


class Driver:
    """A Spark session and the work that runs on it."""

    def __init__(self, data_dir: DataDir) -> None:
        self.data_dir = data_dir
        self.ended = SignalEvent()
        self.trainer: subprocess.Popen[bytes] | None = None
        self.work: Work | None = None
        self.statuses: list[QueryStatus] = []
        """Statuses of the last tick, which another thread reports to the engine."""
        self._replies: queue.SimpleQueue[DriverSynced] = queue.SimpleQueue()

    def start(self) -> None:
        """Starts Spark and all work. Returns when each piece runs or waits for the records that decide its types."""
        pipeline = assignment(self.data_dir).pipeline
        graph = build_graph(pipeline)
        names = {node.name for node in graph.on(Where.SPARK)}
        processors = [entry for entry in pipeline.processors if entry.name in names]
        if all(spec(ProcessorSpec, entry.plugin).implementation.startswith("gauss.") for entry in processors):
            leave_out_pandas()
        with ThreadPoolExecutor(1) as starting:
            # The JVM boots while this process imports its modules.
            standing = standing_tasks(pipeline)
            self.use = use_of(processors)
            booted = starting.submit(
                session.boot, pipeline.spark, self.data_dir, use=self.use, standing=standing, preload=PRELOAD
            )
            # Imported only now: these import pyarrow, which imports pandas.
            from gauss.clients.engine.client import EngineClient
            from gauss.stream.driver.work import Work

            self.client = EngineClient.from_file(self.data_dir.flight_json)
            self.spark = session.connect(booted.result())
        self.work = Work(self.spark, self.client, self.data_dir)
        if any(not is_hosted(entry) for entry in processors):
            self.spark.warm_up()
        self.work.begin()
        self.statuses = self.work.statuses()

    def run(self) -> int:
        """Supervises the work until a signal or the death of the JVM; returns the exit code."""
        assert self.work is not None
        began, process = time.monotonic(), self.spark.process
        threading.Thread(target=self._speak, name="sync", daemon=True).start()
        while not self.ended.wait(TICK_SECONDS):
            if process.poll() is not None:
                log.error("the JVM exited (code %s): see %s", process.returncode, self.data_dir.logs / "spark.log")
                return JVM_GONE
            self.work.tick()
            self._handle_replies()
            self.statuses = self.work.statuses()
            if self.trainer is None and time.monotonic() - began > archive.AFTER_SECONDS:
                self.trainer = archive.train(self.data_dir, self.use)
        return 0

    def _speak(self) -> None:
        """Reports to the engine that the driver is alive, also during a slow start or stop of work."""
        while not self.ended.wait(SYNC_SECONDS):
            self.sync()

    def sync(self) -> None:
        """Reports the statuses to the engine; its reply is handled at the next tick."""
        from gauss.clients.engine.driver_messages import DriverSync

        try:
            self._replies.put(self.client.sync(DriverSync(self.statuses)))
        except GaussError as error:
            log.warning("could not report the status to the engine: %s", error.message)

    def _handle_replies(self) -> None:
        while self.work is not None and not self._replies.empty():
            self.work.receive(self._replies.get())

    def close(self) -> None:
        """Stops all work in parallel, then the JVM."""
        if self.trainer is not None:
            archive.stop(self.trainer)
        if self.work is not None:
            self.work.close()
        self.spark.stop()


def main(kind: type[Driver] = Driver) -> int:
    """Runs a driver until it is asked to stop, then exits the process."""
    data_dir = DataDir(Path(sys.argv[1]).resolve())
    logging.getLogger("py4j").setLevel(logging.WARNING)
    driver = kind(data_dir)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))  # during the start: safe, and it does not wait for Java
    try:
        set_up_logs(data_dir.logs, "driver", assignment(data_dir).redactor)
        driver.start()
    except Exception as error:
        from gauss.stream.driver.errors import sentence

        log.exception("the driver did not start")
        known = error if isinstance(error, GaussError) else GaussError(f"Spark did not start: {sentence(error)}")
        known.hint = known.hint or f"for details see {data_dir.logs}: driver.log, spark.log, spark.out"
        report({"error": known.to_dict()})
        os._exit(1)  # the threads of py4j would keep the process alive
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.ended.set())
    report({"ready": True})
    log.info("ready")
    code = driver.run()
    if code == 0:
        driver.close()
        log.info("stopped")
    close_process()
    logging.shutdown()
    os._exit(code)


if __name__ == "__main__":
    main()
