"""`python -m gauss.stream.flowtest.driver ROOT`: one Spark session for many cases, which runs one case at a time.

The file `assigned` names the case to run, the file `taken` the case that runs, so that either side may be restarted.
"""

from __future__ import annotations

import importlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gauss.model.errors import GaussError
from gauss.model.paths import DataDir
from gauss.spark import leave_out_pandas, session
from gauss.stream.child import assignment
from gauss.stream.driver import __main__ as driving
from gauss.stream.driver.planning.shared_reads import standing_tasks
from gauss.stream.driver.preload import PRELOAD

TICK_SECONDS = 0.05

log = logging.getLogger("gauss.driver")


def assigned(root: DataDir) -> Path:
    return root.run / "assigned"


def taken(root: DataDir) -> Path:
    return root.run / "taken"


def trouble(root: DataDir) -> Path:
    """The file with the error of a case that could not be started."""
    return root.run / "trouble"


def said(path: Path) -> str:
    """The content of such a file; empty if it is missing."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def say(path: Path, text: str) -> None:
    """Writes such a file atomically."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


class CaseDriver(driving.Driver):
    """A driver that runs case after case in the same Spark session."""

    def start(self) -> None:
        given = assignment(self.data_dir)
        if not any(":" in entry.plugin for entry in given.pipeline.processors):
            leave_out_pandas()
        self._case = ""
        with ThreadPoolExecutor(1) as starting:
            standing = standing_tasks(given.pipeline)
            booted = starting.submit(
                session.boot, given.pipeline.spark, self.data_dir, standing=standing, preload=PRELOAD
            )
            # The JVM boots while this process imports the modules of the first case.
            importlib.import_module("gauss.stream.driver.work")
            self.spark = session.connect(booted.result())
        self.spark.warm_up()

    def run(self) -> int:
        process = self.spark.process
        while not self.ended.wait(TICK_SECONDS):
            if process.poll() is not None:
                log.error("the JVM exited (code %s)", process.returncode)
                return driving.JVM_GONE
            if (wanted := said(assigned(self.data_dir))) != self._case:
                self._change(wanted)
            if self.work is not None:
                self.work.tick()
                self.statuses = self.work.statuses()
                self.sync()
                self._handle_replies()
        return 0

    def _change(self, wanted: str) -> None:
        """Stops the work of one case and starts that of the next; reports an error if that fails."""
        self._case = wanted
        try:
            self._stop_work()
            self._begin_work(wanted)
        except Exception as error:
            log.exception("case %s", wanted)
            self._stop_work()
            found = error if isinstance(error, GaussError) else GaussError(f"{type(error).__name__}: {error}")
            say(trouble(self.data_dir), json.dumps({**found.to_dict(), "case": wanted}))
        else:
            say(taken(self.data_dir), wanted)

    def _begin_work(self, wanted: str) -> None:
        from gauss.clients.engine.client import EngineClient
        from gauss.stream.driver.work import Work

        if wanted:
            paths = DataDir(Path(wanted))
            self.client = EngineClient.from_file(paths.flight_json)
            self.work = Work(self.spark, self.client, paths)
            self.work.begin()

    def _stop_work(self) -> None:
        work, self.work = self.work, None
        if work is not None:
            work.close()


if __name__ == "__main__":
    driving.main(CaseDriver)
