"""Push sinks: no uncommitted record is lost, and only what the contract allows is repeated."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.config.check import check_or_raise
from gauss.config.listeners import addresses
from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import EdgeStatus
from gauss.contracts.letter import Letter
from gauss.contracts.outside import PushBatch, PushContext
from gauss.model.errors import StorageError
from gauss.stream.engine.edges.push_sinks import push_sink
from gauss.stream.engine.observe.status import processor_row
from gauss.stream.engine.runtime import Engine
from gauss.stream.graph import build_graph
from gauss.stream.guarantee import guarantees
from helpers import outside_plugins
from helpers.engine_process import QuickEngine, prepare
from helpers.waiting import wait_until

TOPICS = ["even", "odd"]
UNTIL = 6_000
KILLS = 8
AT_ONCE = 50


def config(folder: Path, until: int = 0, storage: str = "file", undo: bool = True, **storage_config: Any) -> Any:
    here = outside_plugins.HERE
    sink = {"topics": TOPICS, "path": str(folder / "file"), "at_once": AT_ONCE, "undo": undo}
    processors = [{"name": "out", "plugin": f"{here}:FILE_SINK", "config": sink}]
    if until:
        source = {"topics": TOPICS, "until": until}
        processors.append({"name": "count", "plugin": f"{here}:COUNT_SOURCE", "config": source})
    return {
        "topics": [{"name": name, "storage": storage, "storage_config": storage_config} for name in TOPICS],
        "processors": processors,
    }


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def open_(**options: Any) -> Engine:
        for each in made:
            each.close()
        prepare(tmp_path, config(tmp_path, **options))
        made.append(Engine(tmp_path))
        made[-1].open()
        return made[-1]

    yield open_
    for each in made:
        each.close()


@pytest.fixture
def context_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], PushContext]:
    """The context that the engine gives the sink."""
    given: list[PushContext] = []
    monkeypatch.setattr(outside_plugins, "FileSink", given.append)

    def context(engine: Engine) -> PushContext:
        push_sink(engine, engine.graph.processors["out"], EdgeStatus())
        return given[-1]

    return context


def feed(engine: Engine, topic: str, *data: bytes) -> None:
    engine.topic(topic).append(Chunk(pa.array(data, pa.binary()), len(data), 5))


def records(batch: PushBatch | None) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = defaultdict(list)
    for part in batch.parts if batch is not None else ():
        found[part.topic] += part.chunk.data().to_pylist()
    return dict(found)


def taken(batch: PushBatch | None) -> PushBatch:
    assert batch is not None
    return batch


def test_committed_positions_and_state_are_found_by_the_next_engine(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext]
) -> None:
    engine = opened()
    context = context_of(engine)
    assert context.state is None
    feed(engine, "even", b"0", b"2")
    feed(engine, "odd", b"1")
    first = taken(context.input.next())
    assert (records(first), first.ends) == ({"even": [b"0", b"2"], "odd": [b"1"]}, {"even": 2, "odd": 1})
    state = {"transaction": 7, "partitions": {"0": [1, None]}}
    context.input.commit(first, state)
    feed(engine, "odd", b"3")
    assert records(context.input.next()) == {"odd": [b"3"]}  # sent, but never committed
    again, generation = opened(), context.generation
    context = context_of(again)
    assert context.state == state
    assert context.generation > generation
    assert records(context.input.next()) == {"odd": [b"3"]}


def test_uncommitted_records_are_kept_in_a_full_topic_until_they_are_committed(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext]
) -> None:
    engine = opened(storage="memory", storage_size=2, write_full="block")
    context = context_of(engine)
    feed(engine, "even", b"0", b"2")
    batch = taken(context.input.next())
    cancel = threading.Event()
    threading.Timer(0.1, cancel.set).start()
    assert not engine.topic("even").wait_room(cancel)
    context.input.commit(batch, None)
    assert engine.topic("even").wait_room(threading.Event(), 5.0)


def test_rewind_gives_the_uncommitted_records_again_and_voids_earlier_batches(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext]
) -> None:
    engine = opened()
    context = context_of(engine)
    feed(engine, "even", b"0", b"2", b"4")
    context.input.commit(taken(context.input.next(limit=1)), "first")
    void = taken(context.input.next(limit=1))
    context.input.rewind()
    context.input.commit(void, "second")
    assert engine.ledger.outside("out") == "first"
    assert records(context.input.next()) == {"even": [b"2", b"4"]}


def test_seek_moves_the_sink_and_a_commit_of_earlier_records_does_not_undo_it(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext]
) -> None:
    engine = opened()
    context = context_of(engine)
    feed(engine, "even", b"0", b"2", b"4")
    early = taken(context.input.next(limit=2))
    late = taken(context.input.next())
    context.input.commit(early, 1)
    engine.topic("even").seek("out", 1)
    assert records(context.input.next(limit=1)) == {"even": [b"2"]}
    context.input.commit(late, 2)
    assert engine.topic("even").readers.get("out").position == 1
    assert records(context.input.next()) == {"even": [b"4"]}


def test_commit_that_fails_moves_no_position(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened()
    context = context_of(engine)
    feed(engine, "even", b"0")
    batch = taken(context.input.next())

    def fail(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(engine.ledger, "commit", fail)
        with pytest.raises(StorageError):
            context.input.commit(batch, 1)
    assert engine.topic("even").readers.get("out").position == 0
    context.input.commit(batch, 2)
    assert (engine.topic("even").readers.get("out").position, engine.ledger.outside("out")) == (1, 2)


def test_waiting_sink_is_woken_by_any_of_its_topics(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext]
) -> None:
    engine = opened()
    context = context_of(engine)
    assert context.input.next(wait_s=0.01) is None
    threading.Timer(0.1, feed, (engine, "odd", b"1")).start()
    assert records(context.input.next(wait_s=60)) == {"odd": [b"1"]}


def test_limit_holds_for_all_topics_together_and_none_starves(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext]
) -> None:
    engine = opened()
    context = context_of(engine)
    for topic in TOPICS:
        for number in range(3):
            feed(engine, topic, b"%d" % number)
    found = [records(context.input.next(limit=1)) for _ in range(6)]
    assert sorted(found, key=str) == sorted([{topic: [b"%d" % n]} for topic in TOPICS for n in range(3)], key=str)
    assert {next(iter(each)) for each in found[:2]} == set(TOPICS)


def test_refused_record_is_a_dead_letter_of_the_sink_and_its_lag_covers_all_topics(
    opened: Callable[..., Engine], context_of: Callable[[Engine], PushContext]
) -> None:
    engine = opened()
    engine.edges["out"] = engine._edge(engine.graph.processors["out"])
    context = context_of(engine)
    feed(engine, "odd", b"1", b"3")
    assert [row["position"] for row in engine.progress.readers(engine.topic("odd"))] == [0]
    assert processor_row(engine, engine.graph.processors["out"])["behind"] == 2
    context.dead(Letter("refused", "", "store", "", b"1", "odd", engine.topic("odd").inc, 0))
    assert [group["processor"] for group in engine.dead.groups()] == ["out"]


def test_check_accepts_a_source_and_a_sink_without_a_transport(tmp_path: Path) -> None:
    here, topics = outside_plugins.HERE, "".join(f'[[topics]]\nname = "{name}"\nstorage = "file"\n' for name in TOPICS)
    (tmp_path / "gauss.toml").write_text(
        f'''{topics}
[[processors]]
name = "count"
plugin = "{here}:COUNT_SOURCE"
config = {{ topics = ["even", "odd"], until = 5 }}
[[processors]]
name = "out"
plugin = "{here}:FILE_SINK"
config = {{ topics = ["even", "odd"], path = "file" }}
'''
    )
    pipeline, _ = check_or_raise(tmp_path / "gauss.toml")
    assert [address.who for address in addresses(pipeline)] == ["[engine]", "[api]"]
    assert not build_graph(pipeline).servers


def test_guarantee_of_a_sink_is_what_its_plugin_says(opened: Callable[..., Engine]) -> None:
    exact, repeating = (guarantees(build_graph(opened(undo=undo).pipeline)) for undo in (True, False))
    assert [str(each) for each in exact] == ["exactly once"]
    assert [str(each) for each in repeating] == ["at least once: after a crash the last lines may come again"]


def killed_run(folder: Path, undo: bool) -> dict[str, list[int]]:
    """The offsets of each topic in the order of the file after many kills."""
    engine = QuickEngine(folder, config(folder, UNTIL, undo=undo))
    choice = random.Random(7)
    path = folder / "file"

    def offsets() -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        for line in whole.splitlines():
            topic, offset, data = line.decode().split(" ")
            assert int(data) == int(offset) * 2 + TOPICS.index(topic)
            found[topic].append(int(offset))
        return found

    try:
        engine.start()
        for _ in range(KILLS):
            size = path.stat().st_size if path.exists() else 0
            wait_until(lambda before=size: path.exists() and path.stat().st_size > before)  # type: ignore[misc]
            time.sleep(choice.uniform(0.0, 0.03))
            engine.kill()
            engine.start()
        wait_until(lambda: all(set(offsets()[topic]) >= set(range(UNTIL // 2)) for topic in TOPICS), 60)
        return offsets()
    finally:
        engine.close()


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets an engine process import the plugins of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(outside_plugins.__file__).parent.parent))


@pytest.mark.fault
@pytest.mark.usefixtures("importable")
def test_killed_sink_that_undoes_what_it_did_not_commit_writes_every_record_once(tmp_path: Path) -> None:
    found = killed_run(tmp_path, undo=True)
    assert found == {topic: list(range(UNTIL // 2)) for topic in TOPICS}


@pytest.mark.fault
@pytest.mark.usefixtures("importable")
def test_killed_sink_loses_nothing_and_repeats_at_most_one_batch_per_kill(tmp_path: Path) -> None:
    found = killed_run(tmp_path, undo=False)
    repeated = 0
    for offsets in found.values():
        assert offsets[0] == 0
        for before, after in pairwise(offsets):
            assert after <= before + 1, "records were skipped"
            repeated += before + 1 - after
    assert repeated <= KILLS * AT_ONCE
