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
from gauss.registry import spec
from gauss.stream.child import assignment, report, set_up_logs
from gauss.stream.driver import archive, leave_out_pandas, session
from gauss.stream.driver.teams import is_hosted, standing_tasks
from gauss.stream.graph import build_graph

if TYPE_CHECKING:
    from gauss.stream.driver.work import Work
    from gauss.stream.protocol import DriverSynced, QueryStatus

TICK_SECONDS = 0.2
SYNC_SECONDS = 0.5
JVM_GONE = 76
"""The exit code after which control starts the driver again."""

log = logging.getLogger("gauss.driver")


class Driver:
    """One Spark and the work on it."""

    def __init__(self, data_dir: DataDir) -> None:
        self.data_dir = data_dir
        self.ended = threading.Event()
        self.trainer: subprocess.Popen[bytes] | None = None
        self.work: Work | None = None
        self.statuses: list[QueryStatus] = []
        """As the last look found them: they are told by a thread of its own."""
        self._told: queue.SimpleQueue[DriverSynced] = queue.SimpleQueue()

    def start(self) -> None:
        """Returns when all work is up, or waits for the records that decide its types."""
        pipeline = assignment(self.data_dir).pipeline
        graph = build_graph(pipeline)
        names = {node.name for node in graph.on(Where.SPARK)}
        processors = [entry for entry in pipeline.processors if entry.name in names]
        if all(spec(ProcessorSpec, entry.plugin).implementation.startswith("gauss.") for entry in processors):
            leave_out_pandas()
        with ThreadPoolExecutor(1) as starting:
            # The JVM boots while this side loads what it needs.
            standing = standing_tasks(pipeline)
            self.use = session.use_of(processors)
            booted = starting.submit(session.boot, pipeline.spark, self.data_dir, use=self.use, standing=standing)
            # Loaded only now: these import pyarrow, and that pandas.
            from gauss.stream.client import EngineClient
            from gauss.stream.driver.work import Work

            self.client = EngineClient.from_file(self.data_dir.flight_json)
            self.spark = session.connect(booted.result())
        self.work = Work(self.spark, self.client, self.data_dir)
        if any(not is_hosted(entry) for entry in processors):
            self.spark.warm_up()
        self.work.begin()
        self.statuses = self.work.statuses()

    def run(self) -> int:
        """Watches until a signal or the JVM's death; the exit code."""
        assert self.work is not None
        began, process = time.monotonic(), self.spark.process
        threading.Thread(target=self._speak, name="sync", daemon=True).start()
        while not self.ended.wait(TICK_SECONDS):
            if process.poll() is not None:
                log.error(
                    "the JVM is gone (exit code %s): see %s", process.returncode, self.data_dir.logs / "spark.log"
                )
                return JVM_GONE
            self.work.tick()
            self._hear()
            self.statuses = self.work.statuses()
            if self.trainer is None and time.monotonic() - began > archive.AFTER_SECONDS:
                self.trainer = archive.train(self.data_dir, self.use)
        return 0

    def _speak(self) -> None:
        """Tells the engine that the driver lives, also while it starts or ends work, which takes its time."""
        while not self.ended.wait(SYNC_SECONDS):
            self.sync()

    def sync(self) -> None:
        """One word to the engine; what it answers is heard at the next look."""
        from gauss.stream.protocol import DriverSync

        try:
            self._told.put(self.client.sync(DriverSync(self.statuses)))
        except GaussError as error:
            log.warning("the engine did not take the status: %s", error.message)

    def _hear(self) -> None:
        while self.work is not None and not self._told.empty():
            self.work.hear(self._told.get())

    def close(self) -> None:
        """Ends all work side by side, then the JVM."""
        if self.trainer is not None:
            archive.stop(self.trainer)
        if self.work is not None:
            self.work.close()
        self.spark.stop()


def main(kind: type[Driver] = Driver) -> int:
    """Runs a driver until it is asked to end; the process ends with it."""
    data_dir = DataDir(Path(sys.argv[1]).resolve())
    logging.getLogger("py4j").setLevel(logging.WARNING)
    driver = kind(data_dir)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))  # while it starts: a kill is safe, and Java would be waited for
    try:
        set_up_logs(data_dir.logs, "driver", assignment(data_dir).redactor)
        driver.start()
    except Exception as error:
        from gauss.stream.driver.errors import sentence

        log.exception("the driver did not start")
        known = error if isinstance(error, GaussError) else GaussError(f"Spark did not start: {sentence(error)}")
        known.hint = known.hint or f"the whole story is in {data_dir.logs}: driver.log, spark.log, spark.out"
        report({"error": known.to_dict()})
        os._exit(1)  # py4j's threads would keep the process
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.ended.set())
    report({"ready": True, "pid": os.getpid()})
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
