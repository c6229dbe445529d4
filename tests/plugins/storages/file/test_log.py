"""File logs: folders by date, retention, full disks, kills, plain text."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from gauss.model.errors import DiskFull
from helpers.disks import small_file_system
from helpers.logs import arrow, data, lines, numbered, open_log, put, records

DAY = 86_400_000


def test_newline_framing_gives_a_plain_text_file(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {"framing": "newline", "data_dir": "./out"})
    put(log, lines(b"one", b"two"), arrow(b"three"))
    assert next((tmp_path / "out").glob("*.log")).read_bytes() == b"one\ntwo\nthree\n"


def test_partition_by_date_puts_segments_into_folders_of_utc_days(tmp_path: Path) -> None:
    config = {"partition_by": "date", "framing": "newline"}
    log = open_log("file", tmp_path, config)
    put(log, lines(b"a", ts_ms=0), lines(b"b", ts_ms=DAY - 1), lines(b"c", ts_ms=DAY), lines(b"d", ts_ms=5 * DAY))
    found = {path.parent.name: path.read_bytes() for path in (tmp_path / "topic").rglob("*.log")}
    assert found == {"1970-01-01": b"a\nb\n", "1970-01-02": b"c\n", "1970-01-06": b"d\n"}
    log.close()
    assert data(open_log("file", tmp_path, config)) == [b"a", b"b", b"c", b"d"]


def test_retention_removes_old_segments_that_readers_have_passed(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {"partition_by": "date", "retention": "1d"})
    now = int(time.time() * 1000)
    put(log, lines(b"a", ts_ms=now - 5 * DAY), lines(b"b", ts_ms=now - 3 * DAY), lines(b"c", ts_ms=now))
    log.maintain(1)
    assert data(log) == [b"b", b"c"]
    log.maintain(3)
    assert data(log) == [b"c"]
    assert len(list((tmp_path / "topic").rglob("*.log"))) == 1
    assert len([path for path in (tmp_path / "topic").iterdir() if path.is_dir()]) == 1


def test_retention_force_does_not_wait_for_readers(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {"retention": "1d", "retention_force": True})
    put(log, lines(b"a", ts_ms=5))
    log.maintain(0)
    assert (data(log), log.floor, log.end) == ([], 1, 1)
    put(log, lines(b"b", ts_ms=6))
    assert records(log) == [(1, 6, b"b")]


def test_trim_never_removes_a_segment_with_a_needed_record(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {"segment_bytes": 4096})
    for number in range(20):
        put(log, lines(b"x" * 1500, ts_ms=number))
    log.trim(3)
    assert log.floor == 2
    log.trim(20)
    assert log.floor == 18


def test_reader_goes_on_in_a_segment_that_was_removed(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {"segment_bytes": "1MiB", "framing": "newline"})
    for number in range(60):  # more than is cached in memory
        put(log, lines(b"x" * 100_000, ts_ms=number))
    held = log.chunks(0, 2, 10)
    log.trim(60)
    assert log.floor > 40
    assert bytes(held[0].chunk.payload).startswith(b"xxx")


def test_read_that_begins_inside_a_large_block_leaves_out_nothing_before_the_next_segment(tmp_path: Path) -> None:
    """The budget of a read ends within a block; what is left of it is not used for the next segment."""
    log = open_log("file", tmp_path, {"segment_bytes": 32_000, "framing": "newline"})
    for _ in range(6):
        put(log, lines(*[b"x" * 100] * 100))
    log.close()
    log = open_log("file", tmp_path, {"segment_bytes": 32_000, "framing": "newline"})  # nothing is cached in memory
    for budget in (1, 5_000, 10_100, 15_000, 1 << 20):
        for start in range(0, 600, 30):
            at = start
            while at < 600:
                for placed in log.chunks(at, 600, budget):
                    assert placed.offset == at
                    at += placed.chunk.count


@pytest.mark.parametrize("suffix", [".log", ".index", ".times"])
def test_full_disk_leaves_nothing_half_written(tmp_path: Path, suffix: str) -> None:
    """A limit on file size acts as the full disk: the write that exceeds it is cut short, then fails."""
    log = open_log("file", tmp_path, {"framing": "newline", "fsync": "never"})
    put(log, numbered(0, 3))
    many = {
        ".log": [lines(b"x" * 100_000, ts_ms=2)],
        ".index": [lines(b"x", ts_ms=2)] * 2000,
        ".times": [lines(*[b"x"] * 9000, ts_ms=list(range(2, 9002)))],
    }[suffix]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(DiskFull) as caught:
            put(log, *many)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.retryable
    log.rollback()
    assert data(log) == [b"r0", b"r1", b"r2"]
    put(log, numbered(3, 2, ts_ms=20_000))
    log.close()
    assert data(open_log("file", tmp_path, {"framing": "newline"})) == [b"r0", b"r1", b"r2", b"r3", b"r4"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB; only root may mount one."""
    with small_file_system(tmp_path / "disk", "256k") as folder:
        yield folder


@pytest.mark.fault
@pytest.mark.parametrize("config", [{}, {"segment_bytes": 4096}], ids=["one segment", "many segments"])
def test_log_on_a_full_disk_keeps_all_and_goes_on_when_there_is_room(
    small_disk: Path, config: dict[str, object]
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 150_000)
    log = open_log("file", small_disk, config)
    written = 0
    with pytest.raises(DiskFull):
        while True:
            put(log, arrow(*[b"r%06d" % (written + step) for step in range(100)], ts_ms=list(range(100))))
            written += 100
    log.rollback()
    assert (log.end, len(records(log))) == (written, written)
    ballast.unlink()
    put(log, arrow(b"r%06d" % written, ts_ms=100))
    log.close()
    found = data(open_log("file", small_disk, config))
    assert found == [b"r%06d" % number for number in range(written + 1)]


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from helpers.logs import numbered, open_log
log = open_log("file", Path(sys.argv[2]), {"segment_bytes": 4096, "fsync": "never"})
first = log.end
print(first, flush=True)
while True:
    count = 1 + first % 37
    log.append(numbered(first, count, ts_ms=[first + n for n in range(count)]), 0)
    log.reveal()
    first += count
    print(first, flush=True)
"""


@pytest.mark.fault
def test_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    tests, random = Path(__file__).parents[3], Random(5)
    acknowledged = 0
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tests), str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        first = int(writer.stdout.readline())
        assert first >= acknowledged
        deadline = time.monotonic() + random.random() * 0.15
        while time.monotonic() < deadline:
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        whole = [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        acknowledged = int(whole[-1]) if whole else acknowledged
    log = open_log("file", tmp_path, {"segment_bytes": 4096})
    found = records(log)
    assert len(found) >= acknowledged > 0
    assert found == [(number, number, b"r%d" % number) for number in range(len(found))]


@pytest.mark.parametrize(("fsync", "forced"), [("always", True), ("never", False)])
def test_data_and_index_are_forced_to_disk_before_they_show_only_with_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, forced: bool
) -> None:
    log = open_log("file", tmp_path, {"fsync": fsync, "framing": "newline"})
    put(log, numbered(0, 5))
    synced: list[tuple[str, int]] = []

    def note(fd: int) -> None:
        synced.append((Path(f"/proc/self/fd/{fd}").readlink().suffix, log.end))

    monkeypatch.setattr("os.fsync", note)
    monkeypatch.setattr("os.fdatasync", note)
    put(log, numbered(5, 5))
    assert {suffix for suffix, _ in synced} == ({".log", ".index"} if forced else set())
    assert all(end == 5 for _, end in synced)
    log.close()
