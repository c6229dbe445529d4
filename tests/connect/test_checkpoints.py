"""The safe cursor is the largest one that both sides have reached, in any order of checkpoints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.connect.checkpoints import Correlation
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind

SOURCE, DEST = CheckpointKind.SOURCE, CheckpointKind.DEST


def checkpoint(kind: CheckpointKind, number: int) -> Checkpoint:
    value = Int64Cursor(number * 10) if kind is SOURCE else None
    return Checkpoint(number, kind, "s", cursor_value=value)


@given(st.lists(st.tuples(st.sampled_from([SOURCE, DEST]), st.integers(0, 3)), max_size=40))
def test_cursor_is_that_of_the_last_source_checkpoint_that_the_destination_reached(
    steps: list[tuple[CheckpointKind, int]],
) -> None:
    found, last = Correlation(), {SOURCE: 0, DEST: 0}
    sources: set[int] = set()
    for kind, step in steps:
        last[kind] += step
        if kind is SOURCE:
            sources.add(last[kind])
        safe = found.add(checkpoint(kind, last[kind]), most=1_000)
        wanted = max((each for each in sources if each <= last[DEST]), default=None)
        assert (found.committed.id if found.committed else None) == wanted
        assert safe is None or safe.id == wanted
        if found.committed is not None:
            assert found.committed.cursor_value == Int64Cursor(found.committed.id * 10)


def test_later_cursor_at_the_same_batch_replaces_the_earlier_one() -> None:
    found = Correlation()
    found.add(Checkpoint(0, SOURCE, "s", cursor_value=Int64Cursor(1)), 0)
    assert found.add(Checkpoint(0, SOURCE, "s", cursor_value=Int64Cursor(2)), 0) is not None
    assert found.committed is not None and found.committed.cursor_value == Int64Cursor(2)


def test_checkpoints_of_a_source_without_rows_are_not_all_kept() -> None:
    found = Correlation()
    for cursor in range(1_000):
        found.add(Checkpoint(1, SOURCE, "s", cursor_value=Int64Cursor(cursor)), 1)
    assert len(found._coming) == 1
    safe = found.add(checkpoint(DEST, 1), 1)
    assert safe is not None and safe.cursor_value == Int64Cursor(999)


@pytest.mark.parametrize("kind", [SOURCE, DEST])
def test_checkpoint_id_that_decreases_or_exceeds_the_batches_is_refused(kind: CheckpointKind) -> None:
    found = Correlation()
    found.add(checkpoint(kind, 3), most=5)
    for number in (2, 6):
        with pytest.raises(ConnectorError, match="between 3"):
            found.add(checkpoint(kind, number), most=5)
