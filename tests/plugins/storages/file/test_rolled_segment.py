"""File topics with `file_format = "arrow_ipc_file"`: rolled segments, reads across both forms, and crashes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from gauss.contracts.storage import Log
from gauss.model.errors import Collected, Damaged, DiskFull
from gauss.plugins.storages.file import rolled_segment
from gauss.plugins.storages.file.segment import Segment
from helpers.logs import arrow, data, flatten, numbered, open_log, put, records
from helpers.waiting import wait_until

ARROW = {"file_format": "arrow_ipc_file"}


def rounds(log: Log, count: int = 3, passed: int = 0) -> None:
    for _ in range(count):
        log.maintain(passed)


def files(folder: Path, suffix: str) -> list[str]:
    return sorted(path.stem.lstrip("0") or "0" for path in folder.rglob(f"*.{suffix}"))


def from_disk(log: Log, config: dict[str, Any], folder: Path) -> list[tuple[int, int, bytes]]:
    """What a new process reads, without a cache."""
    log.close()
    again = open_log("file", folder, config)
    found = records(again)
    again.close()
    return found


def test_a_segment_rolls_by_rows_and_reads_span_files_and_tail(tmp_path: Path) -> None:
    config = {**ARROW, "roll_rows": 10}
    log = open_log("file", tmp_path, config)
    for number in range(7):
        put(log, numbered(number * 5, 5, ts_ms=[number * 10 + k for k in range(5)]))
    before = records(log)
    log.maintain(0)
    assert not files(tmp_path, "arrow"), "what was just left may not be committed on disk yet"
    log.maintain(0)
    assert files(tmp_path, "arrow") == ["0", "10", "20"]
    assert files(tmp_path, "log") == ["0", "10", "20", "30"], "a reader may be about to open them"
    log.maintain(0)
    assert files(tmp_path, "log") == ["30"]
    assert records(log) == before
    assert log.offset_at(32) == 17
    assert log.bytes_from(0) == 7 * 5 * 4 + sum(len(row[2]) for row in before)
    assert from_disk(log, config, tmp_path) == before
    again = open_log("file", tmp_path, config)
    assert again.offset_at(32) == 17
    assert flatten(again.chunks(3, 33, 1 << 20)) == before[3:33]
    put(again, numbered(35, 1, ts_ms=99))
    assert from_disk(again, config, tmp_path)[-1] == (35, 99, b"r35")


@pytest.mark.parametrize("ts_ms", [7, [1, 2, 3, 4, 5]])
def test_a_segment_that_is_rolled_between_its_check_and_its_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ts_ms: int | list[int]
) -> None:
    config = {**ARROW, "roll_rows": 10}
    log: Any = open_log("file", tmp_path, config)
    for number in range(7):
        put(log, numbered(number * 5, 5, ts_ms=ts_ms))
    before = records(log)
    check = Segment.check

    def rolled_behind_the_check(segment: Segment, first: int, limit: int) -> bool:
        sound = check(segment, first, limit)
        monkeypatch.setattr(Segment, "check", check)
        rounds(log, 4)
        segment.unmap()  # as reads of many other segments do
        return sound

    monkeypatch.setattr(Segment, "check", rolled_behind_the_check)
    assert flatten(log._segments.read(0, 10, 1 << 20)) == before[:10]  # from the files, not from memory
    assert files(tmp_path, "log") == ["30"]


def test_arrow_and_polars_read_the_files_as_they_lie(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {**ARROW, "roll_rows": 3})
    put(log, arrow(b"\x00\xff", b"", b"\n", ts_ms=[5, 5, 7]))
    put(log, arrow(b"tail", ts_ms=8))
    rounds(log)
    [path] = tmp_path.rglob("*.arrow")
    with pa.ipc.open_file(pa.memory_map(str(path))) as reader:
        table = reader.read_all()
    expected = {"offset": [0, 1, 2], "ts_ms": [5, 5, 7], "data": [b"\x00\xff", b"", b"\n"]}
    assert table.to_pydict() == expected
    assert table.schema.types == [pa.int64(), pa.int64(), pa.binary()]
    assert pl.read_ipc(path).to_dict(as_series=False) == expected


def test_a_segment_rolls_by_bytes_and_by_time(tmp_path: Path) -> None:
    by_bytes = open_log("file", tmp_path / "bytes", {**ARROW, "segment_bytes": 4096})
    for number in range(4):
        put(by_bytes, arrow(b"x" * 3000, ts_ms=number))
    rounds(by_bytes)
    assert files(tmp_path / "bytes", "arrow") == ["0", "1", "2"]
    by_time = open_log("file", tmp_path / "time", {**ARROW, "roll_interval": "20ms"})
    put(by_time, numbered(0, 2))

    def is_rolled() -> bool:
        rounds(by_time)
        return files(tmp_path / "time", "arrow") == ["0"]

    wait_until(is_rolled)
    rounds(by_time)
    assert files(tmp_path / "time", "arrow") == ["0"], "an empty segment is not rolled"
    assert data(by_time) == [b"r0", b"r1"]


def test_partitions_retention_and_trim_hold_for_rolled_files(tmp_path: Path) -> None:
    config = {**ARROW, "roll_rows": 2, "partition_by": "date", "data_dir": "days"}
    log = open_log("file", tmp_path, config)
    for number, day in enumerate(("2024-01-01", "2024-01-02", "2024-01-03")):
        stamp = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
        put(log, numbered(number * 2, 2, ts_ms=stamp))
    rounds(log)
    assert [path.parent.name for path in sorted((tmp_path / "days").rglob("*.arrow"))] == ["2024-01-01", "2024-01-02"]
    log.trim(2)
    assert log.floor == 2
    assert not (tmp_path / "days" / "2024-01-01").exists()
    with pytest.raises(Collected):
        log.chunks(0, 1, 1)
    log.close()
    aged = open_log("file", tmp_path, {**config, "retention": "1d"})
    aged.maintain(6)
    assert (aged.floor, aged.end) == (6, 6)
    assert not list((tmp_path / "days").rglob("*.arrow"))


def test_staged_records_are_never_rolled_and_roll_back(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {**ARROW, "roll_rows": 2})
    put(log, numbered(0, 2))
    for number in range(1, 4):
        log.append(numbered(number * 2, 2), 5)
    rounds(log)
    assert not files(tmp_path, "arrow")
    log.rollback()
    put(log, arrow(b"next"))
    rounds(log)
    assert files(tmp_path, "arrow") == ["0"]
    assert data(log) == [b"r0", b"r1", b"next"]


def test_a_reader_that_holds_a_rolled_segment_goes_on(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {**ARROW, "roll_rows": 2})
    put(log, numbered(0, 2), numbered(2, 2))
    rounds(log)
    [placed] = log.chunks(0, 2, 1 << 20)
    log.trim(2)
    assert flatten([placed]) == [(0, 1, b"r0"), (1, 1, b"r1")]


STEPS = ("writing", "written", "renamed", "replaced", "removed_index")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_of_a_roll_loses_and_doubles_nothing(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**ARROW, "roll_rows": 10}
    log = open_log("file", tmp_path, config)
    for number in range(5):
        put(log, numbered(number * 5, 5, ts_ms=number))
    before = records(log)
    log.maintain(0)

    class Crash(BaseException):
        pass

    def crash(*_: object, **__: object) -> None:
        raise Crash

    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # a killed process cleans nothing up
    if step == "writing":
        monkeypatch.setattr(rolled_segment, "_batches", crash)
    elif step == "written":
        monkeypatch.setattr(Path, "rename", crash)
    elif step == "renamed":
        monkeypatch.setattr(rolled_segment, "sync_folder", crash)
    try:
        log.maintain(0)
        if step == "removed_index":
            for path in tmp_path.rglob("*.index"):
                if path.stem != f"{20:020d}":
                    unlink(path)
    except Crash:
        assert step in STEPS[:3]
    monkeypatch.undo()
    assert from_disk(log, config, tmp_path) == before
    again = open_log("file", tmp_path, config)
    put(again, arrow(b"more"))
    rounds(again)
    assert [row[0] for row in records(again)] == list(range(26))
    assert not list(tmp_path.rglob("*.new"))


def _rolled(folder: Path) -> list[tuple[int, int, bytes]]:
    """Three Arrow files of two records each."""
    log = open_log("file", folder, {**ARROW, "roll_rows": 2})
    for number in range(3):
        put(log, numbered(number * 2, 2, ts_ms=number))
    rounds(log)
    found = records(log)
    log.close()
    return found


def test_a_torn_arrow_file_is_damage_and_the_rest_is_read(tmp_path: Path) -> None:
    whole = _rolled(tmp_path)
    first = min(tmp_path.rglob("*.arrow"))
    first.write_bytes(first.read_bytes()[:-20])
    again: Any = open_log("file", tmp_path, ARROW)
    with pytest.raises(Damaged, match=first.name):
        again.chunks(0, 2, 1)
    assert records(again, 2) == whole[2:]
    assert again.damaged == 2


@pytest.mark.parametrize("with_sums", [True, False])
def test_flipped_byte_of_an_arrow_file_ends_no_process_and_gives_no_wrong_record(
    tmp_path: Path, with_sums: bool
) -> None:
    whole = _rolled(tmp_path)
    first = min(tmp_path.rglob("*.arrow"))
    if not with_sums:  # as in folders of older versions, where a changed byte of a record cannot be detected
        first.with_suffix(".sum").unlink()
    content = first.read_bytes()
    damaged = 0
    for position in range(0, len(content), 3):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        first.write_bytes(changed)
        log: Any = open_log("file", tmp_path, {**ARROW, "on_damage": "skip", "fsync": "never"})
        found = records(log)
        assert log.end == 6 and len(found) + log.damaged == len(whole)
        if with_sums:
            assert set(found) <= set(whole)
        damaged += bool(log.damaged)
        log.close()
    assert damaged > 10


def test_a_log_is_not_removed_for_a_damaged_arrow_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {**ARROW, "roll_rows": 2}
    log = open_log("file", tmp_path, config)
    put(log, numbered(0, 2))
    put(log, numbered(2, 2))
    for _ in range(2):
        log.maintain(0)
    whole = records(log)
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "topic", killed / "topic")
    log.close()
    arrow_file = min(killed.rglob("*.arrow"))
    assert arrow_file.with_suffix(".index").exists()
    raw = bytearray(arrow_file.read_bytes())
    raw[len(raw) // 2] ^= 1
    arrow_file.write_bytes(raw)
    again: Any = open_log("file", killed, config)
    assert records(again) == whole and again.damaged == 0
    assert list((killed / "topic" / "aside").rglob("*.arrow"))
    assert "the log has its records" in caplog.text


def test_a_full_disk_leaves_the_log_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log("file", tmp_path, {**ARROW, "roll_rows": 2})
    put(log, numbered(0, 2), numbered(2, 2))
    log.maintain(0)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull):
        log.maintain(0)
    monkeypatch.undo()
    assert data(log) == [b"r0", b"r1", b"r2", b"r3"]
    rounds(log)
    assert files(tmp_path, "arrow") == ["0"]
    assert data(log) == [b"r0", b"r1", b"r2", b"r3"]


_CHILD = """
import json, sys
from pathlib import Path
from helpers.logs import numbered, open_log, put
log = open_log("file", Path(sys.argv[1]), json.loads(sys.argv[2]))
number = log.end
while True:
    put(log, numbered(number, 7, ts_ms=number))
    number += 7
    print(number, flush=True)
    log.maintain(0)
"""


@pytest.mark.fault
def test_killed_in_the_middle_of_rolls_every_acknowledged_record_is_there_once(tmp_path: Path) -> None:
    config: dict[str, Any] = {**ARROW, "roll_rows": 20, "fsync": "never"}
    folder = Path(__file__).parents[3]
    acknowledged = 0
    for kill in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(tmp_path), json.dumps(config)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
        )
        assert child.stdout is not None
        for _ in range(40 + 13 * kill):
            acknowledged = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, child.stdout.read().split())])
        child.wait()
        log = open_log("file", tmp_path, config)
        assert log.end >= acknowledged
        found = records(log)
        assert [(row[0], row[2]) for row in found] == [(number, b"r%d" % number) for number in range(log.end)]
        log.close()
    assert len(list(tmp_path.rglob("*.arrow"))) > 10
