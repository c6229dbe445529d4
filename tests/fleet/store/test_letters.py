"""Dead letters in the store: edited, removed by place, and never those that changed meanwhile."""

from __future__ import annotations

import pytest

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store import letters as module
from gauss.fleet.store.letters import DeadLetter, Origin
from gauss.model.errors import NotFound


@pytest.fixture
def pipeline(store: FleetStore) -> str:
    """A pipeline with a dead letter at the offsets 1 and 2 of two incarnations."""
    made = store.pipelines.create("orders", "", "me").id
    with store.database.transaction() as connection:
        for inc in (7, 8):
            letters = [DeadLetter(offset, "map", "bad", "", "", b"old", 5) for offset in (1, 2)]
            module.add(connection, made, Origin(inc, "t", 0), letters)
    return made


def test_an_edit_keeps_the_record_and_can_be_taken_back(store: FleetStore, pipeline: str) -> None:
    edited = store.letters.edit(pipeline, (7, 1), b"new", "me")
    assert (edited.letter.data, edited.newest, edited.edited_by) == (b"old", b"new", "me")
    restored = store.letters.edit(pipeline, (7, 1), None, "me")
    assert (restored.newest, restored.edited_by) == (b"old", None)
    with pytest.raises(NotFound, match="offset 3"):
        store.letters.edit(pipeline, (7, 3), b"new", "me")
    assert [each.action for each in store.audit.entries(limit=2)] == ["letter.edit", "letter.edit"]


def test_letters_are_found_and_discarded_by_incarnation_and_offset(store: FleetStore, pipeline: str) -> None:
    found = store.letters.at(pipeline, [(8, 2), (7, 1), (9, 1)])
    assert [(each.origin.inc, each.letter.offset) for each in found] == [(7, 1), (8, 2)]
    assert store.letters.at(pipeline, []) == []
    assert store.letters.discard(pipeline, [(8, 2), (9, 1)], "me") == 1
    assert store.letters.discard(pipeline, [], "me") == 0
    left = store.letters.list(pipeline)
    assert [(each.origin.inc, each.letter.offset) for each in left] == [(8, 1), (7, 2), (7, 1)]


def test_a_letter_that_was_edited_during_its_replay_is_kept(store: FleetStore, pipeline: str) -> None:
    replayed, other = store.letters.at(pipeline, [(7, 1), (7, 2)])
    store.letters.edit(pipeline, (7, 1), b"new", "me")
    store.letters.replayed(pipeline, replayed, "me")
    store.letters.replayed(pipeline, other, "me")
    assert [each.newest for each in store.letters.at(pipeline, [(7, 1), (7, 2)])] == [b"new"]
