"""Pull sources: records of several topics and a structured position are committed together or not at all."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import EdgeStatus
from gauss.contracts.outside import PullContext
from gauss.model.errors import ProtocolError, StorageError, Unavailable
from gauss.stream.engine.edges.pull_sources import pull_source
from gauss.stream.engine.journal.entries import Pulled
from gauss.stream.engine.runtime import Engine
from gauss.stream.engine.topics.log_topic import LogTopic
from helpers import outside_plugins
from helpers.engine_process import QuickEngine, prepare
from helpers.kafka import NOW, SecuredBroker
from helpers.waiting import wait_until

TOPICS = ["even", "odd"]
UNTIL = 20_000


def config(until: int = 0, storage: str = "file", **storage_config: Any) -> dict[str, Any]:
    return {
        "topics": [{"name": name, "storage": storage, "storage_config": storage_config} for name in TOPICS],
        "processors": [
            {
                "name": "count",
                "plugin": f"{outside_plugins.HERE}:COUNT_SOURCE",
                "config": {"topics": TOPICS, "until": until},
            }
        ],
    }


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def open_(**storage: Any) -> Engine:
        for each in made:
            each.close()
        prepare(tmp_path, config(**storage))
        made.append(Engine(tmp_path))
        made[-1].open()
        return made[-1]

    yield open_
    for each in made:
        each.close()


def context_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> PullContext:
    """The context that the engine gives the source."""
    given: list[PullContext] = []
    monkeypatch.setattr(outside_plugins, "CountSource", given.append)
    pull_source(engine, engine.graph.processors["count"], EdgeStatus())
    return given[0]


def chunk(*data: bytes) -> Chunk:
    return Chunk(pa.array(data, pa.binary()), len(data), 5)


def test_publish_to_several_topics_commits_records_and_structured_position(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened()
    context = context_of(engine, monkeypatch)
    assert (context.topics, context.position) == (("even", "odd"), None)
    position = {"slot": "s", "lsn": [1, 2**40], "partitions": {"0": None, "1": 2.5}}
    context.publish({"even": chunk(b"0", b"2"), "odd": chunk(b"1")}, position, threading.Event())
    assert [engine.topic(name).version() for name in TOPICS] == [2, 1]
    again = opened()
    assert context_of(again, monkeypatch).position == position
    assert [again.topic(name).version() for name in TOPICS] == [2, 1]


def test_publish_without_records_commits_the_position_alone(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    context_of(opened(), monkeypatch).publish({}, ["done", 1], threading.Event())
    engine = opened()
    assert context_of(engine, monkeypatch).position == ["done", 1]
    assert engine.topic("even").version() == 0


def test_publish_that_fails_changes_no_topic_and_no_position(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened()
    context = context_of(engine, monkeypatch)
    context.publish({"even": chunk(b"0")}, 1, threading.Event())

    def fail(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(engine.ledger, "commit", fail)
        with pytest.raises(StorageError):
            context.publish({"even": chunk(b"2"), "odd": chunk(b"1")}, 2, threading.Event())
    assert [engine.topic(name).version() for name in TOPICS] == [1, 0]
    context.publish({"odd": chunk(b"1")}, 3, threading.Event())
    again = opened()
    assert context_of(again, monkeypatch).position == 3
    assert [again.topic(name).version() for name in TOPICS] == [1, 1]


def test_publish_to_a_topic_of_somebody_else_is_refused(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(opened(), monkeypatch)
    with pytest.raises(ProtocolError, match='source "count" publishes to _dead, expected even, odd'):
        context.publish({"_dead": chunk(b"x")}, 1, threading.Event())


def test_publish_that_waits_for_room_ends_when_it_is_cancelled(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(storage="memory", storage_size=1, write_full="block")
    engine.topic("odd").reader("slow", "earliest", keep=False)
    context = context_of(engine, monkeypatch)
    context.publish({"odd": chunk(b"1")}, 1, threading.Event())
    cancel = threading.Event()
    threading.Timer(0.1, cancel.set).start()
    with pytest.raises(Unavailable, match='waits for space in topic "odd"'):
        context.publish({"even": chunk(b"2"), "odd": chunk(b"3")}, 2, cancel)
    assert engine.topic("even").version() == 0
    assert engine.ledger.outside("count") == 1


def kafka_config(topic: dict[str, Any], until: int = 0) -> dict[str, Any]:
    plugin = f"{outside_plugins.HERE}:COUNT_SOURCE"
    return {
        "topics": [{"name": "even", "storage": "kafka", "storage_config": topic}],
        "processors": [{"name": "count", "plugin": plugin, "config": {"topics": ["even"], "until": until}}],
    }


def test_position_of_a_transaction_that_the_journal_has_not_is_found_by_the_next_engine(
    tmp_path: Path, kafka: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"max.message.bytes": "20000"}
    config = kafka_config(kafka.topic(partitions=1, compression="none", topic_config=limit))
    cancel = threading.Event()

    def commit(_: Any, entry: Any, **__: Any) -> None:
        if isinstance(entry, Pulled):
            raise StorageError("the engine dies here")

    def context(engine: Engine) -> PullContext:
        return context_of(engine, monkeypatch)

    def chunk(*data: bytes) -> Chunk:
        return Chunk(pa.array(data, pa.binary()), len(data), NOW)

    with opened_here(tmp_path, config) as engine:
        first = context(engine)
        assert first.position is None
        first.publish({"even": chunk(b"0", b"1")}, 2, cancel)
        with monkeypatch.context() as dying:
            dying.setattr(type(engine.ledger), "commit", commit)
            with pytest.raises(StorageError):
                first.publish({"even": chunk(b"2")}, [3], cancel)
        assert engine.ledger.outside("count") == 2
    with opened_here(tmp_path, config) as engine:
        second = context(engine)
        assert (second.position, engine.ledger.outside("count")) == ([3], [3])
        second.publish({}, [4], cancel)
    with opened_here(tmp_path, config) as engine:
        third = context(engine)
        assert third.position == [4]
        third.publish({"even": chunk(b"4", b"x" * 30_000, b"5")}, [5], cancel)
        topic = cast(LogTopic, engine.topic("even"))

        def data() -> list[bytes]:
            found = topic.log.chunks(0, topic.log.end, 1 << 20)
            return [bytes(each) for at in found for each in at.chunk.data().to_pylist()]

        wait_until(lambda: data() == [b"0", b"1", b"2", b"4", b"5"], what=data)
        [letters] = engine.dead.groups()
        assert (letters["reason"], letters["processor"], letters["count"]) == ("too_large", "count", 1)
        assert topic.counters.records_in == 2, "without the one that is too large"


@contextmanager
def opened_here(folder: Path, config: dict[str, Any]) -> Iterator[Engine]:
    prepare(folder, config)
    engine = Engine(folder)
    engine.open()
    try:
        yield engine
    finally:
        engine.close()


@pytest.mark.fault
def test_killed_source_writes_each_record_once_into_kafka(
    tmp_path: Path, kafka: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(outside_plugins.__file__).parent.parent))
    until = 3_000
    engine = QuickEngine(tmp_path, kafka_config(kafka.topic(partitions=1), until))
    choice = random.Random(6)
    try:
        engine.start()
        for _ in range(6):
            time.sleep(choice.uniform(0.3, 1.0))
            engine.kill()
            engine.start()

        def data() -> list[int]:
            return [int(each) for batch in engine.client.scan("even") for each in batch.column("data").to_pylist()]

        wait_until(lambda: len(data()) >= until, 60, lambda: len(data()))
        assert data() == list(range(until))
    finally:
        engine.close()


@pytest.mark.fault
def test_killed_source_repeats_and_loses_nothing_in_any_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(outside_plugins.__file__).parent.parent))
    engine = QuickEngine(tmp_path, config(UNTIL))
    choice = random.Random(5)
    try:
        engine.start()
        for _ in range(8):
            time.sleep(choice.uniform(0.0, 0.15))
            engine.kill()
            engine.start()

        def data(topic: str) -> list[int]:
            return [int(each) for batch in engine.client.scan(topic) for each in batch.column("data").to_pylist()]

        wait_until(lambda: sum(len(data(topic)) for topic in TOPICS) >= UNTIL, 60)
        assert data("even") == list(range(0, UNTIL, 2))
        assert data("odd") == list(range(1, UNTIL, 2))
    finally:
        engine.close()
