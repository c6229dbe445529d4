"""Opening after a crash: everything before the torn write is intact, and nothing after it is left."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.storage import Log
from gauss.model.errors import Damaged, StorageError
from helpers.cases import cases
from helpers.logs import arrow, lines, numbered, open_log, put, records

BLOCKS = [
    lines(b"a", b"bb", ts_ms=1),
    lines(b"ccc", b"", b"dd", ts_ms=[2, 3, 4]),
    lines(b"e", ts_ms=4),
    arrow(b"ff", b"g", ts_ms=[5, 9]),
]
ENDS = [2, 5, 6, 8]


# Hundreds of logs are opened here, and only the file contents matter, so nothing is synced.
UNSYNCED = {"framing": "newline", "fsync": "never"}


def _filled(folder: Path) -> list[tuple[int, int, bytes]]:
    log = open_log("file", folder, UNSYNCED)
    put(log, *BLOCKS)
    found = records(log)
    log.close()
    return found


def _file(folder: Path, suffix: str) -> Path:
    return folder / "topic" / f"{0:020d}.{suffix}"


def _reopened(folder: Path) -> Log:
    return open_log("file", folder, UNSYNCED)


def test_reopened_log_is_the_same(tmp_path: Path) -> None:
    whole = _filled(tmp_path)
    log = _reopened(tmp_path)
    assert records(log) == whole
    assert (log.inc, log.end, log.last_ts()) == (7, 8, 9)
    put(log, lines(b"more", ts_ms=10))
    log.close()
    assert records(_reopened(tmp_path)) == [*whole, (8, 10, b"more")]


def _skipping(folder: Path) -> Any:
    return open_log("file", folder, {**UNSYNCED, "on_damage": "skip"})


def _accounted(log: Any, whole: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Checks that the log returns only what was written, and counts what is missing."""
    found = records(log)
    assert set(found) <= set(whole)
    assert len(found) + log.damaged + log.lost + log.set_aside >= len(whole)
    return found


@pytest.mark.parametrize("suffix", ["log", "index", "times"])
def test_log_cut_at_any_byte_gives_only_what_was_written_and_counts_the_rest(tmp_path: Path, suffix: str) -> None:
    whole = _filled(tmp_path / "origin")
    size = _file(tmp_path / "origin", suffix).stat().st_size
    for cut in range(size):
        folder = tmp_path / str(cut)
        shutil.copytree(tmp_path / "origin", folder)
        with _file(folder, suffix).open("r+b") as file:
            file.truncate(cut)
        log = _skipping(folder)
        found = _accounted(log, whole)
        if suffix != "times":  # a torn end: everything before it is there
            assert log.end in [0, *ENDS] and found == whole[: log.end]
        next_offset = log.end
        put(log, lines(b"next", ts_ms=99))
        log.close()
        log = _skipping(folder)
        assert records(log) == [*found, (next_offset, 99, b"next")]
        log.close()
        shutil.rmtree(folder)


@pytest.mark.parametrize("suffix", ["log", "index", "times"])
def test_flipped_byte_damages_its_block_alone(tmp_path: Path, suffix: str) -> None:
    whole = _filled(tmp_path / "origin")
    for position in range(_file(tmp_path / "origin", suffix).stat().st_size):
        folder = tmp_path / str(position)
        shutil.copytree(tmp_path / "origin", folder)
        raw = bytearray(_file(folder, suffix).read_bytes())
        raw[position] ^= 0x10
        _file(folder, suffix).write_bytes(raw)
        log = _skipping(folder)
        found = _accounted(log, whole)
        assert len(found) >= len(whole) - 3  # the largest block
        assert log.end >= len(whole) and _file(folder, suffix).read_bytes() == raw
        if len(found) < len(whole):
            log.close()
            strict = _reopened(folder)
            with pytest.raises(Damaged, match="are damaged"):
                records(strict)
            strict.close()
        log.close()
        shutil.rmtree(folder)


def test_data_whose_index_was_lost_is_damaged_and_stays(tmp_path: Path) -> None:
    _filled(tmp_path)
    before = _file(tmp_path, "log").read_bytes()
    _file(tmp_path, "index").unlink()
    log = _reopened(tmp_path)
    assert log.end >= 8
    with pytest.raises(Damaged, match="index is missing"):
        log.chunks(0, log.end, 1)
    put(log, lines(b"next", ts_ms=99))
    assert [data for _, _, data in records(log, log.end - 1)] == [b"next"]
    assert _file(tmp_path, "log").read_bytes() == before


def test_blocks_behind_a_damaged_one_are_read(tmp_path: Path) -> None:
    whole = _filled(tmp_path)
    content = _file(tmp_path, "log").read_bytes()
    _file(tmp_path, "log").write_bytes(b"X" + content[1:])
    log: Any = _skipping(tmp_path)
    assert records(log) == whole[2:]
    assert log.damaged == 2


def test_sectors_that_a_power_loss_left_empty_are_cut(tmp_path: Path) -> None:
    log: Any = open_log("file", tmp_path, UNSYNCED)
    put(log, lines(*[b"x" * 99] * 10, ts_ms=1), lines(*[b"y" * 99] * 20, ts_ms=2))
    log.close()
    content = _file(tmp_path, "log").read_bytes()
    _file(tmp_path, "log").write_bytes(content[:2048].ljust(len(content), b"\x00"))
    log = _reopened(tmp_path)
    assert (log.end, log.lost, log.damaged) == (10, 20, 0)
    assert len(records(log)) == 10


def test_what_is_cut_is_kept_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log: Any = open_log("file", tmp_path)
    put(log, numbered(0, 3))
    log.append(numbered(3, 2), 9)
    log.close()
    log = open_log("file", tmp_path, committed=lambda _: False)
    assert (log.end, log.set_aside) == (3, 2)
    (kept,) = (tmp_path / "topic" / "aside").iterdir()
    assert kept.name.endswith("-uncommitted-epoch")
    assert b"r3" in (kept / f"{3:020d}.log").read_bytes()
    assert len((kept / f"{3:020d}.index").read_bytes()) == 48
    assert "are not in the journal" in caplog.text


def test_epochs_set_aside_by_kills_are_bounded_and_those_of_a_lost_journal_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.plugins.storages.file.aside_folder.MOST_EPOCH_BYTES", 2_000)

    def reopened(*epochs: int) -> list[str]:
        log = open_log("file", tmp_path, committed=lambda _: False)
        for epoch in epochs:
            log.append(lines(b"x" * 900), epoch)
        log.close()
        return sorted(path.name for path in (tmp_path / "topic").glob("aside/*"))

    reopened(1, 2, 3)
    (several,) = reopened(4)
    assert several.endswith("-uncommitted")
    for epoch in range(5, 9):
        names = reopened(epoch)
        assert names[0] == several
    assert names[1:] == sorted(names)[1:] and len(names) == 3
    assert all(name.endswith("-uncommitted-epoch") for name in names[1:])


def test_unindexed_data_is_cut(tmp_path: Path) -> None:
    whole = _filled(tmp_path)
    with _file(tmp_path, "log").open("ab") as file:
        file.write(b"half a rec")
    assert records(_reopened(tmp_path)) == whole
    assert _file(tmp_path, "log").stat().st_size == sum(len(record[2]) + 1 for record in whole)


def test_uncommitted_publish_is_cut_even_across_segments(tmp_path: Path) -> None:
    config = {"segment_bytes": 4096}
    log = open_log("file", tmp_path, config)
    put(log, numbered(0, 10))
    for part in range(5):
        log.append(lines(*[b"x" * 100] * 30, ts_ms=part), 9)
    log.close()
    log = open_log("file", tmp_path, config, committed=lambda publish: publish != 9)
    assert [record[2] for record in records(log)] == [b"r%d" % number for number in range(10)]
    put(log, numbered(10, 1, ts_ms=50))
    assert log.end == 11
    assert len(list((tmp_path / "topic").glob("*.log"))) == 1


def test_committed_publish_stays(tmp_path: Path) -> None:
    log = open_log("file", tmp_path)
    log.append(numbered(0, 3), 4)
    log.append(numbered(3, 3), 5)
    log.close()
    log = open_log("file", tmp_path, committed=lambda publish: publish == 4)
    assert log.end == 3


def test_torn_epoch_goes_whole(tmp_path: Path) -> None:
    log = open_log("file", tmp_path)
    put(log, numbered(0, 2))
    for part in range(3):
        log.append(numbered(2 + part, 1), 6)
    log.reveal()
    log.close()
    with _file(tmp_path, "log").open("r+b") as file:
        file.truncate(_file(tmp_path, "log").stat().st_size - 1)
    assert open_log("file", tmp_path).end == 2


def test_gap_and_next_offset_survive_a_restart(tmp_path: Path) -> None:
    log = open_log("file", tmp_path)
    put(log, numbered(0, 2))
    log.skip_to(100)
    log.close()
    log = open_log("file", tmp_path)
    assert log.end == 100
    put(log, lines(b"x", ts_ms=2))
    log.close()
    assert [record[0] for record in records(open_log("file", tmp_path))] == [0, 1, 100]


def test_other_framing_is_refused_with_what_to_do(tmp_path: Path) -> None:
    open_log("file", tmp_path, {"framing": "newline"}).close()
    with pytest.raises(StorageError, match="newline") as caught:
        open_log("file", tmp_path, {"framing": "fixed_size", "frame_size": 4})
    assert "data_dir" in caught.value.hint
    open_log("file", tmp_path, {"framing": "newline", "delimiter": "\n"}).close()


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    log = open_log("file", tmp_path)
    with pytest.raises(StorageError, match="in use"):
        open_log("file", tmp_path)
    log.close()
    open_log("file", tmp_path).close()


SEGMENTED = {"segment_bytes": 4096, "framing": "newline", "fsync": "never"}


def _segmented(folder: Path) -> list[tuple[int, int, bytes]]:
    """Three segments of several blocks each, the last one shorter."""
    log = open_log("file", folder, SEGMENTED)
    for number in range(5):
        put(log, lines(*[b"%d" % number * 700] * 2, ts_ms=[2 * number, 2 * number + 1]))
        put(log, lines(b"s", ts_ms=2 * number + 1))
    found = records(log)
    log.close()
    assert len(list((folder / "topic").glob("*.log"))) >= 3
    return found


@pytest.mark.parametrize("suffix", ["log", "index", "times"])
@pytest.mark.parametrize("change", ["flip", "cut"])
def test_changed_closed_segment_gives_no_wrong_record_and_counts_the_missing(
    tmp_path: Path, suffix: str, change: str
) -> None:
    whole = _segmented(tmp_path / "origin")
    content = _file(tmp_path / "origin", suffix).read_bytes()
    step = 5 if suffix == "index" else 211 if suffix == "log" else 7
    for position in range(0, len(content), step):
        folder = tmp_path / str(position)
        shutil.copytree(tmp_path / "origin", folder)
        changed = bytearray(content)
        changed[position] ^= 0x10
        _file(folder, suffix).write_bytes(changed if change == "flip" else content[:position])
        log: Any = open_log("file", folder, {**SEGMENTED, "on_damage": "skip"})
        assert log.end == whole[-1][0] + 1
        assert (log.lost, log.set_aside) == (0, 0)
        found = records(log)
        assert set(found) <= set(whole)
        assert len(found) + log.damaged == len(whole)
        assert log.offset_at(9) <= next(offset for offset, ts_ms, _ in whole if ts_ms >= 9)
        log.close()
        shutil.rmtree(folder)


def test_removed_segment_in_the_middle_is_damage_and_a_skipped_range_is_not(tmp_path: Path) -> None:
    whole = _segmented(tmp_path)
    log: Any = open_log("file", tmp_path, {**SEGMENTED, "on_damage": "skip"})
    log.skip_to(log.end + 10)
    log.skip_to(log.end + 10)
    put(log, lines(b"behind", ts_ms=99))
    log.close()
    log = open_log("file", tmp_path, {**SEGMENTED, "on_damage": "skip"})
    assert [data for _, _, data in records(log)] == [*(data for _, _, data in whole), b"behind"]
    assert log.damaged == 0
    log.close()
    middle = sorted((tmp_path / "topic").glob("*.log"))[1]
    for suffix in (".log", ".index", ".times"):
        middle.with_suffix(suffix).unlink(missing_ok=True)
    log = open_log("file", tmp_path, {**SEGMENTED, "on_damage": "skip"})
    found = records(log)
    assert 0 < log.damaged == len(whole) + 1 - len(found)


def test_age_retention_keeps_a_segment_whose_newest_time_is_damaged(tmp_path: Path) -> None:
    _segmented(tmp_path)
    index = _file(tmp_path, "index")
    raw = bytearray(index.read_bytes())
    raw[-48 + 23] ^= 0x80  # the sign of the last entry's time
    index.write_bytes(raw)
    log: Any = open_log("file", tmp_path, {**SEGMENTED, "retention": "1 s"})
    log.maintain(log.end, now_ms=1001)
    assert log.floor == 0


def test_flipped_meta_is_refused_with_its_name(tmp_path: Path) -> None:
    _filled(tmp_path)
    path = tmp_path / "topic" / "meta.json"
    content = path.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 0x02
        path.write_bytes(changed)
        try:
            log = _reopened(tmp_path)
        except StorageError as error:
            assert "meta.json" in error.message
        else:  # only the name of the checksum itself can change this way
            assert (log.inc, log.end) == (7, 8) and b'"checksum"' not in changed
            log.close()
            path.write_bytes(content)


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    others = [tmp_path / "mine" / name for name in ("app.log", "5.index", "note.times")]
    for other in others:
        other.write_text("mine")
    log = open_log("file", tmp_path, {"data_dir": "mine"})
    put(log, numbered(0, 2))
    log.close()
    assert len(records(open_log("file", tmp_path, {"data_dir": "mine"}))) == 2
    assert [other.read_text() for other in others] == ["mine"] * 3


def test_incarnation_is_stored_before_the_first_append(tmp_path: Path) -> None:
    open_log("file", tmp_path, incarnation=lambda _: 41)
    asked: list[int] = []
    shutil.copytree(tmp_path, tmp_path / "copy")
    open_log("file", tmp_path / "copy", incarnation=lambda stored: asked.append(stored) or stored)  # type: ignore[func-returns-value]
    assert asked == [41]


STEPS = st.lists(st.one_of(st.integers(1, 30), st.sampled_from(["rollback", "reopen", "skip"])), max_size=25)


@settings(max_examples=cases(60), deadline=None)
@given(STEPS)
def test_any_course_of_appends_rollbacks_and_restarts_keeps_what_was_shown(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    config = {"segment_bytes": 4096, "fsync": "never"}
    log = open_log("file", folder, config)
    wanted: list[tuple[int, int, bytes]] = []
    for step in steps:
        if isinstance(step, int):
            times = [step + number for number in range(step)]
            put(log, arrow(*[b"z" * 50 * (number % 5) for number in range(step)], ts_ms=times))
            wanted += [(log.end - step + n, times[n], b"z" * 50 * (n % 5)) for n in range(step)]
        elif step == "rollback":
            for _ in range(3):
                log.append(lines(*[b"gone" * 100] * 5), 2)
            log.rollback()
        elif step == "skip":
            log.skip_to(log.end + 5)
        else:
            log.close()
            log = open_log("file", folder, config)
        assert records(log) == wanted
    log.close()
    assert records(open_log("file", folder, config)) == wanted
