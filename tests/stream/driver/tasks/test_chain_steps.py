"""Chains in standing tasks against a real engine, without a JVM, give the same results as their steps in tasks of their
own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.engine.driver_messages import DriverSync
from gauss.config.spec import Pipeline
from gauss.model.errors import Fenced, ProtocolError
from gauss.stream.driver.planning.chains import find_chains
from gauss.stream.driver.tasks import locations, outbox, reading
from gauss.stream.graph import build_graph
from helpers.engine_process import EngineProcess
from helpers.keyed_records import headers_of, key_of, keyed_batch
from helpers.standing import HostedTask, send

FORMATS = [
    {
        "name": "quote",
        "plugin": "json",
        "config": {
            "fields": [
                {"name": "s", "type": "string"},
                {"name": "n", "type": "int64"},
                {"name": "d", "type": "double"},
                {"name": "small", "type": "uint8"},
            ]
        },
    },
    {
        "name": "made",
        "plugin": "json",
        "config": {
            "fields": [{"name": "n", "type": "int64"}, {"name": "q", "type": "double"}, {"name": "s", "type": "string"}]
        },
    },
]
DERIVE = "{n, q: .d * 2, s, at: .ts_ms}"
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("filter", {"input": {"format": "quote"}, "where": ".n != 3"}),
    ("filter", {"input": {"format": "quote"}, "where": '.s != "no" or .small > 1'}),
    (
        "expression",
        {"input": {"format": "quote"}, "program": "{n, q: .d * 2, s, at: .ts_ms}", "output": {"format": "made"}},
    ),
    ("expression", {"input": {"format": "made"}, "program": "select(.q != 4) | {n, q, s}"}),
    ("symbol-filter", {"input": {"format": "made"}, "field": "s", "symbols": ["a", "no", "7", "é"]}),
    ("mask", {"input": {"format": "json"}, "fields": ["s"], "method": "redact"}),
    ("compress", {"algo": "gzip"}),
]
"""A chain in which each step rejects records that the steps before it accept."""


def config(steps: list[tuple[str, dict[str, Any]]] = STEPS, **storage: Any) -> dict[str, Any]:
    """The same chain twice: `f` runs as a chain, `u` step by step."""
    topics = ["in", *(f"{kind}.{place}" for kind in "fu" for place in range(len(steps)))]
    unbounded = {} if storage.get("storage") == "file" else {"storage_size": "unlimited"}
    kept = {"storage": "memory", "storage_config": unbounded} | storage
    return {
        "formats": FORMATS,
        "topics": [{"name": name, **kept} for name in topics],
        "processors": [
            {
                "name": f"{kind}{place}",
                "plugin": plugin,
                "source": {"topic": f"{kind}.{place - 1}" if place else "in", "read": "offset"},
                "target": {"topic": f"{kind}.{place}"},
                "config": given,
            }
            for kind in "fu"
            for place, (plugin, given) in enumerate(steps)
        ],
    }


class World:
    """An engine and access to its topics."""

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.pipeline = Pipeline.model_validate(given)
        self.engine = EngineProcess(folder, given)
        assert self.engine.start().get("ready")
        self.client = self.engine.client
        self._tasks: list[HostedTask] = []

    def task(self, *names: str) -> HostedTask:
        """A task of a new job for one chain."""
        self._tasks.append(HostedTask(self.client, self.engine.paths, self.pipeline, list(names)))
        return self._tasks[-1]

    def send(self, topic: str, records: list[bytes]) -> None:
        send(self.client, topic, records)

    def records(self, topic: str) -> list[tuple[int, int, bytes]]:
        """Offset, time and bytes."""
        return [
            (row["offset"], row["ts_ms"], row["data"]) for batch in self.client.scan(topic) for row in batch.to_pylist()
        ]

    def letters(self, kind: str) -> list[Any]:
        """The dead letters of one of the chains, sorted by origin."""
        found = [json.loads(data) for _, _, data in self.records("_dead")]
        keys = ("topic", "offset", "reason", "detail", "stage", "column", "ts_ms", "data", "truncated")
        return sorted(
            [letter["processor"][1:], *(str(letter.get(key)).removeprefix(f"{kind}.") for key in keys)]
            for letter in found
            if letter["processor"].startswith(kind)
        )

    def apart(self) -> list[str]:
        """Processors that the driver must run in separate tasks."""
        return list(self.client.sync(DriverSync([])).apart)

    def close(self) -> None:
        for task in self._tasks:
            task.close()
        self.engine.close()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Any]:
    made: list[World] = []

    def make(given: dict[str, Any]) -> World:
        made.append(World(tmp_path / str(len(made)), given))
        return made[-1]

    yield make
    for world in made:
        world.close()
    reading.engine.cache_clear()


VALUES = {
    "s": st.one_of(st.none(), st.sampled_from(["a", "no", "7", "é", 'q"', ""]), st.sampled_from(["a", "a"])),
    "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 5)),
    "d": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0, 2, 1e308, 0.5])),
    "small": st.integers(0, 255),
}
GOOD = st.fixed_dictionaries({key: VALUES[key] for key in ("s", "n", "d", "small")})
RECORD = st.one_of(
    st.fixed_dictionaries({}, optional=VALUES).map(lambda row: json.dumps(row).encode()),
    st.sampled_from([b"", b"[]", b"\xff", b'{"n":1.5}', b'{"n":1,"d":"x"}', b'{"n":2,"small":256}', b'{"n":1,"s":3}']),
)
BATCH = st.one_of(
    st.lists(RECORD, min_size=10, max_size=40),
    st.lists(GOOD.map(lambda row: json.dumps(row).encode()), min_size=10, max_size=40),
)


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("least_passed", [locations.LEAST_PASSED, 0], ids=["sent", "named"])
@pytest.mark.parametrize("inline_bytes", [outbox.INLINE_BYTES, 800])
def test_a_chain_gives_the_same_as_its_steps_one_by_one(
    make_world: Any, inline_bytes: int, least_passed: int, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "INLINE_BYTES", inline_bytes)  # 800: some stages are sent before the publish
    monkeypatch.setattr(locations, "LEAST_PASSED", least_passed)  # 0: records are named instead of sent
    world = make_world(config(storage=storage))
    count = len(STEPS)
    fused = world.task(*(f"f{place}" for place in range(count)))
    steps = [world.task(f"u{place}") for place in range(count)]

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(BATCH)
    def property_(records: list[bytes]) -> None:
        world.send("in", records)
        for task in (fused, *steps):
            task.epoch()
            assert task.granted() == {}
        for place in range(count):
            assert world.records(f"f.{place}") == world.records(f"u.{place}"), place
        assert world.letters("f") == world.letters("u")

    property_()
    assert all(world.records(f"f.{place}") for place in range(count))
    assert len({letter[0] for letter in world.letters("f")}) > 2
    rows = {row["name"]: row for row in world.client.command("processors.ls", {})["processors"]}
    for place in range(count):
        alone, within = rows[f"u{place}"], rows[f"f{place}"]
        for key in ("records", "dead", "behind"):
            assert within[key] == alone[key], (place, key)


def test_a_stage_that_is_sent_ahead_takes_the_one_whose_rows_it_names_with_it(
    make_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(config(STEPS[:2]))
    chain = world.task("f0", "f1")
    records = [b"{}"] * 100 + [b'{"s":"no"}']  # the row numbers are larger than such rows; the last record is dropped
    world.send("in", records)
    chain.run()  # from now on the task knows that the head passes records unchanged
    world.send("in", records)
    monkeypatch.setattr(outbox, "INLINE_BYTES", 1_530)
    done = chain.hold(chain.granted())
    assert done.outbox.inline == []
    done.publish()
    assert data(world, "f.0") == records * 2
    assert data(world, "f.1") == records[:100] * 2


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_what_passes_from_a_topic_unchanged_is_named_and_not_sent(make_world: Any, storage: str) -> None:
    world = make_world(config(STEPS[:2], storage=storage))
    chain = world.task("f0", "f1")
    records = [b'{"n":%d,"s":"%s","small":0}' % (n, b"no" if n % 2 else b"x" * 100) for n in range(4, 1_004)]
    world.send("in", records)
    done = chain.hold(chain.granted())
    whole, some = done.outbox.inline
    assert whole.head.passed is not None and whole.head.whole and whole.data == b""
    assert some.head.passed is not None and not some.head.whole
    with pa.ipc.open_stream(some.data) as reader:
        assert reader.read_all()["offset"].to_pylist() == list(range(0, 1_000, 2))
    done.publish()
    assert data(world, "f.0") == records
    assert data(world, "f.1") == records[::2]


def test_what_a_topic_that_overwrites_gives_is_sent(make_world: Any) -> None:
    world = make_world(config(STEPS[:1], storage_config={"storage_size": 1_000, "write_full": "overwrite"}))
    chain = world.task("f0")
    records = [b'{"n":%d,"s":"%s"}' % (n, b"x" * 100) for n in range(4, 1_004)]
    world.send("in", records)
    done = chain.hold(chain.granted())
    world.send("in", records)  # the records of the epoch are overwritten
    done.publish()
    assert data(world, "f.0") == records


def test_what_a_step_passes_on_whole_is_named_and_not_sent(make_world: Any) -> None:
    world = make_world(config(STEPS[:2]))
    chain = world.task("f0", "f1")
    records = [b'{"n":%d}' % number for number in range(4, 104)]
    for _ in range(2):  # in the first round it is not known that the head passes records unchanged
        world.send("in", records)
        done = chain.hold(chain.granted())
        done.publish()
    first, second = done.outbox.inline
    assert second.head.parent == first.head.stage and second.head.whole and second.data == b""
    assert data(world, "f.0") == data(world, "f.1") == records * 2


SHORT: list[tuple[str, dict[str, Any]]] = [
    ("filter", {"input": {"format": "quote"}, "where": ".n != 3"}),
    ("expression", {"input": {"format": "quote"}, "program": "{n, d: (.d * 2)}"}),
    ("expression", {"input": {"format": "quote"}, "program": "{m: (.n + 1)}"}),
]
NAMES = ["f0", "f1", "f2"]


def numbers(start: int, stop: int) -> list[bytes]:
    return [b'{"n":%d,"d":1}' % n for n in range(start, stop)]


def made(start: int, stop: int) -> list[bytes]:
    return [b'{"m":%d.0}' % (n + 1) for n in range(start, stop) if n != 3]


def data(world: World, topic: str) -> list[bytes]:
    return [data for _, _, data in world.records(topic)]


def test_a_member_that_leaves_the_chain_begins_where_it_was(make_world: Any) -> None:
    world = make_world(config(SHORT))
    chain = world.task(*NAMES)
    world.send("in", numbers(0, 10))
    chain.run()
    world.task(*NAMES)
    with pytest.raises(Fenced):
        chain.epoch()
    alone = [world.task(name) for name in NAMES]
    with pytest.raises(Fenced):
        chain.epoch()  # of the head's previous generation
    world.send("in", numbers(10, 20))
    alone[0].run()
    grants = alone[1].granted()
    assert (grants["f1"].start["f.0"].off, grants["f1"].end["f.0"].off) == (9, 19)
    alone[1].work(grants)
    alone[2].run()
    assert data(world, "f.2") == made(0, 20)
    # The chain is formed again once all members have read everything.
    world.send("in", numbers(20, 30))
    alone[0].run()
    world.apart()
    assert world.task(*NAMES).names == ["f0"]
    assert world.apart() == ["f1"]
    alone[1].run()
    alone[2].run()
    again = world.task(*NAMES)
    assert (again.names, world.apart()) == (NAMES, [])
    world.send("in", numbers(30, 40))
    again.run()
    assert data(world, "f.2") == made(0, 40)


def test_a_record_of_somebody_else_in_a_topic_of_the_chain_is_read_by_its_member(make_world: Any) -> None:
    world = make_world(config(SHORT))
    chain = world.task(*NAMES)
    world.send("in", numbers(0, 5))
    done = chain.hold(chain.granted())
    world.send("f.0", [b'{"n":100,"d":1}'])
    with pytest.raises(ProtocolError, match="somebody else wrote"):
        done.publish()
    assert [len(data(world, f"f.{place}")) for place in range(3)] == [1, 0, 0]
    chain.claim()
    assert (chain.names, world.apart()) == (["f0"], ["f1"])
    for task in (chain, world.task("f1", "f2")):
        task.run()
    assert data(world, "f.2") == [b'{"m":101.0}', *made(0, 5)]


@pytest.mark.parametrize("inline_bytes", [outbox.INLINE_BYTES, -1])
def test_an_epoch_run_again_changes_nothing_and_half_an_epoch_leaves_nothing(
    make_world: Any, inline_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "INLINE_BYTES", inline_bytes)
    world = make_world(config(SHORT))
    chain = world.task(*NAMES)
    world.send("in", [*numbers(0, 5), b"bad", b'{"n":7,"d":"x"}', b'{"n":8,"d":1e308}'])
    chain.hold(chain.granted())  # by a task that is killed before its publish
    assert [world.records(f"f.{place}") for place in range(3)] == [[], [], []]
    chain.claim()
    done = chain.hold(chain.granted())
    done.publish()
    seen = [world.records(f"f.{place}") for place in range(3)], world.letters("f")
    done.publish()  # a client repeats the publish if it gets no reply
    assert ([world.records(f"f.{place}") for place in range(3)], world.letters("f")) == seen
    chain.claim()
    assert chain.epoch() == {}
    assert ([world.records(f"f.{place}") for place in range(3)], world.letters("f")) == seen
    assert data(world, "f.2") == [*made(0, 5), *made(8, 9)]
    assert [letter[:3] for letter in seen[1]] == [["0", "in", "5"], ["1", "0", "4"]]


def test_replayed_letters_enter_at_their_own_step(make_world: Any) -> None:
    world = make_world(config(SHORT))
    chain = world.task(*NAMES)
    world.send("in", [b'{"n":1,"d":"x"}', *numbers(4, 6)])
    chain.run()
    [letter] = [json.loads(data) for data in data(world, "_dead")]
    assert (letter["processor"], letter["topic"], letter["offset"]) == ("f1", "f.0", 0)
    assert letter["inc"] == world.client.command("topic", {"name": "f.0"})["inc"]
    said = world.client.command("dlq.replay", {"processor": "f1"})
    assert said["replayed"] == 1
    chain.run()  # fails again: the same letter with one more attempt
    letters = [json.loads(data) for data in data(world, "_dead")]
    places = [tuple(each[key] for key in ("processor", "topic", "offset", "attempts")) for each in letters]
    assert places == [("f1", "f.0", 0, 1), ("f1", "f.0", 0, 2)]
    assert len(data(world, "f.0")) == 3
    rows = {row["name"]: row for row in world.client.command("processors.ls", {})["processors"]}
    assert [rows[name]["behind"] for name in NAMES] == [0, 0, 0]
    # A seek of a member removes it from the chain, also while no records arrive.
    world.client.command("readers.seek", {"topic": "f.0", "reader": "f1", "to": "earliest"})
    with pytest.raises(Fenced):
        chain.granted()
    chain.claim()
    assert (chain.names, world.apart()) == (["f0"], ["f1"])


def test_a_router_feeds_two_members_and_a_full_ring_lets_all_pass(make_world: Any) -> None:
    given = config(SHORT[:1])
    storage = {"storage": "memory", "storage_config": {"storage_size": 10}}
    given["topics"] += [{"name": name, **storage} for name in ("odd", "even", "odd.out", "even.out")]
    routes = [{"when": ".n % 2 == 1", "topic": "odd"}]
    quote = {"input": {"format": "quote"}}
    ends = {"source": {"topic": "f.0", "read": "offset"}, "config": {**quote, "routes": routes, "otherwise": "even"}}
    given["processors"].append({"name": "split", "plugin": "router", **ends})
    for name in ("odd", "even"):
        ends = {"source": {"topic": name, "read": "offset"}, "target": {"topic": f"{name}.out"}}
        given["processors"].append({"name": name, "plugin": "filter", **ends, "config": {**quote, "where": ".d > 0"}})
    world = make_world(given)
    chains = find_chains(world.pipeline, build_graph(world.pipeline))
    assert chains.members("f0") == ["f0", "split", "odd", "even"]
    chain = world.task(*chains.members("f0"))
    for part in range(5):
        world.send("in", numbers(part * 100, part * 100 + 100))
        chain.run()
    for name, rest in (("odd", 1), ("even", 0)):
        # No reader is left: the rings keep their last records.
        wanted = [record for n, record in enumerate(numbers(0, 500)) if n % 2 == rest and n != 3]
        assert data(world, f"{name}.out") == data(world, name) == wanted[-10:]
        assert world.client.command("topic", {"name": name})["end"] == len(wanted)


def test_records_that_pass_a_chain_unchanged_keep_their_keys_and_headers(make_world: Any) -> None:
    world = make_world(config(STEPS[:3]))
    (chain,) = world.task("f0", "f1", "f2").loop._chains.values()
    rows = [{"n": n, "s": "no" if n == 4 else "a", "d": 1.5, "small": 1} for n in range(6)]
    records = keyed_batch(*(json.dumps(row).encode() for row in rows), first=10)
    chain.epoch.begin()
    chain.head.read(records, reading.Range("in", 1, 10, 16), [])
    kept = {topic: pa.Table.from_batches(found.batches) for topic, found in chain.epoch.kept.items()}
    for topic, left in (("f.0", [10, 11, 12, 14, 15]), ("f.1", [10, 11, 12, 15])):
        assert kept[topic].column("ts_ms").to_pylist() == [10 * n for n in left]
        assert kept[topic].column("key").to_pylist() == [key_of(n) for n in left]
        assert kept[topic].column("headers").to_pylist() == [headers_of(n) for n in left]
    assert kept["f.2"].schema.names == ["ts_ms", "data"]  # new records, made of several fields
    sent = outbox.Outbox(world.client).of("f0", chain.generation)
    chain.epoch.stage(sent)
    for each in filter(None, (inline.data for inline in sent.inline)):
        with pa.ipc.open_stream(each) as reader:
            assert {"key", "headers"}.isdisjoint(reader.schema.names)
