"""Answers of the log cursor; names refer to the clauses of the scan contract where one applies."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.contracts.cursor import Code, Last, Mode, OffsetRange, Output, Program, Seq, Step, TimeRange
from gauss.contracts.storage import Log
from gauss.model.errors import Collected, ConfigError
from gauss.scan.log_cursor import LogProvider
from gauss.scan.sources import SourceTask
from gauss.scan.tasks import TaskCursor
from helpers.logs import drain, lines, numbered, open_log, put

LIVE = Program(Seq(), Mode.LIVE)


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return open_log(request.param, tmp_path, {"segment_bytes": 4096} if request.param == "file" else {})


@pytest.fixture
def provider(log: Log) -> LogProvider:
    return LogProvider(log)


def test_2_3_first_next_of_an_empty_log_is_invalid(provider: LogProvider) -> None:
    assert provider.open(Program()).next(Step()) is Code.INVALID
    assert provider.open(Program(Last())).next(Step()) is Code.INVALID


def test_5_1_1_pinned_is_the_published_version(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 7))
    assert provider.open(Program()).pinned_version == 7 == provider.version()


def test_5_2_3_snapshot_end_is_invalid_repeatably(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 3))
    cursor = provider.open(Program())
    assert len(drain(cursor)) == 3
    assert [cursor.next(Step()) for _ in range(3)] == [Code.INVALID] * 3


def test_5_2_3_live_idle_is_invalid_then_unset_after_an_append(log: Log, provider: LogProvider) -> None:
    cursor = provider.open(LIVE)
    assert cursor.next(Step()) is Code.INVALID
    assert cursor.read() == (Code.INVALID, None)
    put(log, numbered(0, 2))
    assert cursor.next(Step()) is Code.OK
    assert cursor.position == 2


def test_5_3_2_repeated_read_gives_the_same_batch(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 4))
    cursor = provider.open(LIVE)
    cursor.next(Step(limit=2))
    first, second = cursor.read()[1], cursor.read()[1]
    assert first is not None
    assert first == second


def test_5_3_3_read_before_next_is_invalid(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 4))
    assert provider.open(LIVE).read() == (Code.INVALID, None)


def test_5_4_closed_cursor_is_invalid(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 4))
    cursor = provider.open(LIVE)
    cursor.next(Step())
    cursor.close()
    assert cursor.read() == (Code.INVALID, None)
    assert cursor.next(Step()) is Code.INVALID


def test_6_1_1_appends_between_nexts_are_invisible_to_a_snapshot(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 4))
    cursor = provider.open(Program())
    cursor.next(Step(limit=2))
    put(log, numbered(4, 4))
    assert len(drain(cursor)) == 2


def test_6_2_2_live_gives_root_then_tail_without_gap(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 4))
    cursor = provider.open(LIVE)
    found = drain(cursor, Step(limit=3))
    put(log, numbered(4, 4))
    found += drain(cursor, Step(limit=3))
    assert [record[0] for record in found] == list(range(8))
    assert cursor.pinned_version == 4


@pytest.mark.parametrize("step", [Step(limit=0), Step(limit=-1), Step(max_bytes=0)])
def test_7_5_bad_step_is_invalid_and_leaves_the_cursor_unharmed(log: Log, provider: LogProvider, step: Step) -> None:
    put(log, numbered(0, 4))
    cursor = provider.open(LIVE)
    assert cursor.next(step) is Code.INVALID
    assert len(drain(cursor)) == 4


@pytest.mark.parametrize("output", list(Output))
def test_7_6_concatenation_does_not_depend_on_limits(log: Log, provider: LogProvider, output: Output) -> None:
    for number in range(0, 600, 60):
        put(log, numbered(number, 60, ts_ms=list(range(number, number + 60))))
    whole = drain(provider.open(Program(output=output)))
    assert len(whole) == 600
    for limit in (1, 7, 60, 61, 599):
        for size in (1, 300, 1 << 20):
            assert drain(provider.open(Program(output=output)), Step(limit, size)) == whole


def test_7_6_rows_never_exceed_the_limit(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 100))
    for output in Output:
        cursor = provider.open(Program(output=output))
        cursor.next(Step(limit=30))
        assert cursor.position == 30


def test_offset_range_gives_the_same_for_every_later_version(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 10))
    first = drain(provider.open(Program(OffsetRange(3, 8))))
    put(log, numbered(10, 10))
    assert drain(provider.open(Program(OffsetRange(3, 8)))) == first
    assert [record[0] for record in first] == [3, 4, 5, 6, 7]


def test_offset_range_beyond_the_version_is_refused(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 10))
    with pytest.raises(ConfigError, match="below 10"):
        provider.open(Program(OffsetRange(3, 11)))


def _shortened(log: Log) -> int:
    for number in range(100):
        put(log, lines(b"x" * 200, ts_ms=number))
    log.trim(60)
    assert 0 < log.floor <= 60
    return log.floor


def test_offset_range_behind_the_floor_is_collected(log: Log, provider: LogProvider) -> None:
    floor = _shortened(log)
    with pytest.raises(Collected):
        provider.open(Program(OffsetRange(floor - 1, 100)))


def test_snapshot_that_falls_behind_the_floor_is_rejected_repeatably(log: Log, provider: LogProvider) -> None:
    put(log, lines(b"x" * 200))
    cursor = provider.open(Program())
    _shortened(log)
    assert [cursor.next(Step()) for _ in range(2)] == [Code.REJECTED] * 2
    assert cursor.read() == (Code.REJECTED, None)


def test_live_that_falls_behind_the_floor_is_rejected(log: Log, provider: LogProvider) -> None:
    cursor = provider.open(LIVE)
    floor = _shortened(log)
    assert cursor.next(Step()) is Code.REJECTED
    with pytest.raises(Collected):
        provider.open(Program(Seq(floor - 1), Mode.LIVE))


def test_a_reader_behind_the_floor_opens_anew_there_and_counts_what_it_missed(log: Log, provider: LogProvider) -> None:
    counted: list[int] = []
    source = SourceTask("t", provider)
    cursor = TaskCursor(source, LIVE, counted.append)
    floor = _shortened(log)
    assert [record[0] for record in drain(cursor)] == list(range(floor, 100))
    late = TaskCursor(source, Program(Seq(0), Mode.LIVE), counted.append)
    assert [record[0] for record in drain(late)] == list(range(floor, 100))
    assert [cursor.missed, late.missed] == counted == [floor, floor]
    assert source.open_cursors() == 2


def test_live_from_the_future_is_refused(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 10))
    with pytest.raises(ConfigError, match="up to 10"):
        provider.open(Program(Seq(11), Mode.LIVE))


def test_time_range_is_half_open(log: Log, provider: LogProvider) -> None:
    put(log, lines(b"a", b"b", b"c", ts_ms=[10, 20, 30]), lines(b"d", ts_ms=40))
    assert [record[2] for record in drain(provider.open(Program(TimeRange(20, 40))))] == [b"b", b"c"]
    assert drain(provider.open(Program(TimeRange(41, 90)))) == []
    assert len(drain(provider.open(Program(TimeRange(0, 90))))) == 4


def test_last_is_the_newest_record(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 5), numbered(5, 5))
    assert [record[2] for record in drain(provider.open(Program(Last())))] == [b"r9"]


@pytest.mark.parametrize("view", [OffsetRange(0, 1), TimeRange(0, 1), Last()])
def test_bounded_views_are_no_live_scans(log: Log, provider: LogProvider, view: Last) -> None:
    put(log, numbered(0, 5))
    with pytest.raises(ConfigError, match="snapshot"):
        provider.open(Program(view, Mode.LIVE))


def test_gap_is_passed_over_and_is_not_missed(log: Log, provider: LogProvider) -> None:
    put(log, numbered(0, 2))
    log.skip_to(50)
    put(log, numbered(50, 2))
    cursor = TaskCursor(SourceTask("t", provider), LIVE)
    assert [record[0] for record in drain(cursor, Step(limit=10))] == [0, 1, 50, 51]
    assert cursor.missed == 0
