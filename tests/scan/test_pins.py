"""Memory that a reader's cursors pin in old table versions is limited: beyond the limit the oldest cursor is
rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.contracts.cursor import Code, Step
from gauss.scan.engine import ScanEngine
from gauss.scan.program.parse import parse_scan
from gauss.scan.tasks import ReaderTask
from helpers.scan_worlds import TableWorld, doc

KEYS = 2_000


@pytest.fixture
def world(tmp_path: Path) -> TableWorld:
    """A table whose limit allows no pinned version; each is about 200 KB."""
    found = TableWorld("table", tmp_path)
    rewritten(found, 0)
    return found


def rewritten(world: TableWorld, round_: int) -> None:
    """Replaces every key in one run, so that the table shares nothing with what older cursors pin."""
    world.emit(*(doc(number + round_, f"k{number}") for number in range(KEYS)))
    for _ in range(3):
        world.table.maintain()


def limit(world: TableWorld, most: int | None) -> None:
    object.__setattr__(world.source.capabilities, "max_pinned_bytes", most)


def opened(world: TableWorld, task: ReaderTask, text: str = "") -> int:
    _, slot = task.slot()
    assert task.scan(slot, world.id, parse_scan(text)) is Code.OK
    return slot


def test_a_pinned_version_counts_once_and_only_when_it_is_not_the_newest(world: TableWorld) -> None:
    task = world.task()
    opened(world, task)
    assert task.pinned_bytes() == 0
    rewritten(world, 1)
    one = task.pinned_bytes()
    assert one > KEYS * 20
    opened(world, task)
    opened(world, task, "select(.n > 1)")
    assert task.pinned_bytes() == one
    rewritten(world, 2)
    assert one < task.pinned_bytes() < 3 * one
    task.done()
    assert task.pinned_bytes() == 0


@pytest.mark.parametrize("text", ["", "select(.n >= 0)", "agg(n: count, high: max(.bid))"])
def test_beyond_the_bound_the_oldest_cursor_of_that_reader_is_rejected(world: TableWorld, text: str) -> None:
    engine = ScanEngine()
    engine.register(world.source)
    task, other = world.task(), world.task()
    first, others = opened(world, task, text), opened(world, other, text)
    rewritten(world, 1)
    limit(world, int(1.5 * task.pinned_bytes()))
    second = opened(world, task, text)
    engine.reap()
    assert task.resources.shed == 0, "one version is within the bound"
    rewritten(world, 2)
    engine.reap()
    assert [task.next(slot, Step(5)) for slot in (first, second)] == [Code.REJECTED, Code.OK]
    assert task.read(first)[0] is Code.REJECTED
    assert other.next(others, Step(5)) is Code.OK, "another reader has its own bound"
    assert (task.resources.shed, other.resources.shed) == (1, 0)
    assert task.pinned_bytes() <= int(world.source.capabilities.max_pinned_bytes or 0)


def test_opening_a_cursor_rejects_an_older_one_at_once(world: TableWorld) -> None:
    task = world.task()
    first = opened(world, task)
    rewritten(world, 1)
    limit(world, 1)
    second = opened(world, task)
    assert [task.next(slot, Step(5)) for slot in (first, second)] == [Code.REJECTED, Code.OK]


def test_without_a_bound_nothing_is_rejected(world: TableWorld) -> None:
    task = world.task()
    limit(world, None)
    slots = []
    for round_ in range(1, 4):
        slots.append(opened(world, task))
        rewritten(world, round_)
    assert [task.next(slot, Step(5)) for slot in slots] == [Code.OK] * 3
