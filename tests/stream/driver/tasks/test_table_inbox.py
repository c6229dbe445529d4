"""The inbox of a table topic as a source of blocks: which records are read, and what happens to rejected ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import Claimed, Grant, StageDead
from gauss.contracts.table import RowBlock
from gauss.model.batch import record_batch
from gauss.stream.driver.planning.standing_plans import Sizes, TablePlan, TableWork
from gauss.stream.driver.tasks import reading, table_inbox
from gauss.tables.insert import PATIENCE_S, Waits
from gauss.tables.rows import Refusal
from gauss.tables.writer import RecordSource


class Engine:
    """Returns records whose data is their offset."""

    def __init__(self) -> None:
        self.read_from: list[Read] = []
        self.dead: list[StageDead] = []

    def read(self, ticket: Read) -> Iterator[pa.RecordBatch]:
        self.read_from.append(ticket)
        data = pa.array([str(at).encode() for at in range(ticket.start, ticket.stop)], pa.binary())
        yield record_batch(ticket.start, 1_000, data)

    def stage_dead(self, letters: StageDead) -> None:
        self.dead.append(letters)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(table_inbox, "engine", lambda _: made)
    monkeypatch.setattr(reading, "engine", lambda _: made)
    monkeypatch.setattr(table_inbox, "open_table", lambda _: None)
    return made


def emptied(monkeypatch: pytest.MonkeyPatch, claimed: Claimed, grant: Grant) -> tuple[list[RowBlock], Waits]:
    """The blocks of an epoch in which every third record is rejected."""
    given: list[Any] = []

    def write_blocks(_: object, source: RecordSource, blocks: Sequence[RowBlock], waits: Waits) -> None:
        given.extend([list(blocks), waits])
        for block in blocks:
            records = source.read(block)
            refused = [at for at in range(block.start, block.stop) if at % 3 == 0]
            source.dead_letter(block, records, [Refusal(at, "map", "null", "n", "n: is null") for at in refused])

    monkeypatch.setattr(table_inbox, "write_blocks", write_blocks)
    plan = TablePlan("", 1, Sizes(), "_table.t", TableWork("", "t", [], 0.5))
    table_inbox.Inbox(plan, claimed).empty_into_table(grant)
    return given[0], given[1]


def test_replayed_letters_have_a_negative_inc_and_are_read_from_the_retry_inlet(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    start, end = {"t": At(7, 10), "_retry.t": At(5, 0)}, {"t": At(7, 14), "_retry.t": At(5, 2)}
    blocks, waits = emptied(monkeypatch, Claimed(3, start, -1, True), Grant(4, start, end, start))
    assert [(each.inc, each.start, each.stop) for each in blocks] == [(-5, 0, 2), (7, 10, 14)]
    assert [(each.topic, each.inc, each.start) for each in engine.read_from] == [("_retry.t", 5, 0), ("t", 7, 10)]
    assert [(each.topic, each.inc, [letter.offset for letter in each.letters]) for each in engine.dead] == [
        ("_retry.t", 5, [0]),
        ("t", 7, [12]),
    ]
    assert waits == Waits(0.5, PATIENCE_S)


def test_epoch_that_is_tried_again_is_unclear_and_does_not_wait_for_the_server(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    start, end = {"t": At(7, 0)}, {"t": At(7, 4)}
    blocks, waits = emptied(monkeypatch, Claimed(3, start, -1, True), Grant(4, start, end, start, again=True))
    assert [(each.unclear, each.rewound) for each in blocks] == [(True, False)]
    assert waits.patience_s == 0
    assert len(engine.read_from) == 1


@pytest.mark.parametrize(("reached", "rewound"), [(At(7, 3), True), (At(7, 0), False), (At(6, 3), False)])
def test_records_below_the_position_before_a_rewind_may_be_in_the_table(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, reached: At, rewound: bool
) -> None:
    start, end = {"t": At(7, 0)}, {"t": At(7, 4)}
    claimed = Claimed(3, start, -1, True, rewound={"t": reached})
    blocks, _ = emptied(monkeypatch, claimed, Grant(4, start, end, start))
    assert [(each.unclear, each.rewound) for each in blocks] == [(rewound, rewound)]
    assert len(engine.read_from) == 1
