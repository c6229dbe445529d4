"""Chains as Spark's workers run them, against a real engine and without a JVM: the same as step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.config.topics import topics_of
from gauss.model.errors import Fenced, ProtocolError
from gauss.stream.driver import plan as planning
from gauss.stream.driver import reading
from gauss.stream.driver.chains import find_chains
from gauss.stream.driver.compile import design
from gauss.stream.driver.plan import RANGES, ReadPlan, Step, Work, WritePlan, encode_fields
from gauss.stream.driver.sink import Staged, StreamWriter
from gauss.stream.graph import build_graph
from gauss.stream.protocol import At, Claim, Claimed, Ends, Latest, Member
from helpers.engine_process import EngineProcess

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
"""A chain in which each step finds records bad that those before it let pass."""


def config(steps: list[tuple[str, dict[str, Any]]] = STEPS, **storage: Any) -> dict[str, Any]:
    """The same chain twice: `f` is run as one, `u` step by step."""
    topics = ["in", *(f"{kind}.{place}" for kind in "fu" for place in range(len(steps)))]
    kept = {"storage": "memory", "storage_config": {"storage_size": "unlimited"}} | storage
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


class Chain:
    """A head with its members, as a driver would run them."""

    def __init__(self, world: World, names: list[str], checkpoint: str = "c") -> None:
        self.world, self.names, self.checkpoint = world, names, checkpoint
        self.entries = [next(e for e in world.pipeline.processors if e.name == name) for name in names]
        self.epoch = -1
        self.claim()

    def claim(self) -> Claimed:
        head, *members = self.entries
        source = [topics_of(head)[0][0].topic]
        asked = Claim(head.name, self.checkpoint, source, topics_of(head)[1], members=[each.name for each in members])
        self.claimed = claimed = self.world.client.claim(asked)
        if claimed.behind:
            return claimed
        self.at = dict(claimed.start)
        self.epoch = claimed.epoch
        work, target, output, routes = self._work(head, "")
        steps = [Step(each.name, topics_of(each)[0][0].topic, *self._work(each, each.name)) for each in members]
        known = [Member(each.name, claimed.members[each.name], topics_of(each)[1]) for each in members]
        plan = WritePlan(self.world.flight, head.name, claimed.generation, self.checkpoint, "", target, output, work)
        plan = msgspec.structs.replace(plan, routes=routes, steps=steps, members=known)
        # As it travels: through an option.
        self.writer = StreamWriter(msgspec.json.decode(planning.to_option(plan), type=WritePlan))
        return claimed

    def _work(self, entry: ProcessorDef, member: str) -> tuple[Work, str, Any, list[str]]:
        found = design(self.world.pipeline, entry)
        assert found.hosted is not None
        read = ReadPlan(self.world.flight, self.names[0], self.claimed.generation, self.claimed.start)
        fields = encode_fields(found.decided({}))
        read = msgspec.structs.replace(read, format=found.input, fields=fields, member=member)
        routes = [] if entry.target else topics_of(entry)[1]
        return Work(read, found.hosted), entry.target.topic if entry.target else "", found.output, routes

    def ends(self) -> Ends:
        found = {}
        for name in self.at:
            row = self.world.client.command("topic", {"name": name})
            found[name] = At(row["inc"], row["end"])
        return found

    def stage(self, ends: Ends) -> list[Staged]:
        done = []
        for part in reading.ranges(self.at, ends):
            row = {"topic": part.topic, "inc": part.inc, "start": part.start, "stop": part.stop, "tables": ""}
            staged = self.writer.write(iter([pa.RecordBatch.from_pylist([row], schema=RANGES)]))
            assert isinstance(staged, Staged)
            done.append(staged)
        return done

    def run(self) -> None:
        """One epoch of all that is there."""
        ends = self.ends()
        self.writer.publish(self.stage(ends), self.epoch + 1, ends)
        self.epoch, self.at = self.epoch + 1, ends


class World:
    """An engine, and what lies in its topics."""

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.pipeline = Pipeline.model_validate(given)
        self.engine = EngineProcess(folder, given)
        assert self.engine.start().get("ready")
        self.client = self.engine.client
        self.flight = str(self.engine.paths.flight_json)

    def send(self, topic: str, records: list[bytes]) -> None:
        batch = pa.RecordBatch.from_arrays([pa.array(records, pa.binary())], names=["data"])
        self.client.append(topic, [batch.cast(pa.schema([pa.field("data", pa.binary(), nullable=False)]))])

    def records(self, topic: str) -> list[tuple[int, int, bytes]]:
        """Offset, time and bytes."""
        return [
            (row["offset"], row["ts_ms"], row["data"]) for batch in self.client.scan(topic) for row in batch.to_pylist()
        ]

    def letters(self, kind: str) -> list[Any]:
        """The dead letters of one of the chains, by where they came from."""
        found = [json.loads(data) for _, _, data in self.records("_dead")]
        keys = ("topic", "offset", "reason", "detail", "stage", "column", "ts_ms", "data", "truncated")
        return sorted(
            [letter["processor"][1:], *(str(letter.get(key)).removeprefix(f"{kind}.") for key in keys)]
            for letter in found
            if letter["processor"].startswith(kind)
        )


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Any]:
    made: list[World] = []

    def make(given: dict[str, Any]) -> World:
        made.append(World(tmp_path / str(len(made)), given))
        return made[-1]

    yield make
    for world in made:
        world.engine.close()
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


def test_a_chain_gives_the_same_as_its_steps_one_by_one(make_world: Any) -> None:
    world = make_world(config())
    count = len(STEPS)
    fused = Chain(world, [f"f{place}" for place in range(count)])
    steps = [Chain(world, [f"u{place}"]) for place in range(count)]

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(BATCH)
    def property_(records: list[bytes]) -> None:
        world.send("in", records)
        fused.run()
        for step in steps:
            step.run()
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
    chain = Chain(world, NAMES)
    world.send("in", numbers(0, 10))
    chain.run()
    with pytest.raises(Fenced):
        Chain(world, NAMES)
        chain.run()
    alone = [Chain(world, [name], checkpoint=f"alone {name}") for name in NAMES]
    assert alone[1].claimed.start["f.0"] == At(alone[1].at["f.0"].inc, 9)
    with pytest.raises(Fenced):
        chain.run()  # of the head's last life
    world.send("in", numbers(10, 20))
    for step in alone:
        step.run()
    assert data(world, "f.2") == made(0, 20)
    # And back: all of them have read what there is.
    world.send("in", numbers(20, 30))
    alone[0].run()
    assert Chain(world, NAMES, "again").claimed.behind == ["f1"]
    alone[1].run()
    alone[2].run()
    again = Chain(world, NAMES, "again")
    world.send("in", numbers(30, 40))
    again.run()
    assert data(world, "f.2") == made(0, 40)


def test_a_record_of_somebody_else_in_a_topic_of_the_chain_is_read_by_its_member(make_world: Any) -> None:
    world = make_world(config(SHORT))
    chain = Chain(world, NAMES)
    world.send("in", numbers(0, 5))
    ends = chain.ends()
    staged = chain.stage(ends)
    world.send("f.0", [b'{"n":100,"d":1}'])
    with pytest.raises(ProtocolError, match="somebody else wrote"):
        chain.writer.publish(staged, 0, ends)
    assert [len(data(world, f"f.{place}")) for place in range(3)] == [1, 0, 0]
    assert chain.claim().behind == ["f1"]
    chains = [Chain(world, ["f0"], "head"), Chain(world, ["f1", "f2"], "rest")]
    for each in chains:
        each.run()
    assert data(world, "f.2") == [b'{"m":101.0}', *made(0, 5)]


def test_an_epoch_run_again_changes_nothing_and_half_an_epoch_leaves_nothing(make_world: Any) -> None:
    world = make_world(config(SHORT))
    chain = Chain(world, NAMES)
    world.send("in", [*numbers(0, 5), b"bad", b'{"n":7,"d":"x"}', b'{"n":8,"d":1e308}'])
    ends = chain.ends()
    chain.stage(ends)  # by a driver that was killed before its publish
    chain.claim()
    chain.run()
    seen = [world.records(f"f.{place}") for place in range(3)], world.letters("f")
    before = {"in": chain.claimed.start["in"], **chain.claimed.start}
    chain.claim()
    assert chain.claimed.epoch == 0
    chain.at, chain.epoch = before, -1
    chain.run()
    assert ([world.records(f"f.{place}") for place in range(3)], world.letters("f")) == seen
    assert [letter[:3] for letter in seen[1]] == [["0", "in", "5"], ["1", "0", "4"]]


def test_replayed_letters_enter_at_their_own_step(make_world: Any) -> None:
    world = make_world(config(SHORT))
    chain = Chain(world, NAMES)
    world.send("in", [b'{"n":1,"d":"x"}', *numbers(4, 6)])
    chain.run()
    [letter] = [json.loads(data) for data in data(world, "_dead")]
    assert (letter["processor"], letter["topic"], letter["offset"]) == ("f1", "f.0", 0)
    assert letter["inc"] == world.client.command("topic", {"name": "f.0"})["inc"]
    said = world.client.command("dlq.replay", {"processor": "f1"})
    assert said["replayed"] == 1
    chain.run()  # still bad: the same letter with one more attempt
    letters = [json.loads(data) for data in data(world, "_dead")]
    places = [tuple(each[key] for key in ("processor", "topic", "offset", "attempts")) for each in letters]
    assert places == [("f1", "f.0", 0, 1), ("f1", "f.0", 0, 2)]
    assert len(data(world, "f.0")) == 3
    rows = {row["name"]: row for row in world.client.command("processors.ls", {})["processors"]}
    assert [rows[name]["behind"] for name in NAMES] == [0, 0, 0]
    # Whoever moves a member takes it out of the chain, also while no records come.
    world.client.command("readers.seek", {"topic": "f.0", "reader": "f1", "to": "earliest"})
    with pytest.raises(Fenced):
        world.client.latest(Latest("f0", chain.claimed.generation, chain.at, max_rows=10, max_bytes=1000))
    assert chain.claim().behind == ["f1"]


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
    chain = Chain(world, chains.members("f0"))
    for part in range(5):
        world.send("in", numbers(part * 100, part * 100 + 100))
        chain.run()
    for name, rest in (("odd", 1), ("even", 0)):
        # Nobody reads them any more: the rings hold their last records.
        wanted = [record for n, record in enumerate(numbers(0, 500)) if n % 2 == rest and n != 3]
        assert data(world, f"{name}.out") == data(world, name) == wanted[-10:]
        assert world.client.command("topic", {"name": name})["end"] == len(wanted)
