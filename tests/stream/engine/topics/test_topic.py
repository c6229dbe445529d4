"""Topics: admission of writers, back-pressure by readers, and counters."""

from __future__ import annotations

import resource
import threading
from pathlib import Path
from typing import Any

import pytest

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Last, Mode, Output, Program, Seq, Step
from gauss.contracts.letter import Letter
from gauss.model.errors import Unavailable
from helpers.logs import NEWLINE, arrow, data, drain, lines, numbered
from helpers.topics import at_once, file_topic, memory_topic, offsets
from helpers.waiting import wait_until

LIVE = Program(Seq(), Mode.LIVE)


def test_pipe_passes_one_record_at_a_time(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 1)
    reader, cursor = topic.reader("r", "earliest", keep=False), topic.open(LIVE)
    writer = threading.Thread(target=lambda: topic.append(numbered(0, 20)))
    writer.start()
    seen: list[tuple[int, int, bytes]] = []
    while len(seen) < 20:
        topic.wait(cursor.position, 1)
        assert topic.version() - reader.position <= 1
        seen += drain(cursor)
        reader.move(cursor.position)
    writer.join(60)
    assert [record[2] for record in seen] == [b"r%d" % number for number in range(20)]


def test_buffer_drops_what_does_not_fit(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 5, "drop")
    reader = topic.reader("r", "earliest", keep=False)
    assert topic.append(numbered(0, 8)) == (5, 3, 5)
    reader.move(2)
    assert topic.append(numbered(8, 4)) == (2, 2, 7)
    assert topic.counters.dropped == 5
    assert drain(topic.open(LIVE))[-1][2] == b"r9"


def test_latest_gives_the_newest_record_only(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 1, "overwrite")
    topic.append(numbered(0, 10))
    assert [record[2] for record in drain(topic.open(Program(Last())))] == [b"r9"]
    topic.append(numbered(10, 3))
    assert [record[2] for record in drain(topic.open(Program(Last())))] == [b"r12"]


def test_without_readers_the_oldest_give_way_silently(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4)
    for number in range(10):
        assert topic.append(numbered(number, 1)).accepted == 1
    assert offsets(topic) == [6, 7, 8, 9]
    assert topic.counters.overwritten == topic.counters.dropped == 0


def test_overwrite_tells_the_reader_how_many_it_missed(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4, "overwrite")
    topic.reader("r", "earliest", keep=False)
    cursor = topic.open(LIVE)
    topic.append(numbered(0, 10))
    assert [record[0] for record in drain(cursor)] == [6, 7, 8, 9]
    assert (cursor.missed, topic.counters.missed, topic.counters.overwritten) == (6, 6, 6)


def test_append_blocks_until_the_slowest_reader_moves(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 3)
    slow, fast = topic.reader("slow", "earliest", keep=False), topic.reader("fast", "earliest", keep=False)
    results: list[Any] = []
    writer = threading.Thread(target=lambda: results.append(topic.append(numbered(0, 5))))
    writer.start()
    wait_until(lambda: topic.blocked() is not None)
    fast.move(3)
    assert topic.version() == 3
    blocked = topic.blocked()
    assert blocked is not None
    assert blocked.reader == "slow"
    assert "slow has not read for" in blocked.detail
    slow.move(2)
    writer.join(60)
    assert results == [(5, 0, 5)]
    assert topic.blocked() is None


def test_cancelled_append_gives_what_was_accepted(tmp_path: Path) -> None:
    topic, cancel = memory_topic(tmp_path, 3), threading.Event()
    topic.reader("r", "earliest", keep=False)
    cancel.set()
    assert topic.append(numbered(0, 5), cancel) == (3, 0, 3)


def test_partly_written_append_wakes_readers_at_once(tmp_path: Path) -> None:
    topic, cancel = memory_topic(tmp_path, 2), threading.Event()
    topic.reader("r", "earliest", keep=False)
    seen: list[int] = []
    waiter = threading.Thread(target=lambda: seen.append(topic.wait(0, 20)))
    waiter.start()
    writer = threading.Thread(target=lambda: topic.append(numbered(0, 5), cancel))
    writer.start()
    waiter.join(60)
    assert seen == [2]
    cancel.set()
    writer.join(60)


def test_closing_reader_frees_the_topic(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 2)
    reader = topic.reader("r", "earliest", keep=False)
    writer = threading.Thread(target=lambda: topic.append(numbered(0, 9)))
    writer.start()
    wait_until(lambda: topic.blocked() is not None)
    reader.close()
    writer.join(60)
    assert topic.version() == 9
    assert topic.floor() == 7


def test_kept_reader_holds_after_close_and_goes_on_where_it_stood(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 3)
    topic.append(numbered(0, 2))
    reader = topic.reader("r", "earliest", keep=True)
    reader.move(1)
    reader.close()
    assert topic.append(numbered(2, 9), at_once()).accepted == 2
    assert topic.reader("r", "earliest", keep=True).position == 1
    topic.drop_reader("r")
    assert topic.append(numbered(4, 9)).accepted == 9


def test_seek_is_not_undone_by_a_client_that_does_not_know_of_it(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 10)
    topic.append(numbered(0, 5))
    reader = topic.reader("r", "earliest", keep=True)
    topic.seek("r", 2)
    reader.move(5)  # what it was sent before
    assert reader.position == 2
    assert reader.take_seek() == 2 and reader.take_seek() is None
    reader.move(5)
    assert reader.position == 5


def test_byte_limit_splits_a_chunk(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, None, "drop", size_bytes=100)
    reader = topic.reader("r", "earliest", keep=False)
    assert topic.append(lines(*[b"x" * 29] * 5)) == (3, 2, 3)
    reader.move(1)
    assert topic.append(lines(b"y" * 29, b"z" * 10)) == (1, 1, 4)


def test_record_above_the_byte_limit_passes_alone(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, None, "drop", size_bytes=100)
    reader = topic.reader("r", "earliest", keep=False)
    assert topic.append(lines(b"x" * 500, b"y")) == (1, 1, 1)
    reader.move(1)
    assert topic.append(lines(b"y")).accepted == 1


def test_bytes_are_bounded_without_readers(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, None, size_bytes=10_000)
    for number in range(200):
        topic.append(lines(b"x" * 999, ts_ms=number))
    assert len(offsets(topic)) == 10
    topic.append(lines(*[b"y" * 999] * 50))
    assert [record[2][:1] for record in drain(topic.open(Program()))] == [b"y"] * 10


def test_times_never_go_back_and_the_given_chunk_stays_as_it_is(tmp_path: Path) -> None:
    topic, other = memory_topic(tmp_path, None), memory_topic(tmp_path, None)
    shared = lines(b"b", b"c", ts_ms=[5, 12])
    topic.append(lines(b"a", ts_ms=10))
    topic.append(shared)
    topic.append(lines(b"d", ts_ms=3))
    other.append(shared)
    assert [record[1] for record in drain(topic.open(Program()))] == [10, 10, 12, 12]
    assert [record[1] for record in drain(other.open(Program()))] == [5, 12]


def test_publish_waits_for_one_record_then_takes_the_whole_epoch(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4)
    reader = topic.reader("r", "earliest", keep=False)
    topic.append(numbered(0, 4))
    assert topic.wait_room(at_once()) is False
    reader.move(1)
    assert topic.wait_room() is True
    with topic.lock:
        topic.stage_append(numbered(4, 10), 1)
        assert (topic.version(), topic.staged_end()) == (4, 14)
        topic.reveal()
        topic.trim()
    assert (topic.version(), topic.floor(), topic.stats()["overshoot"]) == (14, 1, 9)
    reader.move(14)
    assert (topic.floor(), topic.stats()["overshoot"]) == (10, 0)


def test_rolled_back_publish_leaves_no_trace(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4)
    topic.append(numbered(0, 1, ts_ms=5))
    with topic.lock:
        topic.stage_append(numbered(1, 10, ts_ms=99), 1)
        topic.rollback()
    topic.append(numbered(1, 1, ts_ms=6))
    assert [record[:2] for record in drain(topic.open(Program()))] == [(0, 5), (1, 6)]
    assert topic.counters.records_in == 2


def test_unfit_records_become_dead_letters(tmp_path: Path) -> None:
    letters: list[Letter] = []
    topic = file_topic(tmp_path, {"framing": "newline"}, dead=letters.append)
    assert topic.append(arrow(b"ok", b"has\nnewline", b"fine", ts_ms=[1, 2, 3])).accepted == 2
    assert [record[1:] for record in drain(topic.open(Program()))] == [(1, b"ok"), (3, b"fine")]
    assert [(letter.reason, letter.stage, letter.data, letter.ts_ms) for letter in letters] == [
        ("unfit", "store", b"has\nnewline", 2)
    ]


def test_memory_topic_never_looks_inside(tmp_path: Path) -> None:
    payload = bytes(range(256)) * 10
    topic = memory_topic(tmp_path, None)
    topic.append(Chunk(payload + b"\n", payload.count(b"\n") + 1, 1, NEWLINE))
    cursor = topic.open(Program(Seq(), Mode.LIVE, Output.CHUNKS))
    assert cursor.next(Step()) is Code.OK
    batch = cursor.read()[1]
    assert isinstance(batch, list)
    assert batch[0].chunk.payload == payload + b"\n"


def test_closed_topic_refuses_and_wakes_a_blocked_writer(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 2)
    topic.reader("r", "earliest", keep=False)
    writer = threading.Thread(target=lambda: topic.append(numbered(0, 9)))
    writer.start()
    wait_until(lambda: topic.blocked() is not None)
    topic.close()
    writer.join(60)
    assert not writer.is_alive()
    with pytest.raises(Unavailable):
        topic.append(numbered(0, 1))


def test_file_topic_with_max_bytes_keeps_what_a_reader_needs(tmp_path: Path) -> None:
    topic = file_topic(tmp_path, {"max_bytes": 8192, "segment_bytes": 4096, "framing": "newline"})
    reader = topic.reader("r", "earliest", keep=True)
    accepted = topic.append(lines(*[b"x" * 99] * 200), at_once()).accepted
    assert accepted == 81
    reader.move(81)
    for _ in range(20):
        topic.append(lines(*[b"x" * 99] * 10))
        reader.move(topic.version())
    assert topic.floor() > 0
    assert topic.stats()["bytes"] <= 8192  # type: ignore[operator]


def test_file_topic_overwrites_whole_segments(tmp_path: Path) -> None:
    topic = file_topic(tmp_path, {"max_bytes": 8192, "write_full": "overwrite", "framing": "newline"})
    topic.reader("r", "earliest", keep=True)
    for _ in range(50):
        assert topic.append(lines(*[b"x" * 99] * 10)).accepted == 10
    assert topic.stats()["bytes"] <= 8192  # type: ignore[operator]
    assert topic.counters.overwritten == topic.floor() > 0
    assert len(data(topic._log)) == 500 - topic.floor()


def test_blocking_file_topic_waits_while_the_disk_is_full(tmp_path: Path) -> None:
    topic = file_topic(tmp_path, {"fsync": "never"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        writer = threading.Thread(target=lambda: topic.append(lines(b"x" * 50_000)))
        writer.start()
        wait_until(lambda: topic.blocked() is not None)
        blocked = topic.blocked()
        assert blocked is not None
        assert "disk is full" in blocked.detail
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.join(60)
    assert (topic.version(), topic.blocked()) == (1, None)


def test_dropping_file_topic_counts_what_the_disk_refused(tmp_path: Path) -> None:
    topic = file_topic(tmp_path, {"fsync": "never", "write_full": "drop"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        assert topic.append(lines(b"x" * 50_000)) == (0, 1, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert topic.append(lines(b"y")).accepted == 1


def test_producers_and_readers_at_once_pass_everything_once(tmp_path: Path) -> None:
    topic, each = memory_topic(tmp_path, 50), 400
    reader, cursor = topic.reader("r", "earliest", keep=False), topic.open(LIVE)

    def produce(name: int) -> None:
        for number in range(0, each, 8):
            topic.append(lines(*[b"%d:%d" % (name, number + step) for step in range(8)]))

    producers = [threading.Thread(target=produce, args=(name,)) for name in range(4)]
    for producer in producers:
        producer.start()
    seen: list[tuple[int, int, bytes]] = []
    while len(seen) < 4 * each:
        topic.wait(cursor.position, 1)
        seen += drain(cursor)
        reader.move(cursor.position)
    assert [record[0] for record in seen] == list(range(4 * each))
    for name in range(4):
        mine = [record[2] for record in seen if record[2].startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, number) for number in range(each)]


def test_stats_count_appended_records_and_bytes(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 10)
    topic.append(numbered(0, 8))
    stats = topic.stats()
    assert (stats["records_in"], stats["bytes_in"]) == (8, 24)
