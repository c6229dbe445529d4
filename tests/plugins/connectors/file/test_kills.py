"""A writer that is killed at any point loses and duplicates no rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.stream import SyncMode
from helpers.cases import SHARE
from helpers.killed_writers import WriterProcess
from plugins.connectors.file.killed_writer import BATCH_ROWS
from plugins.connectors.file.syncing import Wanted, ns, opened, writes

pytestmark = pytest.mark.fault
MOST_STEPS = 400
"""More than any run has."""
STRIDE = max(round(3 / SHARE), 1)
"""An ordinary run kills at some of the steps, `GAUSS_CASES=3` at every one."""


class Writers:
    """Starts writers, one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self.process = WriterProcess(Path(__file__).with_name("killed_writer.py"))

    def run(self, mode: SyncMode, *, die_at: int = 0, kill_after_s: float | None = None, **order: Any) -> bool:
        """Runs a writer; returns False if it was killed."""
        self.generation += 1
        given = {
            "path": str(self.path),
            "mode": mode,
            "generation": self.generation,
            "die_at": die_at,
            "kill_after_s": kill_after_s,
            "replace": False,
            "exchange": True,
            **order,
        }
        return self.process.run(given)

    def committed(self) -> int:
        """Batches that an incremental stream has, by its watermark, after the recovery of the next run."""
        self.generation += 1
        wanted = Wanted(mode=SyncMode.INCREMENTAL, generation=self.generation)
        with opened(writes(self.path), wanted) as manager:
            manager.prepare(wanted.context(), [], self.generation)
            mark = manager.watermark(wanted.context(), "")
        if mark is None:
            return 0
        assert isinstance(mark.cursor, Int64Cursor)
        return mark.cursor.value


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Writers]:
    made = Writers(tmp_path / "out")
    yield made
    made.process.close()


def rows(first: int, last: int) -> list[int]:
    """The rows of batches `first` to `last`."""
    return list(range((first - 1) * BATCH_ROWS + 1, last * BATCH_ROWS + 1))


def seen(path: Path) -> list[int]:
    return ns(path) if (path / "s" / "_gauss" / "schema.arrow").exists() else []


def test_incremental_writer_killed_at_every_step_loses_and_duplicates_no_rows(killed: Writers) -> None:
    have, ended = 0, False
    for step in range(2, MOST_STEPS, STRIDE):
        ended = killed.run(SyncMode.INCREMENTAL, die_at=step, cursor=have, until=have + 2)
        now = killed.committed()
        assert have <= now <= have + 2
        assert seen(killed.path) == rows(1, now), f"killed at step {step}"
        have = now
        if ended:
            break
    assert ended and step > 20 and not [*killed.path.rglob(".tmp*")]


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("replace", [True, False])
def test_full_refresh_killed_at_every_step_shows_all_or_nothing(killed: Writers, replace: bool, exchange: bool) -> None:
    before = after = rows(1, 2)
    new = rows(3, 4) if replace else rows(1, 4)
    ended = False
    for step in range(3 + 2 * replace + exchange, MOST_STEPS, STRIDE):
        if after != before or step < 9:
            assert killed.run(SyncMode.FULL_REFRESH, cursor=0, until=2, replace=True)
        ended = killed.run(SyncMode.FULL_REFRESH, die_at=step, cursor=2, until=4, replace=replace, exchange=exchange)
        if not exchange and not (killed.path / "s").exists():
            after = before
            continue  # between the two steps of a swap; the next run puts the old folder back
        after = sorted(ns(killed.path))
        assert after in (before, new), f"killed at step {step}"
        if ended:
            break
    assert ended and step > 20 and after == new
    assert not [*killed.path.rglob("staging*"), *killed.path.rglob("aside*")]


def test_writer_killed_at_random_times_loses_and_duplicates_no_rows(killed: Writers) -> None:
    random = Random(14)
    have = 0
    for _ in range(12):
        killed.run(SyncMode.INCREMENTAL, kill_after_s=random.uniform(0, 0.12), cursor=have, until=have + 40)
        have = killed.committed()
        assert seen(killed.path) == rows(1, have)
    assert killed.run(SyncMode.INCREMENTAL, cursor=have, until=have + 3)
    assert killed.committed() == have + 3 and ns(killed.path) == rows(1, have + 3)
