"""A writer that is killed before, during or after any request to the server loses and duplicates no rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.endpoint import Endpoint
from helpers.cases import SHARE
from helpers.killed_writers import WriterProcess
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
        self.process = WriterProcess(Path(__file__).with_name("killed_writer.py"))

    def run(self, mode: str, die_at: int = 0) -> bool:
        """Runs a writer; returns False if it was killed."""
        self.generation += 1
        return self.process.run({**self._order, "mode": mode, "generation": self.generation, "die_at": die_at})


@pytest.fixture
def writers(clickhouse: Endpoint, destination: DestinationFixture) -> Iterator[Writers]:
    made = Writers(clickhouse.url, destination.database)
    yield made
    made.process.close()


def forget(destination: DestinationFixture) -> None:
    destination.run_sql(f"DROP DATABASE {destination.database} SYNC")


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_killed_incremental_writer_loses_and_duplicates_no_rows(
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


def test_killed_recovery_is_completed_by_the_next_run(writers: Writers, destination: DestinationFixture) -> None:
    """Every run is killed, each at a later step than the one before: in the end all rows are there once."""
    step = 1
    while not writers.run("append", step):
        step += STRIDE
        assert step < MOST_STEPS
    assert step > FEWEST_STEPS
    assert destination.rows() == ROWS and destination.stages() == []


def test_killed_full_refresh_shows_the_old_rows_or_the_new_ones(
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


def test_killed_appending_refresh_is_visible_completely_or_not_at_all(
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
