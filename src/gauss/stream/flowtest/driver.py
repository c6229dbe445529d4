"""`python -m gauss.stream.flowtest.driver ROOT`: one Spark for many cases, which runs the queries of one at a time.

Which one, a file tells (`assigned`); another (`taken`) tells which it has, so that either side may be started again.
"""

from __future__ import annotations

import importlib
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gauss.contracts.processor import Where
from gauss.model.errors import GaussError
from gauss.model.paths import DataDir
from gauss.stream.child import assignment
from gauss.stream.driver import __main__ as driving
from gauss.stream.driver import leave_out_pandas, session
from gauss.stream.graph import build_graph, table_queries

TICK_SECONDS = 0.05

log = logging.getLogger("gauss.driver")


def assigned(root: DataDir) -> Path:
    return root.run / "assigned"


def taken(root: DataDir) -> Path:
    return root.run / "taken"


def trouble(root: DataDir) -> Path:
    """Why it could not take the case that it was given."""
    return root.run / "trouble"


def said(path: Path) -> str:
    """What such a file holds; nothing while it is not there."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def say(path: Path, text: str) -> None:
    """Whole or not at all: somebody may read it just now."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


class CaseDriver(driving.Driver):
    """A driver whose run changes from case to case, while its session stays."""

    def start(self) -> None:
        given = assignment(self.data_dir)
        if not any(":" in entry.plugin for entry in given.pipeline.processors):
            leave_out_pandas()
        self.queries = []
        self._case = ""
        with ThreadPoolExecutor(1) as starting:
            started = starting.submit(session.start, given.pipeline.spark, self.data_dir)
            # The JVM boots while this side loads what the first case needs.
            for name in ("gauss.stream.client", "gauss.stream.driver.table_query", "gauss.stream.driver.table_reads"):
                importlib.import_module(name)
            self.session = started.result()
        session.warm_up(self.session)

    def run(self) -> int:
        process = self.session.sparkContext._gateway.proc  # type: ignore[union-attr]
        while not self.ended.wait(TICK_SECONDS):
            if process.poll() is not None:
                log.error("the JVM is gone (exit code %s)", process.returncode)
                return driving.JVM_GONE
            if (wanted := said(assigned(self.data_dir))) != self._case:
                self._change(wanted)
            for query in self.queries:
                query.tick()
            if self.queries:
                self._sync()
        return 0

    def _change(self, wanted: str) -> None:
        """Ends the queries of one case and makes those of the next; says why if it can't, and waits for another."""
        self._case = wanted
        try:
            self._stop_queries()
            self._make_queries(wanted)
        except Exception as error:
            log.exception("case %s", wanted)
            self._stop_queries()
            found = error if isinstance(error, GaussError) else GaussError(f"{type(error).__name__}: {error}")
            say(trouble(self.data_dir), json.dumps({**found.to_dict(), "case": wanted}))
        else:
            say(taken(self.data_dir), wanted)

    def _make_queries(self, wanted: str) -> None:
        from gauss.stream.client import EngineClient
        from gauss.stream.driver.queries import Context, Query
        from gauss.stream.driver.table_query import TableQuery
        from gauss.stream.driver.table_reads import with_orders

        if wanted:
            paths = DataDir(Path(wanted))
            given = assignment(paths)
            pipeline, ordered = given.pipeline, with_orders(given.pipeline, given.base_dir, paths)
            self.client = EngineClient.from_file(paths.flight_json)
            context = Context(self.session, self.client, pipeline, paths, str(paths.flight_json))
            reading = Context(self.session, self.client, ordered, paths, str(paths.flight_json))
            names = {node.name for node in build_graph(pipeline).on(Where.SPARK)}
            self.queries = [Query(reading, entry) for entry in ordered.processors if entry.name in names]
            self.queries += [TableQuery(context, entry) for entry in table_queries(pipeline)]
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda query: query.tick(), self.queries))

    def _stop_queries(self) -> None:
        threads = [threading.Thread(target=query.stop) for query in self.queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.queries = []


if __name__ == "__main__":
    driving.main(CaseDriver)
