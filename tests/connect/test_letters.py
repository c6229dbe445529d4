"""The store of a sync's dead letters."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.connect.letters import SyncLetters, kept_letters, row_of
from gauss.contracts.connector.errors import ConnectorError

BAD = ConnectorError.data("BAD", "no")


@pytest.fixture
def letters(tmp_path: Path) -> SyncLetters:
    return SyncLetters(tmp_path / "connect" / "letters", "people")


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def numbers(letters: SyncLetters) -> list[int]:
    return [row_of(letter).column(0)[0].as_py() for letter in letters]


def test_stored_row_is_read_back_unchanged(letters: SyncLetters) -> None:
    odd = pa.record_batch({"t": pa.array(['a\n"ü\x00']), "b": pa.array([b"\xff\n"])})
    letters.add("s", "destination", odd, BAD, "people#1")
    [found] = letters
    assert row_of(found).equals(odd)
    assert (found["stream"], found["reason"], found["attempts"], found["run"]) == ("s", "BAD", 1, "people#1")


def test_remove_with_additions_keeps_the_order(letters: SyncLetters) -> None:
    letters.add("s", "destination", rows(1, 2, 3, 4), BAD, "r")
    [*_, last] = letters
    assert letters.remove(lambda number, _: number in (1, 3), [{**last, "attempts": 2}]) == 2
    assert numbers(letters) == [2, 4, 4] and [each["attempts"] for each in letters] == [1, 1, 2]
    assert letters.count() == 3


def test_truncated_line_is_skipped_and_the_others_are_read(letters: SyncLetters, tmp_path: Path) -> None:
    letters.add("s", "destination", rows(1, 2), BAD, "r")
    path = tmp_path / "connect" / "letters" / "people.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    letters.add("s", "destination", rows(3), BAD, "r")
    assert numbers(letters) == [1, 3] and letters.count() == 2


def test_letter_added_during_a_removal_is_kept(letters: SyncLetters, tmp_path: Path) -> None:
    letters.add("s", "destination", rows(*range(300)), BAD, "r")
    other = SyncLetters(tmp_path / "connect" / "letters", "people")  # as another process has it

    def add() -> None:
        for number in range(300, 340):
            other.add("s", "destination", rows(number), BAD, "r")

    adding = threading.Thread(target=add)
    adding.start()
    for n in range(0, 300, 10):
        letters.remove(lambda _, letter, n=n: n <= letter["row"]["n"] < n + 10)  # type: ignore[misc]
    adding.join()
    assert numbers(letters) == list(range(300, 340))


def test_letters_of_all_syncs_are_found_by_name(letters: SyncLetters, tmp_path: Path) -> None:
    assert kept_letters(tmp_path) == []
    letters.add("s", "destination", rows(1), BAD, "r")
    SyncLetters(tmp_path / "connect" / "letters", "dotted.name").add("s", "source", rows(1), BAD, "r")
    assert [each.sync for each in kept_letters(tmp_path)] == ["dotted.name", "people"]
    letters.remove(lambda *_: True)
    assert [each.sync for each in kept_letters(tmp_path)] == ["dotted.name"]


def test_repeated_row_is_stored_once_across_processes(tmp_path: Path) -> None:
    kept = SyncLetters(tmp_path, "people")
    assert kept.add("s", "destination", rows(1, 2), BAD, "r", ids=["a", "b"]) == 2
    assert kept.add("s", "destination", rows(2, 3), BAD, "r", ids=["b", "c"]) == 1
    assert SyncLetters(tmp_path, "people").add("s", "destination", rows(3, 4), BAD, "r", ids=["c", "d"]) == 1
    assert [letter["id"] for letter in kept] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**60], pa.timestamp("us")),
        pa.array([2**30], pa.date32()),
        pa.array([[2**60]], pa.list_(pa.timestamp("us"))),
    ],
)
def test_value_without_a_python_type_is_kept_and_shown_as_text(column: pa.Array, tmp_path: Path) -> None:
    letters = SyncLetters(tmp_path, "s")
    row = pa.record_batch({"at": column})
    assert letters.add("a", "destination", row, ConnectorError.data("BAD", "bad"), "s#1") == 1
    [letter] = letters
    assert isinstance(letter["row"]["at"], str) and row_of(letter).equals(row)
