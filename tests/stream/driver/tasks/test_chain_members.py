"""Members that join and leave a chain, and epochs that are repeated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gauss.model.errors import Fenced, ProtocolError
from gauss.stream.driver.planning.chains import find_chains
from gauss.stream.driver.tasks import outbox
from gauss.stream.graph import build_graph
from helpers.chain_worlds import config, data

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
    with pytest.raises(ProtocolError, match="has another writer"):
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
