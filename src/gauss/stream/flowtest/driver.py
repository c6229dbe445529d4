"""`python -m gauss.stream.flowtest.driver ROOT`: one Spark for many cases, which runs the queries of one at a time.

Which one, a file tells (`assigned`); another (`taken`) tells which it has, so that either side may be started again.
"""

from __future__ import annotations

import importlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gauss.model.errors import GaussError
from gauss.model.paths import DataDir
from gauss.stream.child import assignment
from gauss.stream.driver import __main__ as driving
from gauss.stream.driver import leave_out_pandas, session
from gauss.stream.driver.teams import standing_tasks

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
        self._case = ""
        with ThreadPoolExecutor(1) as starting:
            standing = standing_tasks(given.pipeline)
            booted = starting.submit(session.boot, given.pipeline.spark, self.data_dir, standing=standing)
            # The JVM boots while this side loads what the first case needs.
            importlib.import_module("gauss.stream.driver.work")
            self.spark = session.connect(booted.result())
        self.spark.warm_up()

    def run(self) -> int:
        process = self.spark.process
        while not self.ended.wait(TICK_SECONDS):
            if process.poll() is not None:
                log.error("the JVM is gone (exit code %s)", process.returncode)
                return driving.JVM_GONE
            if (wanted := said(assigned(self.data_dir))) != self._case:
                self._change(wanted)
            if self.work is not None:
                self.work.tick()
                self.statuses = self.work.statuses()
                self.sync()
                self._hear()
        return 0

    def _change(self, wanted: str) -> None:
        """Ends the work of one case and begins that of the next; says why if it can't, and waits for another."""
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
        from gauss.stream.client import EngineClient
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
