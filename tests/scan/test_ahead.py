"""Steps that are cut of records at hand: the same batches as if each had been fetched for itself."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.contracts.cursor import Code, Cursor, Mode, Program, Seq, Step
from gauss.scan import log_cursor
from gauss.scan.log_cursor import LogProvider
from helpers.logs import arrow, lines, numbered, open_log, put


@pytest.fixture(params=["memory", "file"])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> LogProvider:
    """Chunks of many sizes and a gap."""
    log = open_log(request.param, tmp_path, {"segment_bytes": 4096} if request.param == "file" else {})
    chance, first = random.Random(7), 0
    for number in range(60):
        count = chance.choice([1, 2, 30, 100])
        records = [b"r%d" % at * chance.randint(1, 4) for at in range(first, first + count)]
        put(log, (lines if number % 3 else arrow)(*records, ts_ms=number))
        first += count
        if number == 40:
            log.skip_to(first + 25)
            first += 25
    return LogProvider(log)


def taken(cursor: Cursor, steps: list[Step]) -> list[object]:
    found: list[object] = []
    for step in steps:
        code, (_, batch) = cursor.next(step), cursor.read()
        assert batch is None or isinstance(batch, pa.RecordBatch)
        found.append((code, cursor.position, None if batch is None else batch.to_pydict()))
    return found


@pytest.mark.parametrize("mode", list(Mode))
def test_batches_are_those_of_single_fetches(
    provider: LogProvider, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    runs = [[Step(limit, size)] * 150 for limit, size in ((1, 1 << 20), (7, 4096), (20, 300), (100, 1 << 20))]
    runs.append([Step(chance.choice([1, 5, 40]), chance.choice([200, 4096, 1 << 20])) for _ in range(150)])
    program = Program(Seq(), mode)
    ahead = [taken(provider.open(program), steps) for steps in runs]
    monkeypatch.setattr(log_cursor, "look_ahead", lambda *_: None)
    assert ahead == [taken(provider.open(program), steps) for steps in runs]


def test_a_seek_lands_the_same_within_what_is_at_hand_and_outside(provider: LogProvider) -> None:
    cursor = provider.open(Program())
    assert isinstance(cursor, log_cursor.LogCursor)
    for _ in range(3):
        assert cursor.next(Step(2)) is Code.UNSET
    for place in (3, 500, 4, 0):
        assert cursor.seek(place)
        assert cursor.next(Step(2)) is Code.UNSET
        batch = cursor.read()[1]
        assert batch is not None
        assert batch == next(iter(_batches(provider, place)))


def _batches(provider: LogProvider, place: int) -> list[object]:
    fresh = provider.open(Program(Seq(place)))
    assert fresh.next(Step(2)) is Code.UNSET
    return [fresh.read()[1]]


def test_records_at_hand_that_are_collected_are_not_given(tmp_path: Path) -> None:
    log = open_log("memory", tmp_path)
    put(log, *(numbered(first, 100) for first in range(0, 1_000, 100)))
    cursor = LogProvider(log).open(Program())
    for _ in range(3):
        assert cursor.next(Step(10)) is Code.UNSET
    log.trim(500)
    assert cursor.next(Step(10)) is Code.REJECTED
    assert cursor.read() == (Code.REJECTED, None)
