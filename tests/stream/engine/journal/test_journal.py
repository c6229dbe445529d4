"""The commit journal: every prefix of the file is a prefix of the entries, and a failed write leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.model.errors import DiskFull, StorageError
from gauss.stream.engine.journal.journal import Journal, JournalDamaged
from gauss.stream.engine.journal.journal_scan import MAGIC, SECTOR, encode, scan
from helpers.cases import cases


def bodies(directory: Path) -> list[bytes]:
    journal = Journal(directory)
    found = list(journal.replay())
    journal.close()
    return found


def filled(directory: Path, entries: list[bytes]) -> Path:
    journal = Journal(directory)
    assert list(journal.replay()) == []
    for entry in entries:
        journal.append(entry, sync=False)
    journal.close()
    return journal.path


def cuts(entries: list[bytes]) -> list[int]:
    """The end of each entry, beginning with the magic number."""
    ends = [len(MAGIC)]
    for entry in entries:
        ends.append(ends[-1] + len(encode(entry)))
    return ends


def test_file_cut_at_every_byte_gives_a_prefix_of_the_entries(tmp_path: Path) -> None:
    entries = [b"a", b"bb" * 20, b"\x00" * 9, b"last entry"]
    content = filled(tmp_path, entries).read_bytes()
    ends = cuts(entries)
    for cut in range(len(content) + 1):
        (tmp_path / "commits").write_bytes(content[:cut])
        if ends[0] < cut < ends[1]:  # a snapshot is renamed when it is complete, so no crash can cut it
            with pytest.raises(JournalDamaged, match="snapshot"):
                bodies(tmp_path)
            continue
        whole = max(sum(end <= cut for end in ends) - 1, 0)
        assert bodies(tmp_path) == entries[:whole]


@settings(deadline=None, max_examples=cases(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entries=st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6),
    at=st.integers(min_value=0),
    flip=st.integers(min_value=1, max_value=255),
)
def test_a_flipped_byte_is_damage_and_the_file_stays_as_it_was(
    tmp_path: Path, entries: list[bytes], at: int, flip: int
) -> None:
    (tmp_path / "commits").unlink(missing_ok=True)
    content = bytearray(filled(tmp_path, entries).read_bytes())
    position = at % len(content)
    content[position] ^= flip
    (tmp_path / "commits").write_bytes(content)
    with pytest.raises(JournalDamaged) as caught:
        bodies(tmp_path)
    found = caught.value.scanned
    assert (tmp_path / "commits").read_bytes() == content
    # Every entry but the changed one is found, before or behind the damage.
    assert found.bodies == entries[: len(found.bodies)]
    changed = max(sum(end <= position for end in cuts(entries)) - 1, 0)
    spared = entries if position < len(MAGIC) else entries[:changed] + entries[changed + 1 :]
    assert found.bodies + found.later == spared


@pytest.mark.parametrize("kept", [1, SECTOR - 40, SECTOR, SECTOR + 7])
def test_sectors_that_a_power_loss_left_empty_are_cut(kept: int) -> None:
    first, lost = encode(b"first" * 20), encode(b"\x93" * 3000)
    content = MAGIC + first + lost
    torn = content[: -(-(len(MAGIC + first) + kept) // SECTOR) * SECTOR].ljust(len(content), b"\x00")
    found = scan(torn)
    assert (found.bodies, found.damage, found.end) == ([b"first" * 20], "", len(MAGIC + first))


def test_a_length_that_reaches_beyond_the_end_is_damage_when_entries_follow() -> None:
    content = bytearray(MAGIC + encode(b"one") + encode(b"two") + encode(b"three"))
    content[len(MAGIC + encode(b"one")) + 2] ^= 1  # adds 65,536 to the length
    found = scan(bytes(content))
    assert found.bodies == [b"one"] and "length" in found.damage and found.later == [b"three"]


def test_append_after_a_cut_tail_goes_on_behind_the_last_whole_entry(tmp_path: Path) -> None:
    path = filled(tmp_path, [b"one", b"two"])
    path.write_bytes(path.read_bytes()[:-1] + b"")
    journal = Journal(tmp_path)
    assert list(journal.replay()) == [b"one"]
    journal.append(b"three", sync=True)
    journal.close()
    assert bodies(tmp_path) == [b"one", b"three"]


def test_zeros_behind_the_last_entry_are_cut(tmp_path: Path) -> None:
    path = filled(tmp_path, [b"one"])
    path.write_bytes(path.read_bytes() + b"\x00" * 4096)
    assert bodies(tmp_path) == [b"one"]


def test_full_disk_raises_disk_full_and_leaves_no_part_of_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    list(journal.replay())
    journal.append(b"kept", sync=True)
    real = os.pwrite
    calls = iter(range(10))

    def half_then_full(fd: int, data: Any, offset: int) -> int:
        if next(calls) == 0:
            return real(fd, data[: len(data) // 2], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half_then_full)
    with pytest.raises(DiskFull):
        journal.append(b"refused" * 10, sync=True)
    monkeypatch.undo()
    journal.append(b"later", sync=True)
    journal.close()
    assert bodies(tmp_path) == [b"kept", b"later"]


def test_compaction_keeps_the_snapshot_and_what_follows(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    list(journal.replay())
    for number in range(100):
        journal.append(b"entry %d" % number, sync=False)
    before = journal.size
    journal.compact(lambda: b"all of it")
    assert journal.size < before
    journal.append(b"next", sync=False)
    journal.close()
    assert bodies(tmp_path) == [b"all of it", b"next"]


def test_compaction_that_died_before_the_rename_changes_nothing(tmp_path: Path) -> None:
    filled(tmp_path, [b"one"])
    (tmp_path / "commits.new").write_bytes(MAGIC + b"half")
    assert bodies(tmp_path) == [b"one"]
    assert not (tmp_path / "commits.new").exists()


def test_another_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "commits").write_bytes(b"something else entirely")
    with pytest.raises(StorageError, match="does not begin like a commit journal"):
        bodies(tmp_path)
