"""Readers of a topic: their start, what they hold back, and seeks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.clients.engine.positions import At
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import ConfigError, NotFound
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.readers import ReaderPosition
from helpers.logs import numbered, open_log
from helpers.topics import at_once, file_topic, memory_topic, offsets


@pytest.mark.parametrize(("start", "position"), [("earliest", 6), ("end", 10), ("resume", 6), (8, 8), (2, 6)])
def test_reader_starts_where_it_is_told(tmp_path: Path, start: str | int, position: int) -> None:
    topic = memory_topic(tmp_path, 4)
    topic.append(numbered(0, 10))
    reader = topic.reader("r", start, keep=False)
    assert (reader.position, reader.missed_records) == (position, 4 if start == 2 else 0)


@pytest.mark.parametrize("start", [11, "newest"])
def test_reader_with_an_impossible_start_is_refused(tmp_path: Path, start: str | int) -> None:
    topic = memory_topic(tmp_path, 4)
    topic.append(numbered(0, 10))
    with pytest.raises(ConfigError):
        topic.reader("r", start, keep=False)


def test_readers_of_one_name_are_told_apart(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4)
    readers = [topic.reader("c", "end", keep=False) for _ in range(4)]
    assert [reader.name for reader in readers] == ["c", "c#2", "c#3", "c#4"]
    readers[2].close()
    readers[1].close()
    readers[0].close()
    assert [topic.reader("c", "end", keep=False).name for _ in range(4)] == ["c", "c#2", "c#3", "c#5"]


def test_slowest_of_one_name_is_found_among_others(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 10)
    topic.append(numbered(0, 10))
    for name, start in (("c", 7), ("c", 5), ("d", 2), ("c-d", 1)):
        topic.reader(name, start, keep=False)
    assert [found and found.position for found in map(topic.readers.slowest, ("c", "d", "e", ""))] == [5, 2, None, 1]


def test_thousands_of_readers_come_and_go_quickly(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4)
    readers = [topic.reader("c", "end", keep=False) for _ in range(3_000)]
    assert len({reader.name for reader in readers}) == 3_000
    for reader in readers:
        reader.close()
    assert topic.readers.all() == ()


def test_stored_position_holds_from_the_start(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4, positions={"sink": ReaderPosition(7, 0)})
    assert topic.append(numbered(0, 9), at_once()).accepted == 4
    assert topic.stats()["readers"][0]["connected"] is False  # type: ignore[index]


def test_position_beyond_the_log_skips_ahead_and_counts_the_loss(tmp_path: Path) -> None:
    topic = file_topic(tmp_path, {}, positions={"sink": ReaderPosition(7, 30)}, at_least=20)
    assert (topic.version(), topic.counters.lost) == (30, 30)
    topic.append(numbered(0, 1))
    assert offsets(topic) == [30]


def test_position_of_a_dead_incarnation_starts_at_the_floor(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 4, positions={"sink": ReaderPosition(3, 500)})
    assert (topic.version(), topic.readers.get("sink").position) == (0, 0)


def test_moves_of_kept_readers_are_reported(tmp_path: Path) -> None:
    told: list[tuple[str, str, int, int]] = []
    topic = memory_topic(tmp_path, 4, on_position=lambda *args: told.append(args))
    topic.append(numbered(0, 3))
    topic.reader("k", "earliest", keep=True).move(2)
    topic.reader("other", "earliest", keep=False).move(3)
    assert told == [("t", "k", 7, 0), ("t", "k", 7, 2)]


def test_seek_moves_a_reader_and_its_owner_learns_it(tmp_path: Path) -> None:
    topic = memory_topic(tmp_path, 10)
    topic.append(numbered(0, 8))
    reader = topic.reader("r", "earliest", keep=True)
    assert reader.take_seek() is None
    assert topic.seek("r", "end") == 8
    assert (reader.take_seek(), reader.take_seek(), reader.position) == (8, None, 8)
    with pytest.raises(NotFound, match="no reader"):
        topic.seek("nobody", "end")


def test_kept_reader_of_a_memory_topic_learns_what_died_with_the_engine(tmp_path: Path) -> None:
    topic = LogTopic(
        "t",
        open_log("memory", tmp_path),
        Capacity(None, None, WriteFull.BLOCK),
        positions={"out": ReaderPosition(1, 30)},
        ended=At(1, 72),
    )
    (reader,) = topic.readers.all()
    assert (reader.position, reader.lost_on_restart) == (0, 42)
