"""The ledger: commits survive a reopen, and numbers and incarnations never repeat."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.clients.engine.positions import At
from gauss.model.errors import StorageError
from gauss.stream.engine.journal.entries import ClaimMade, EpochPublished, LedgerState, LettersReplayed
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.journal.ledger_state import commit_number


def published(ledger: Ledger, epoch: int, end: int) -> int:
    number = ledger.next_number()
    ledger.commit(EpochPublished(number, "p", "c", epoch, {"in": At(1, end)}, {"out": At(9, end * 2)}))
    return number


def claimed(ledger: Ledger) -> Ledger:
    ledger.commit(ClaimMade("p", "c", 1, {"in": At(1, 0)}))
    return ledger


def test_reopened_ledger_knows_everything_committed(tmp_path: Path) -> None:
    ledger = claimed(Ledger(tmp_path))
    numbers = [published(ledger, epoch, epoch * 10) for epoch in range(5)]
    ledger.move("in", "sink", At(1, 7))
    ledger.commit(LettersReplayed(ledger.next_number(), "p", [("in", 1, 3)], {"_retry.p": At(2, 1)}))
    ledger.close()
    again = Ledger(tmp_path)
    row = again.row("p")
    assert row is not None
    assert (row.generation, row.epoch, row.ends) == (1, 4, {"in": At(1, 40)})
    assert [epoch for epoch, _ in row.recent] == [2, 3, 4]
    assert row.start_of(4) == {"in": At(1, 30)}
    assert again.position("in", "sink") == At(1, 7)
    assert again.replayed("p") == {("in", 1, 3)}
    assert all(again.committed(number) for number in numbers)


def test_number_of_a_crashed_run_is_never_given_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    lost = ledger.next_number()
    again = Ledger(tmp_path)
    assert not again.committed(lost)
    assert again.next_number() > lost
    assert not again.committed(lost)


def test_memory_topic_gets_a_new_incarnation_at_each_open_even_if_the_clock_stands(tmp_path: Path) -> None:
    first = Ledger(tmp_path, clock=lambda: 5.0).incarnation("t", 0)
    second = Ledger(tmp_path, clock=lambda: 5.0).incarnation("t", 0)
    assert (first, second) == (5000, 5001)


def test_stored_incarnation_of_a_file_topic_is_kept(tmp_path: Path) -> None:
    first = Ledger(tmp_path).incarnation("t", 0)
    assert Ledger(tmp_path).incarnation("t", first) == first


def test_highest_counts_published_ends_positions_and_source_ends_of_one_incarnation(tmp_path: Path) -> None:
    ledger = claimed(Ledger(tmp_path))
    published(ledger, 0, 50)
    ledger.move("in", "sink", At(1, 80))
    ledger.move("in", "other", At(2, 999))
    ledger.maintain()
    assert (ledger.highest("in", 1), ledger.highest("out", 9), ledger.highest("in", 3)) == (80, 100, 0)


def test_new_checkpoint_forgets_epochs_and_keeps_source_ends(tmp_path: Path) -> None:
    ledger = claimed(Ledger(tmp_path))
    published(ledger, 0, 50)
    ledger.commit(ClaimMade("p", "fresh", 2, {"in": At(1, 50)}))
    row = ledger.row("p")
    assert row is not None
    assert (row.epoch, row.recent, row.ends) == (-1, [], {"in": At(1, 50)})


def test_journal_of_another_version_is_refused_with_a_hint(tmp_path: Path) -> None:
    from gauss.stream.engine.journal.journal import Journal

    journal = Journal(tmp_path)
    list(journal.replay())
    journal.append(b"\x81\xa4type\xa5Other", sync=True)
    journal.close()
    with pytest.raises(StorageError, match="unknown journal entry"):
        Ledger(tmp_path)


@given(st.permutations(range(1, 30)), st.integers(min_value=0, max_value=29))
def test_committed_ranges_answer_as_a_set_would(order: list[int], kept: int) -> None:
    state = LedgerState()
    for number in order[:kept]:
        commit_number(state, number)
    spelled = {number for first, last in state.committed for number in range(first, last + 1)}
    assert spelled == set(order[:kept])
    assert state.committed == sorted(state.committed)


def test_saved_position_is_there_after_a_kill(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.move("t", "out", At(7, 3))
    ledger.move("t", "out", At(7, 5))
    ledger.save_positions()
    again = Ledger(tmp_path)  # without closing the first one, as after a kill
    assert again.position("t", "out") == At(7, 5)
    again.close()


def test_partitions_of_a_topic_move_apart_and_survive_a_reopen(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.commit(ClaimMade("p", "c", 1, {"in": At(1, 0), "in/1": At(1, 0, partition=1)}))
    for epoch, ends in enumerate([{"in": At(1, 4)}, {"in/1": At(1, 9, partition=1)}]):
        ledger.commit(EpochPublished(ledger.next_number(), "p", "c", epoch, ends, {}))
    ledger.close()
    row = Ledger(tmp_path).row("p")
    assert row is not None
    assert row.ends == {"in": At(1, 4), "in/1": At(1, 9, partition=1)}


def test_committed_position_of_a_sink_is_not_followed_by_an_older_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.move("in", "sink", At(1, 2))
    ledger.push("sink", {"in": At(1, 5)}, {"length": 9})
    ledger.save_positions()
    ledger.move("in", "other", At(1, 3))
    again = Ledger(tmp_path)  # as after a kill: positions that were not committed are lost
    assert again.position("in", "sink") == At(1, 5)
    assert again.outside("sink") == {"length": 9}
    assert again.position("in", "other") is None
    again.drop([("in", "sink")], ["sink"])
    assert (again.position("in", "sink"), again.outside("sink")) == (None, None)
