"""An engine opens a data directory whose journal was changed: it starts or refuses to, and loses nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gauss.model.errors import StorageError
from gauss.stream.engine.journal.journal_scan import HEAD, MAGIC, encode, scan
from helpers.directories import WHOLE, fill, opened


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("origin"))


def copied(origin: Path, folder: Path, journal: bytes | bytearray) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(origin, folder)
    (folder / "journal" / "commits").write_bytes(journal)
    return folder


def test_a_flipped_byte_anywhere_in_the_journal_is_refused_and_changes_nothing(origin: Path, tmp_path: Path) -> None:
    content = (origin / "journal" / "commits").read_bytes()
    assert len(scan(content).bodies) > 5
    for position in range(0, len(content), 3):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        folder = copied(origin, tmp_path / "copy", changed)
        with pytest.raises(StorageError, match="commits is damaged at byte") as refused:
            opened(folder)
        assert "gauss repair" in refused.value.hint and "keep" in refused.value.hint and "cut" in refused.value.hint
        assert (folder / "journal" / "commits").read_bytes() == changed
        (copy,) = (folder / "journal").glob("commits.damaged-*")
        assert copy.read_bytes() == changed
        for log in (folder / "topics" / "b").glob("*.log"):
            assert log.read_bytes() == (origin / "topics" / "b" / log.name).read_bytes()


def test_refusal_names_topics_and_records(origin: Path, tmp_path: Path) -> None:
    content = bytearray((origin / "journal" / "commits").read_bytes())
    content[40] ^= 1
    with pytest.raises(StorageError, match=r"Records whose commit is lost: b \(50 records\)"):
        opened(copied(origin, tmp_path / "copy", content))


def test_a_journal_cut_at_any_byte_starts_or_refuses_and_keeps_every_record(origin: Path, tmp_path: Path) -> None:
    content = (origin / "journal" / "commits").read_bytes()
    snapshot = len(MAGIC) + len(encode(scan(content).bodies[0]))
    last = len(content) - len(encode(scan(content).bodies[-1]))
    assert HEAD.size < len(content) - last
    for cut in [*range(0, last, 5), *range(last, len(content) + 1)]:
        folder = copied(origin, tmp_path / "copy", content[:cut])
        if cut < snapshot:
            with pytest.raises(StorageError, match=r"damaged|is empty beside topics"):
                opened(folder)
            continue
        found, counters = opened(folder)
        assert found == WHOLE[: len(found)]
        # Records that the shorter journal does not commit are moved aside and counted.
        assert len(found) + counters.set_aside == len(WHOLE)
        assert bool(counters.set_aside) == (folder / "topics" / "b" / "aside").exists()
        if cut > last:  # a torn entry affects at most the last publish
            assert len(found) >= len(WHOLE) - 10


def test_a_missing_journal_beside_filled_topics_is_refused(origin: Path, tmp_path: Path) -> None:
    folder = copied(origin, tmp_path / "copy", b"")
    for damaged in ("is empty", "is missing"):
        with pytest.raises(StorageError, match=f"{damaged} beside topics that hold records.*b .50 records."):
            opened(folder)
        (folder / "journal" / "commits").unlink(missing_ok=True)


def test_zeros_behind_the_last_entry_start(origin: Path, tmp_path: Path) -> None:
    content = (origin / "journal" / "commits").read_bytes()
    assert opened(copied(origin, tmp_path / "copy", content + b"\x00" * 5000))[0] == WHOLE
