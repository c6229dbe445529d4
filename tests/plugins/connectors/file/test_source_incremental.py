"""Files as the cursor: files that are removed, renamed or added out of order are reported, never skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.contracts.connector.cursor import JsonCursor
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import DataErrorPolicy
from gauss.plugins.connectors.file import listing
from gauss.plugins.connectors.file.formats import FileKind, kind_of
from plugins.connectors.file.syncing import Increments, Kept, Wanted, move, opened, reads, write_numbers

DLQ = DataErrorPolicy.DLQ


def test_file_removed_before_it_was_read_completely_is_a_data_error(tmp_path: Path) -> None:
    runs = Increments(tmp_path)
    write_numbers(tmp_path / "1.jsonl", 1, 2)
    state = (tmp_path / "1.jsonl").stat()
    stamp = state.st_mtime_ns
    runs.cursor = JsonCursor(
        {"file": "1.jsonl", "rows": 1, "done": False, "size": state.st_size, "mtime_ns": stamp, "newest_ns": stamp}
    )
    (tmp_path / "1.jsonl").unlink()
    write_numbers(tmp_path / "2.jsonl", 3)
    error = runs.run().error
    assert error.code == "FILE_CHANGED" and "1.jsonl was removed or renamed before it was read to its end" in str(error)
    assert len(runs.run(DLQ).ok().seen.letters) == 1 and runs.seen == [3]
    assert not runs.run().ok().seen.letters


def test_removed_file_is_reported_once_if_no_other_is_read(tmp_path: Path) -> None:
    write_numbers(tmp_path / "0.jsonl", 0)
    runs = Increments(tmp_path)
    runs.cursor = JsonCursor({"file": "1.jsonl", "rows": 1, "done": False, "newest_ns": 2**62})
    assert len(runs.run(DLQ).ok().seen.letters) == 1
    assert not runs.run().ok().seen.letters


def test_old_file_renamed_to_before_the_cursor_is_a_data_error(tmp_path: Path) -> None:
    """A file that is moved keeps its time."""
    runs = Increments(tmp_path)
    for name in ("2.jsonl", "4.jsonl"):
        write_numbers(tmp_path / name, int(name[0]))
    runs.run().ok()
    write_numbers(tmp_path / "3.jsonl", 3)
    os.utime(tmp_path / "3.jsonl", ns=(1, 1))
    error = runs.run().error
    assert error.code == "FILE_CHANGED" and "has 1 new file before 4.jsonl" in error.message
    assert len(runs.run(DLQ).ok().seen.letters) == 1 and runs.seen == []
    (tmp_path / "2.jsonl").unlink()
    write_numbers(tmp_path / "5.jsonl", 5)
    assert not runs.run().ok().seen.letters and runs.seen == [5]
    write_numbers(tmp_path / "1.jsonl", 1)
    os.utime(tmp_path / "1.jsonl", ns=(1, 1))
    assert runs.run().error.code == "FILE_CHANGED"


def test_removed_file_of_a_partition_is_a_data_error(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write_numbers(tmp_path / f"{number}.jsonl", number)
    wanted = Wanted(tmp_path.name, columns=pa.schema([("n", pa.int64())]), on_data_error=DLQ)
    with opened(reads(tmp_path), wanted, CheckpointKind.SOURCE) as source:
        parts = source.partitions(wanted.context(), 3)
    (tmp_path / "2.jsonl").unlink()
    kept = Kept()
    moved = [
        move(
            reads(tmp_path), kept.side, Wanted(wanted.stream, partition=part, columns=wanted.columns, on_data_error=DLQ)
        )
        for part in parts
    ]
    assert [row["n"] for row in kept.rows()] == [1, 3]
    assert [error.details["file"] for each in moved for _, _, error in each.ok().seen.letters] == ["2.jsonl"]


def test_file_removed_during_the_listing_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        write_numbers(tmp_path / f"{number}.jsonl", number)

    def archived(name: str) -> FileKind:
        if name == "1.jsonl":
            (tmp_path / name).unlink(missing_ok=True)
        return kind_of(name)

    monkeypatch.setattr(listing, "kind_of", archived)
    runs = Increments(tmp_path)
    runs.run().ok()
    assert runs.seen == [2]
