"""Opening after a crash: everything before the tear is intact, nothing after it is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.storage import Log
from gauss.model.errors import StorageError
from helpers.cases import cases
from helpers.logs import arrow, lines, numbered, open_log, put, records

BLOCKS = [
    lines(b"a", b"bb", ts_ms=1),
    lines(b"ccc", b"", b"dd", ts_ms=[2, 3, 4]),
    lines(b"e", ts_ms=4),
    arrow(b"ff", b"g", ts_ms=[5, 9]),
]
ENDS = [2, 5, 6, 8]


# Hundreds of logs are opened here; what is tested is what lies in the files, not when a disk has it.
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


@pytest.mark.parametrize("suffix", ["log", "index", "times"])
def test_log_cut_at_any_byte_keeps_whole_blocks_before_it(tmp_path: Path, suffix: str) -> None:
    whole = _filled(tmp_path / "origin")
    size = _file(tmp_path / "origin", suffix).stat().st_size
    for cut in range(size):
        folder = tmp_path / str(cut)
        shutil.copytree(tmp_path / "origin", folder)
        with _file(folder, suffix).open("r+b") as file:
            file.truncate(cut)
        log = _reopened(folder)
        found = records(log)
        assert log.end in [0, *ENDS]
        assert found == whole[: log.end]
        put(log, lines(b"next", ts_ms=99))
        log.close()
        log = _reopened(folder)
        assert records(log) == [*found, (len(found), 99, b"next")]
        log.close()
        shutil.rmtree(folder)


@pytest.mark.parametrize("suffix", ["log", "index", "times"])
def test_flipped_byte_cuts_the_log_there(tmp_path: Path, suffix: str) -> None:
    whole = _filled(tmp_path / "origin")
    for position in range(_file(tmp_path / "origin", suffix).stat().st_size):
        folder = tmp_path / str(position)
        shutil.copytree(tmp_path / "origin", folder)
        raw = bytearray(_file(folder, suffix).read_bytes())
        raw[position] ^= 0x10
        _file(folder, suffix).write_bytes(raw)
        log = _reopened(folder)
        assert log.end < 8 or suffix == "times"  # there a hole may be hit, which nobody reads
        assert records(log) == whole[: log.end]
        log.close()
        shutil.rmtree(folder)


def test_data_whose_index_was_lost_is_told_and_kept_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _filled(tmp_path)
    before = _file(tmp_path, "log").read_bytes()
    _file(tmp_path, "index").unlink()
    log = _reopened(tmp_path)
    assert log.end == 0
    log.close()
    assert "its index is missing" in caplog.text
    assert _file(tmp_path, "log.torn").read_bytes() == before


def test_what_no_longer_matches_its_checksum_is_told_and_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _filled(tmp_path)
    before = _file(tmp_path, "log").read_bytes()
    changed = b"X" + before[1:]
    _file(tmp_path, "log").write_bytes(changed)
    log = _reopened(tmp_path)
    assert log.end == 0
    assert "records 0 to 8 are lost" in caplog.text
    assert _file(tmp_path, "log.torn").read_bytes() == changed
    assert len(_file(tmp_path, "index.torn").read_bytes()) > 0
    put(log, lines(b"next", ts_ms=99))
    log.close()
    caplog.clear()
    assert records(_reopened(tmp_path)) == [(0, 99, b"next")]
    assert not caplog.text


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


def test_missing_bytes_in_an_earlier_segment_leave_a_gap(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {"segment_bytes": 4096, "framing": "newline"}
    log = open_log("file", tmp_path, config)
    for number in range(6):
        put(log, lines(b"x" * 1500, ts_ms=number))
    log.close()
    with _file(tmp_path, "log").open("r+b") as file:
        file.truncate(1600)
    log = open_log("file", tmp_path, config)
    assert [record[0] for record in records(log)] == [0, 2, 3, 4, 5]
    assert "records 1 to 2 are lost" in caplog.text


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
