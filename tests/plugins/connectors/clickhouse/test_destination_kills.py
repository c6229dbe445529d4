"""A writer that is killed before, during or after any request to the server loses and doubles nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.endpoint import Endpoint
from helpers.cases import SHARE
from plugins.connectors.clickhouse.killed_writer import BATCH_ROWS, BATCHES
from plugins.connectors.clickhouse.writing import DestinationFixture

pytestmark = pytest.mark.fault
STRIDE = max(round(20 / SHARE), 1)
"""An ordinary run kills at some of the steps, each mode at others; `GAUSS_CASES=20` at every one."""
FEWEST_STEPS, MOST_STEPS = 60, 600
"""Of a run."""
ROWS = [(number, "x") for number in range(1, BATCHES * BATCH_ROWS + 1)]


class Writers:
    """Starts writers, one after another."""

    def __init__(self, url: str, database: str) -> None:
        self._order: dict[str, Any] = {"url": url, "database": database}
        self.generation = 0
        script = Path(__file__).with_name("killed_writer.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(script.parents[3])},
        )

    def run(self, mode: str, die_at: int = 0) -> bool:
        """Whether the writer came to its end; False if it was killed."""
        self.generation += 1
        assert self._process.stdin is not None and self._process.stdout is not None
        order = {**self._order, "mode": mode, "generation": self.generation, "die_at": die_at}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        return code == 0

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


@pytest.fixture
def writers(clickhouse: Endpoint, destination: DestinationFixture) -> Iterator[Writers]:
    made = Writers(clickhouse.url, destination.database)
    yield made
    made.close()


def forget(destination: DestinationFixture) -> None:
    destination.run_sql(f"DROP DATABASE {destination.database} SYNC")


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_killed_incremental_writer_loses_and_doubles_nothing(
    writers: Writers, destination: DestinationFixture, mode: str
) -> None:
    for step in range(1 + len(mode) % STRIDE, MOST_STEPS, STRIDE):
        ended = writers.run(mode, step)
        assert ended or writers.run(mode)
        assert destination.rows(columns="a, b", final=mode == "upsert") == ROWS, step
        assert destination.stages() == []
        if ended:
            assert step > FEWEST_STEPS
            return
        forget(destination)
    raise AssertionError(f"a run has more than {MOST_STEPS} steps")


def test_a_recovery_that_is_killed_too_is_recovered_by_the_next(
    writers: Writers, destination: DestinationFixture
) -> None:
    """Every run is killed, each at a later step than the one before: in the end all rows are there once."""
    step = 1
    while not writers.run("append", step):
        step += STRIDE
        assert step < MOST_STEPS
    assert step > FEWEST_STEPS
    assert destination.rows() == ROWS and destination.stages() == []


def test_a_killed_full_refresh_shows_the_old_rows_or_the_new_ones(
    writers: Writers, destination: DestinationFixture
) -> None:
    assert writers.run("replace")
    for step in range(3, MOST_STEPS, STRIDE):
        destination.run_sql(
            f"ALTER TABLE {destination.database}.t UPDATE b = 'old' WHERE 1 SETTINGS mutations_sync = 2"
        )
        ended = writers.run("replace", step)
        assert destination.rows() in (ROWS, [(number, "old") for number, _ in ROWS]), step
        if ended:
            break
        assert writers.run("replace") and destination.rows() == ROWS
    assert ended and step > FEWEST_STEPS and destination.stages() == []


def test_a_killed_refresh_that_appends_is_there_whole_or_not_at_all(
    writers: Writers, destination: DestinationFixture
) -> None:
    for step in range(5, MOST_STEPS, STRIDE):
        ended = writers.run("refresh", step)
        assert ended or writers.run("refresh")
        copies = len(destination.rows()) // len(ROWS)
        assert destination.rows() == sorted(ROWS * copies) and copies in ((1,) if ended else (1, 2)), step
        assert destination.stages() == []
        if ended:
            assert step > FEWEST_STEPS
            return
        forget(destination)
    raise AssertionError(f"a run has more than {MOST_STEPS} steps")
