"""The conformance suite of logs, run by every storage that has one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.contracts.storage import Log
from gauss.model.errors import Collected
from helpers.logs import arrow, data, flatten, lines, numbered, open_log, put, records

STORAGES: list[tuple[str, dict[str, Any]]] = [
    ("memory", {}),
    ("file", {}),
    ("file", {"framing": "newline", "segment_bytes": 4096}),
    ("file", {"framing": "newline", "delimiter": "||"}),
    ("file", {"prefix_type": "varint", "segment_bytes": 4096}),
    ("file", {"prefix_type": "u16be"}),
    ("file", {"segment_bytes": 4096, "partition_by": "date", "fsync": "never"}),
    ("file", {"file_format": "arrow_ipc_file", "roll_rows": 3}),
]
KAFKA: list[dict[str, Any]] = [{"partitions": 1}, {"partitions": 3}]


def _name(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *map(str, case[1].values())])


@pytest.fixture(
    params=[
        *(pytest.param(case, id=_name(case)) for case in STORAGES),
        *(pytest.param(("kafka", each), id=_name(("kafka", each)), marks=pytest.mark.system) for each in KAFKA),
    ]
)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    storage, config = request.param
    if storage == "kafka":
        # Without a limit of age: these records are from 1970.
        config = {**config, **request.getfixturevalue("kafka").topic(), "topic_config": {"retention.ms": "-1"}}
    opened = open_log(storage, tmp_path, config)
    yield opened
    opened.close()


def test_empty_log_has_nothing(log: Log) -> None:
    assert (log.floor, log.end, log.last_ts()) == (0, 0, 0)
    assert log.chunks(0, 10, 100) == []
    assert log.offset_at(5) == 0


def test_appended_records_come_back_in_order_with_times(log: Log) -> None:
    put(log, lines(b"a", b"", b"ccc", ts_ms=5), arrow(b"d", b"e", ts_ms=[6, 9]), lines(b"f", ts_ms=9))
    assert records(log) == [(0, 5, b"a"), (1, 5, b""), (2, 5, b"ccc"), (3, 6, b"d"), (4, 9, b"e"), (5, 9, b"f")]
    assert log.last_ts() == 9


def test_staged_records_are_invisible_until_reveal(log: Log) -> None:
    put(log, lines(b"a"))
    log.append(lines(b"b"), 3)
    assert (log.end, data(log)) == (1, [b"a"])
    log.reveal()
    assert (log.end, data(log)) == (2, [b"a", b"b"])


def test_rollback_forgets_staged_records_and_their_bytes(log: Log) -> None:
    put(log, lines(b"a", ts_ms=1))
    held = log.bytes_from(0)
    for number in range(50):
        log.append(numbered(number * 40, 40, ts_ms=100 + number), 4)
    log.rollback()
    assert (log.end, log.last_ts(), log.bytes_from(0)) == (1, 1, held)
    put(log, lines(b"b", ts_ms=2))
    assert records(log) == [(0, 1, b"a"), (1, 2, b"b")]


def test_range_is_cut_inside_chunks(log: Log) -> None:
    put(log, numbered(0, 10), numbered(10, 10), numbered(20, 10))
    for start in range(30):
        for stop in (start + 1, start + 7, 30):
            found = flatten(log.chunks(start, min(stop, 30), 1 << 20))
            assert [record[0] for record in found] == list(range(start, min(stop, 30)))


def test_small_chunks_are_read_as_few(log: Log) -> None:
    for number in range(300):
        put(log, numbered(number, 1, ts_ms=number + 1))
    assert len(log.chunks(0, 300, 1 << 20)) < 20
    assert [record[:2] for record in records(log)] == [(number, number + 1) for number in range(300)]


def test_max_bytes_bounds_a_read(log: Log) -> None:
    for number in range(100):
        put(log, lines(b"x" * 1000, ts_ms=number))
    first = log.chunks(0, 100, 10_000)
    assert 0 < sum(entry.chunk.count for entry in first) < 50


def test_offset_at_finds_the_first_record_not_older(log: Log) -> None:
    put(log, lines(b"a", b"b", ts_ms=10), lines(b"c", b"d", b"e", ts_ms=[20, 25, 30]), lines(b"f", ts_ms=30))
    wanted = {0: 0, 10: 0, 11: 2, 20: 2, 21: 3, 25: 3, 26: 4, 30: 4, 31: 6}
    assert {ts_ms: log.offset_at(ts_ms) for ts_ms in wanted} == wanted


def test_offset_at_never_passes_the_visible_end(log: Log) -> None:
    put(log, lines(b"a", ts_ms=10))
    log.append(lines(b"b", ts_ms=20), 1)
    assert log.offset_at(15) == 1


def test_reading_below_the_floor_is_collected(log: Log) -> None:
    for number in range(100):
        put(log, lines(b"x" * 200, ts_ms=number * 86_400_000))
    log.trim(60)
    assert log.floor <= 60
    if log.floor:  # otherwise one segment holds everything
        with pytest.raises(Collected):
            log.chunks(log.floor - 1, 100, 100)
    assert [record[0] for record in records(log)] == list(range(log.floor, 100))


def test_skip_to_leaves_a_gap_and_uses_no_offset_twice(log: Log, request: pytest.FixtureRequest) -> None:
    put(log, lines(b"a"))
    log.skip_to(10)
    if "kafka" in request.node.name:
        assert log.end == 1, "Kafka gives the offsets"
        return
    assert log.end == 10
    put(log, lines(b"b", ts_ms=2))
    assert records(log) == [(0, 1, b"a"), (10, 2, b"b")]
    assert flatten(log.chunks(5, 11, 100)) == [(10, 2, b"b")]
    assert log.chunks(5, 9, 100) == []


def test_bytes_from_falls_as_the_offset_rises(log: Log) -> None:
    for number in range(50):
        put(log, lines(b"x" * 5000, ts_ms=number))
    held = [log.bytes_from(offset) for offset in range(51)]
    assert held == sorted(held, reverse=True)
    assert held[50] == 0
    assert held[0] >= 250_000
    assert log.bytes_from(log.offset_within(100_000)) <= 100_000 or log.floor == 0


def test_readers_beside_a_writer_never_see_torn_records(log: Log) -> None:
    total, failures = 6_000, []
    done = threading.Event()

    def read() -> None:
        position = 0
        while position < total:
            try:
                found = flatten(log.chunks(position, total, 20_000))
            except Collected:
                position = max(position, log.floor)
                continue
            for offset, _, record in found:
                if offset < position or record != b"r%d" % offset:
                    failures.append((position, offset, record))
                    return
                position = offset + 1
            if not found:
                if done.is_set() and position >= log.end:
                    return
                time.sleep(0.0005)  # busy-waiting readers would starve the writer

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    written = 0
    while written < total:
        count = min(1 + written % 97, total - written)
        log.append(numbered(written, count, ts_ms=written))
        if written % 5 == 0:
            log.rollback()
            continue_with = numbered(written, count, ts_ms=written)
            log.append(continue_with)
        log.reveal()
        written += count
        if written % 3 == 0:
            log.trim(max(0, written - 2_000))
    done.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failures == []
