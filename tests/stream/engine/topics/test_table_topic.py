"""Table topics: epochs become visible whole and once, and requests by offset are rejected with the reason."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from gauss.contracts.cursor import Mode, Program
from gauss.contracts.edge import Appended
from gauss.contracts.letter import Letter
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import ConfigError, Unavailable
from gauss.plugins.storages.memory.table import KEY_BYTES
from gauss.stream.engine.topics.table_topic import TableTopic
from helpers.logs import arrow, lines
from helpers.tables import open_table, record, rows


def make(dead: list[Letter] | None = None, **config: Any) -> TableTopic:
    letters: list[Letter] = [] if dead is None else dead
    capacity = Capacity(config.get("storage_size"), 1 << 20, WriteFull(config.get("write_full", "drop")))
    return TableTopic("t", open_table(**config), capacity, dead=letters.append)


def keys(topic: TableTopic) -> list[str]:
    return [row["key"] for row in rows(topic.open(Program()))]


def test_append_shows_what_has_a_key_and_buries_the_rest() -> None:
    dead: list[Letter] = []
    topic = make(dead)
    assert topic.append(lines(record("b"), b"junk", record("a"))) == Appended(2, 0, 2)
    assert keys(topic) == ["a", "b"]
    assert [(letter.reason, letter.data, letter.topic) for letter in dead] == [("bad_json", b"junk", "t")]
    assert topic.counters.records_in == 2


def test_chunk_without_any_key_leaves_the_version() -> None:
    topic = make()
    assert topic.append(lines(b"{}")) == Appended(0, 0, 0)
    assert topic.version() == 0


def test_epoch_is_visible_whole_after_reveal_and_never_after_rollback() -> None:
    topic = make()
    for chunk in (arrow(record("a"), record("b")), arrow(record("a", 2), record("c"))):
        fit, _ = topic.fit(chunk)
        assert fit is not None
        topic.stage_append(fit, 1)
    assert (topic.staged_end(), topic.version(), keys(topic)) == (4, 0, [])
    topic.rollback()
    assert (topic.staged_end(), topic.version(), topic.counters.records_in) == (0, 0, 0)
    fit, _ = topic.fit(arrow(record("z")))
    assert fit is not None
    topic.stage_append(fit, 1)
    topic.reveal()
    assert (topic.version(), keys(topic)) == (1, ["z"])


def test_full_table_counts_what_it_refuses() -> None:
    topic = make(storage_size=1)
    assert topic.append(arrow(record("a"), record("b"), record("a", 2))) == Appended(2, 1, 2)
    assert (topic.counters.dropped, topic.fill(), topic.blocked()) == (1, 1.0, None)
    assert topic.wait_room()


def test_overwriting_table_counts_the_keys_that_gave_way() -> None:
    topic = make(storage_size=1, write_full="overwrite")
    topic.append(arrow(record("a"), record("b")))
    assert (keys(topic), topic.version(), topic.counters.overwritten) == (["b"], 3, 1)


def test_stats_count_keys_and_their_bytes() -> None:
    topic = make()
    topic.append(arrow(record("a"), record("a"), record("b"), ts_ms=77))
    stats = topic.stats()
    assert {name: stats[name] for name in ("records", "end", "floor", "records_in", "readers", "blocked_by")} == {
        "records": 2,
        "end": 3,
        "floor": 3,
        "records_in": 3,
        "readers": [],
        "blocked_by": "",
    }
    assert stats["bytes"] == topic.bytes_from(0) == 2 * (KEY_BYTES + 2 + len(record("a")))
    assert topic.last_ts() == 77


def test_who_asks_for_offsets_is_told_that_there_are_none() -> None:
    topic = make()
    asks: list[Callable[[], object]] = [
        lambda: topic.reader("r", "earliest", keep=False),
        lambda: topic.seek("r", 0),
        lambda: topic.offset_at(0),
    ]
    for ask in asks:
        with pytest.raises(ConfigError, match="newest record of each key"):
            ask()


def test_waiter_wakes_when_the_table_changes() -> None:
    topic = make()
    woken: list[int] = []
    waiting = threading.Thread(target=lambda: woken.append(topic.wait(0, 30)))
    waiting.start()
    topic.append(arrow(record("a")))
    waiting.join(30)
    assert woken == [1]


def test_closed_table_refuses_appends_and_ends_its_cursors() -> None:
    topic = make()
    topic.append(arrow(record("a")))
    live = topic.open(Program(mode=Mode.LIVE))
    topic.close()
    with pytest.raises(Unavailable):
        topic.append(arrow(record("b")))
    assert rows(live) == []
