"""Dead letters are limited in bytes per processor: a processor at its limit waits or stops without affecting others,
and `discard` frees space."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gauss.clients.engine.client import EngineClient
from gauss.contracts.letter import Letter
from gauss.stream.engine.delivery import dead_letters as dead
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import prepare
from helpers.feeds import connect
from helpers.logs import lines
from helpers.waiting import wait_until

ROOM = 5_000
LONG = b"x" * 901
CONFIG: dict[str, Any] = {
    "topics": [{"name": name, "storage": "file"} for name in ("in", "out", "other")],
    "processors": [
        {
            "name": "feed",
            "plugin": "tcp-source",
            "target": {"topic": "other"},
            "config": {"port": 0, "input": {"framing": "newline", "delimiter": "\n"}, "max_record_bytes": 500},
            "max_dead_bytes": ROOM,
        },
        {
            "name": "cut",
            "plugin": "reframe",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "out"},
            "config": {"output": {"framing": "fixed_size", "frame_size": 4}},
            "max_dead_bytes": ROOM,
        },
    ],
}


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Engine]]:
    monkeypatch.setattr(dead, "COUNT_SECONDS", 0.0)
    prepare(tmp_path, CONFIG)
    made: list[Engine] = []

    def begin() -> Engine:
        for before in made:
            before.close()
        made.append(Engine(tmp_path))
        made[-1].open()
        made[-1].start()
        return made[-1]

    yield begin
    for each in made:
        each.close()


@pytest.fixture
def engine(start: Callable[[], Engine]) -> Engine:
    return start()


def commands(engine: Engine) -> Callable[..., dict[str, Any]]:
    client = EngineClient.from_file(engine.paths.flight_json, wait_s=10)
    return lambda command, **args: client.command(command, args)


def letters(engine: Engine, processor: str = "") -> list[bytes]:
    found = commands(engine)("dlq.show", limit=1000, processor=processor)["letters"]
    return [base64.b64decode(letter["data"]) for letter in reversed(found)]


def shown(engine: Engine, name: str) -> dict[str, Any]:
    rows = commands(engine)("processors.ls")["processors"]
    found: dict[str, Any] = next(row for row in rows if row["name"] == name)
    return found


def port(engine: Engine) -> int:
    wait_until(lambda: bool(shown(engine, "feed")["address"]))
    return int(shown(engine, "feed")["address"].rpartition(":")[2])


def test_transform_with_too_many_bytes_of_letters_stops_and_goes_on_once_they_are_discarded(engine: Engine) -> None:
    ask, topic = commands(engine), engine.topic("in")
    for _ in range(10):  # at most one epoch each: the letters of one epoch are kept whole
        topic.append(lines(*[b"bad"] * 3, *[b"good"] * 3))
        wait_until(lambda: shown(engine, "cut")["behind"] == 0 or shown(engine, "cut")["state"] == "stopped")
    row = shown(engine, "cut")
    assert row["state"] == "stopped"
    assert "max_dead_bytes" in row["detail"] and "gauss dlq discard --processor cut" in row["detail"]
    assert any("max_dead_bytes" in reason for reason in ask("health")["reasons"])

    assert ask("dlq.discard", processor="cut")["discarded"] == row["dead"]
    assert ask("dlq.ls")["total"] == 0
    ask("processors.retry", name="cut")
    wait_until(lambda: shown(engine, "cut")["behind"] == 0)
    assert engine.topic("out").version() == 30


def test_connection_that_sends_what_cannot_be_framed_waits_alone(engine: Engine) -> None:
    ask, other = commands(engine), engine.topic("other")
    waiting = []
    for _ in range(8):  # a line that is too long ends its connection
        waiting.append(connect(port(engine)))
        waiting[-1].sendall(LONG + b"\n")
    wait_until(lambda: engine.dead.waiting["feed"] > 0)
    assert "max_dead_bytes" in shown(engine, "feed")["detail"]
    assert any("source feed waits" in reason for reason in ask("health")["reasons"])
    with connect(port(engine)) as good:
        good.sendall(b"one\ntwo\n")
        wait_until(lambda: other.version() == 2)

    kept = len(letters(engine))
    assert 0 < kept < 8
    assert ask("dlq.discard", processor="feed")["discarded"] == kept
    wait_until(lambda: len(letters(engine)) == 8 - kept)
    assert not engine.dead.waiting["feed"]
    assert not ask("health")["reasons"]
    for each in waiting:
        each.close()


def test_letter_that_waits_at_a_stop_is_kept(start: Callable[[], Engine]) -> None:
    engine = start()
    sockets = [connect(port(engine)) for _ in range(8)]
    for each in sockets:
        each.sendall(LONG + b"\n")
    wait_until(lambda: len(letters(engine)) + engine.dead.waiting["feed"] == 8)
    assert len(letters(start())) == 8
    for each in sockets:
        each.close()


def held(engine: Engine) -> int:
    return int(next(row["bytes"] for row in commands(engine)("topics")["topics"] if row["name"] == "_dead"))


def write(engine: Engine, processor: str, *data: bytes) -> None:
    for number, each in enumerate(data):
        engine.dead.write(
            Letter("bad", "", "decode", processor, each, "in", engine.topic("in").inc, number, 50), engine.stopping
        )


def test_letters_that_name_several_writers_are_bounded_too(engine: Engine) -> None:
    count = 0
    while not (full := engine.dead.full("cut, feed")):
        write(engine, "cut, feed", b"unfit")
        count += 1
    assert 0 < count < ROOM // 100
    assert "max_dead_bytes" in full
    assert not engine.dead.full("cut")


def test_discard_removes_what_was_named_and_keeps_the_rest_in_order(start: Callable[[], Engine]) -> None:
    engine = start()
    ask = commands(engine)
    write(engine, "a", b"1", b"2", b"3")
    write(engine, "b", b"4")
    before = held(engine)
    second = ask("dlq.show", processor="a", limit=2)["letters"][1]["dead_offset"]
    assert ask("dlq.discard", offsets=[second])["discarded"] == 1
    assert letters(engine) == [b"1", b"3", b"4"]
    assert ask("dlq.discard", reason="bad", processor="a")["discarded"] == 2
    assert ask("dlq.discard", reason="unknown")["discarded"] == 0
    assert letters(engine) == [b"4"]
    assert held(engine) < before
    assert letters(start()) == [b"4"]


def test_discard_of_several_choices_takes_none_that_came_later(engine: Engine) -> None:
    ask = commands(engine)
    write(engine, "a", b"1", b"2")
    write(engine, "b", b"3", b"4")
    shown = ask("dlq.show", limit=4)["letters"]
    write(engine, "a", b"5")
    one = {"offsets": [shown[0]["dead_offset"]]}
    group = {"processor": "a", "before": shown[2]["dead_offset"] + 1}
    assert ask("dlq.discard", any=[one, group])["discarded"] == 3
    assert letters(engine) == [b"3", b"5"]
    assert ask("dlq.discard", any=[one, group])["discarded"] == 0, "numbers are not used again"


def numbers(engine: Engine, **choice: Any) -> list[int]:
    return [each["dead_offset"] for each in commands(engine)("dlq.show", limit=1000, **choice)["letters"]][::-1]


def test_numbers_of_letters_stay_when_others_are_discarded(start: Callable[[], Engine]) -> None:
    engine = start()
    ask = commands(engine)
    write(engine, "a", b"1", b"2", b"3", b"4")
    first, second, third, fourth = numbers(engine)
    assert ask("dlq.discard", processor="a", offsets=[first])["discarded"] == 1
    write(engine, "a", b"5")
    assert numbers(engine)[:3] == [second, third, fourth] and numbers(engine)[3] > fourth
    assert ask("dlq.discard", processor="a", offsets=[third])["discarded"] == 1, "by the number that was shown first"
    engine = start()
    assert letters(engine) == [b"2", b"4", b"5"]
    assert numbers(engine)[:2] == [second, fourth]
    assert numbers(engine, before=fourth) == [second]
    assert commands(engine)("dlq.discard", processor="a", before=fourth + 1)["discarded"] == 2
    assert letters(engine) == [b"5"]
    assert commands(engine)("dlq.ls")["total"] == 1
    assert all("number" not in each for each in commands(engine)("dlq.show")["letters"])


def test_letters_are_chosen_by_stage(engine: Engine) -> None:
    ask, inc = commands(engine), engine.topic("in").inc
    for number, stage in enumerate(("decode", "encode", "encode")):
        engine.dead.write(Letter("bad", "", stage, "cut", b"good", "in", inc, number, 50), engine.stopping)
    assert len(numbers(engine, stage="encode")) == 2
    newest = numbers(engine)[-1]
    assert ask("dlq.replay", processor="cut", stage="encode", before=newest)["replayed"] == 1
    assert ask("dlq.discard", processor="cut", reason="bad", stage="encode")["discarded"] == 1
    assert [each["stage"] for each in ask("dlq.show")["letters"]] == ["decode"]


def test_engine_that_dies_behind_the_journal_entry_of_a_discard_shows_no_letter_twice(
    start: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start()
    write(engine, "a", b"1", b"2")
    write(engine, "b", b"3")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.topic("_dead"), "reveal", die)
    with pytest.raises(KeyboardInterrupt):
        engine.dead.discard(lambda _, letter: letter.processor == "a")
    again = start()
    assert letters(again) == [b"3"]
    assert commands(again)("dlq.ls")["total"] == 1


def test_replay_at_the_limit_frees_what_the_replayed_letters_took(engine: Engine) -> None:
    ask, inc, count = commands(engine), engine.topic("in").inc, 0
    engine.dead.write(Letter("worse", "", "decode", "cut", b"bad", "in", inc, ROOM, 50), engine.stopping)
    kept = numbers(engine)
    while not engine.dead.full("cut"):
        engine.dead.write(Letter("bad", "", "decode", "cut", b"good", "in", inc, count, 50), engine.stopping)
        count += 1
    assert ask("dlq.replay", processor="cut", reason="bad")["replayed"] == count
    assert not engine.dead.full("cut")
    assert numbers(engine) == kept
    wait_until(lambda: engine.topic("out").version() == count)
    assert ask("dlq.replay", processor="cut", reason="bad")["replayed"] == 0


def test_letters_of_two_partitions_are_different_letters() -> None:
    letters = [Letter("bad", topic="in", inc=1, offset=5), Letter("bad", topic="in", inc=1, offset=5)]
    letters[1].partition = 2
    assert [dead.letter_key(letter) for letter in letters] == [("in", 1, 5), ("in/2", 1, 5)]
    assert b"partition" not in msgspec.json.encode(letters[0])
