"""`python -m gauss.stream.driver DATA_DIR`: compiles processors to Spark queries and keeps them running."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from gauss.contracts.processor import ProcessorSpec, Where
from gauss.model.closing import close_process
from gauss.model.errors import GaussError
from gauss.model.paths import DataDir
from gauss.model.units import counted
from gauss.registry import spec
from gauss.stream.child import assignment, report, set_up_logs
from gauss.stream.driver import archive, leave_out_pandas, session
from gauss.stream.graph import build_graph, table_queries

if TYPE_CHECKING:
    from gauss.stream.driver.queries import Query

TICK_SECONDS = 0.2
SYNC_EVERY = 3
"""Ticks between two words to the engine."""
JVM_GONE = 76
"""The exit code after which control starts the driver again."""

log = logging.getLogger("gauss.driver")


class Driver:
    """One Spark session and its queries."""

    def __init__(self, data_dir: DataDir) -> None:
        self.data_dir = data_dir
        self.ended = threading.Event()
        self.trainer: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when every query is up, or waits for the records that decide its types."""
        pipeline = assignment(self.data_dir).pipeline
        flight = pipeline.engine.token_file or self.data_dir.flight_json
        graph = build_graph(pipeline)
        names = {node.name for node in graph.on(Where.SPARK)}
        processors = [entry for entry in pipeline.processors if entry.name in names]
        if all(spec(ProcessorSpec, entry.plugin).implementation.startswith("gauss.") for entry in processors):
            leave_out_pandas()
        optimising = session.keeps_rows(processors)
        with ThreadPoolExecutor(1) as starting:
            # The JVM boots while this side loads what it needs.
            started = starting.submit(session.start, pipeline.spark, self.data_dir, optimising=optimising)
            # Loaded only now: these import pyarrow, and that pandas.
            from gauss.stream.client import EngineClient
            from gauss.stream.driver.chain_query import ChainQuery
            from gauss.stream.driver.chains import find_chains
            from gauss.stream.driver.queries import Context
            from gauss.stream.driver.table_query import TableQuery
            from gauss.stream.driver.table_reads import with_orders

            self.client = EngineClient.from_file(self.data_dir.flight_json)
            self.session = started.result()
        session.warm_up(self.session)
        context = Context(self.session, self.client, pipeline, self.data_dir, str(flight))
        ordered = with_orders(pipeline, assignment(self.data_dir).base_dir, self.data_dir)
        reading = Context(self.session, self.client, ordered, self.data_dir, str(flight))
        chains = find_chains(pipeline, graph)
        self.queries: list[Query] = [
            ChainQuery(reading, entry, chains=chains)
            for entry in ordered.processors
            if entry.name in names and chains.head(entry.name) == entry.name
        ]
        self.queries += [TableQuery(context, entry) for entry in table_queries(pipeline)]
        with ThreadPoolExecutor(4) as starting:
            list(starting.map(lambda query: query.tick(), self.queries))

    def run(self) -> int:
        """Watches until a signal or the JVM's death; the exit code."""
        ticks = 0
        process = getattr(self.session.sparkContext._gateway, "proc", None)
        while not self.ended.wait(TICK_SECONDS):
            if process is not None and process.poll() is not None:
                log.error(
                    "the JVM is gone (exit code %s): see %s", process.returncode, self.data_dir.logs / "spark.log"
                )
                return JVM_GONE
            for query in self.queries:
                query.tick()
            ticks += 1
            if ticks % SYNC_EVERY == 0:
                self._sync()
            if self.trainer is None and ticks * TICK_SECONDS > archive.AFTER_SECONDS:
                self.trainer = archive.train(self.data_dir)
        return 0

    def _sync(self) -> None:
        try:
            from gauss.stream.protocol import DriverSync

            told = self.client.sync(DriverSync([status for query in self.queries for status in query.statuses()]))
        except GaussError as error:
            log.warning("the engine did not take the status: %s", error.message)
            return
        for command in told.commands:
            for query in self.queries:
                if command.processor in query.names:
                    query.obey(command)

    def close(self) -> None:
        """Ends the queries side by side, then the JVM."""
        if self.trainer is not None:
            archive.stop(self.trainer)
        threads = [threading.Thread(target=query.close) for query in self.queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session.stop(self.session, self.data_dir)


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
    report({"ready": True, "pid": os.getpid(), "queries": len(driver.queries)})
    log.info("ready: %s", counted(len(driver.queries), "query", "queries"))
    code = driver.run()
    if code == 0:
        driver.close()
        log.info("stopped")
    close_process()
    logging.shutdown()
    os._exit(code)


if __name__ == "__main__":
    main()
