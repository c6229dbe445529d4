"""Dead letters in the store: edited, removed by place, and never those that changed meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.retention import Retention
from gauss.fleet.store import letter_totals, parts
from gauss.fleet.store import letters as module
from gauss.fleet.store.letter_totals import LetterTotals
from gauss.fleet.store.letters import EXCERPT_BYTES, KEPT_MS, DeadLetter, Origin
from gauss.model.errors import NotFound
from helpers.waiting import wait_until


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


def letter(offset: int, data: bytes = b"12345", **more: Any) -> DeadLetter:
    return DeadLetter(offset, "map", "bad", "", "", data, 5)._replace(**more)


def add(store: FleetStore, pipeline: str, *letters: DeadLetter) -> LetterTotals:
    with store.database.transaction() as connection:
        module.add(connection, pipeline, Origin(9, "t", 0), letters)
    return store.letters.totals()[pipeline]


def test_letters_beyond_the_limit_of_a_pipeline_are_counted_and_not_kept(
    store: FleetStore, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = store.pipelines.create("other", "", "me").id
    for name in (module, letter_totals):
        monkeypatch.setattr(name, "MOST_LETTERS", 6)
    assert add(store, pipeline, letter(0)) == (5, 17, 0, 0)
    full = add(store, pipeline, letter(1), letter(2), letter(3))
    assert full == (6, 22, 2, 0)
    assert full.is_full
    assert add(store, other, letter(1)) == (1, 5, 0, 0)
    assert store.letters.discard(pipeline, [(7, 1), (9, 0), (9, 5)], "me") == 2
    store.letters.replayed(pipeline, store.letters.at(pipeline, [(8, 2)])[0], "me")
    assert add(store, pipeline, letter(1), letter(4)) == (4, 16, 2, 0)  # the first one is there already
    assert len(store.letters.list(pipeline)) == 4


def test_letters_are_limited_by_their_bytes_as_well(
    store: FleetStore, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 30)
    assert add(store, pipeline, letter(0), letter(1, b"x" * 20), letter(2)) == (5, 17, 2, 0)
    assert add(store, pipeline, letter(3)) == (6, 22, 2, 0)


def test_old_letters_are_removed_and_counted(store: FleetStore, pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 2)
    with store.database.transaction() as connection:
        connection.execute(sa.text("UPDATE dead_letters SET at = at - :ms WHERE inc = 7"), {"ms": KEPT_MS})
        module.add(connection, pipeline, Origin(7, "t", 0), [letter(5)])
    with Retention(store):
        wait_until(lambda: store.letters.totals()[pipeline].expired == 2)
    assert [(each.origin.inc, each.letter.offset) for each in store.letters.list(pipeline)] == [(7, 5), (8, 2), (8, 1)]
    assert store.letters.totals()[pipeline] == (3, 11, 0, 2)
    assert store.letters.expire() == 0


def test_a_list_has_the_beginnings_of_records_and_their_sizes(store: FleetStore, pipeline: str) -> None:
    add(store, pipeline, letter(0, b"x" * 5_000), letter(1, None, detail="a\0b \ud800"))  # type: ignore[arg-type]
    store.letters.edit(pipeline, (9, 0), b"y" * 5_000, "me")
    second, first = store.letters.list(pipeline, limit=2)
    assert (first.letter.data, first.edited, first.size) == (b"x" * EXCERPT_BYTES, b"y" * EXCERPT_BYTES, 5_000)
    assert (second.letter.data, second.size, second.letter.detail) == (None, 0, "a\\0b ?")
    (whole,) = store.letters.at(pipeline, [(9, 0)])
    assert (whole.letter.data, whole.newest) == (b"x" * 5_000, b"y" * 5_000)


def test_a_pipeline_with_many_letters_and_versions_is_deleted_in_parts(
    store: FleetStore, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gauss.fleet.store.configs import Config, Kind

    for version in range(3):
        store.configs.change(pipeline, Kind.FILTERS, "me", lambda _, at=version: Config({"at": at}, {}))  # type: ignore[misc]
    monkeypatch.setattr(parts, "PART", 2)
    longest: list[int] = []

    def note(_connection: object, cursor: Any, statement: str, *_: object) -> None:
        if statement.startswith(("DELETE FROM dead_letters", "DELETE FROM config_versions")):
            longest.append(cursor.rowcount)

    sa.event.listen(store.database.engine, "after_cursor_execute", note)
    store.pipelines.delete(pipeline, "me")
    assert longest == [2, 2, 0, 2, 1]
    assert store.pipelines.list() == []
    assert store.letters.list(pipeline) == []
