"""Several chains in one standing task against a real engine, without a JVM, give the same results as each in its own
task."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.engine.driver_messages import DriverSync
from gauss.config.spec import Pipeline
from gauss.model.errors import Fenced
from gauss.stream.driver.planning.chains import find_chains
from gauss.stream.driver.planning.shared_reads import find_teams, least_slots
from gauss.stream.driver.tasks import busy, reading
from gauss.stream.graph import build_graph
from helpers.engine_process import EngineProcess
from helpers.standing import HostedTask, records_of, send

pytestmark = pytest.mark.system

QUOTE = {
    "name": "quote",
    "plugin": "json",
    "config": {
        "fields": [{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}, {"name": "small", "type": "uint8"}]
    },
}
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "a": ("filter", {"where": ".n > 0"}),
    "b": ("filter", {"where": '.s != "no"'}),
    "c": ("expression", {"program": "{n, both: (.s + .s)}"}),
    "d": ("mask", {"fields": ["s"], "method": "redact"}),
    "e": ("symbol-filter", {"field": "s", "symbols": ["a", "é"]}),
    "f": ("filter", {"where": ".small > 1"}),
}


def config(names: str, **jobs: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Each job twice over the same topic: `x.…` in one task, `y.…` each in its own."""
    jobs = {name: JOBS[name] for name in names} | jobs
    return {
        "formats": [QUOTE],
        "topics": [
            {"name": name, "storage": "memory", "storage_config": {"storage_size": "unlimited"}}
            for name in ("in", *(f"{kind}.{job}" for kind in "xy" for job in jobs))
        ],
        "processors": [
            {
                "name": f"{kind}{job}",
                "plugin": plugin,
                "source": {"topic": "in", "read": "offset"},
                "target": {"topic": f"{kind}.{job}"},
                "config": {"input": {"format": "quote"}, **given},
            }
            for kind in "xy"
            for job, (plugin, given) in jobs.items()
        ],
    }


class World:
    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.pipeline = Pipeline.model_validate(given)
        self.engine = EngineProcess(folder, given)
        assert self.engine.start().get("ready")
        self.client = self.engine.client

    def task(self, *heads: str, **given: Any) -> HostedTask:
        return HostedTask(self.client, self.engine.paths, self.pipeline, *([head] for head in heads), **given)

    def letters(self, processor: str) -> list[tuple[Any, ...]]:
        found = [json.loads(data) for data in records_of(self.client, "_dead")]
        keys = ("topic", "offset", "reason", "detail", "column", "data")
        return [tuple(each[key] for key in keys) for each in found if each["processor"] == processor]

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.client.command("processors.ls")["processors"]}


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Any]:
    made: list[World] = []

    def make(names: str, **jobs: tuple[str, dict[str, Any]]) -> World:
        made.append(World(tmp_path / str(len(made)), config(names, **jobs)))
        return made[-1]

    yield make
    for world in made:
        world.engine.close()
    reading.engine.cache_clear()


RECORD = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "n": st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)),
            "s": st.one_of(st.none(), st.sampled_from(["a", "no", "é", '"'])),
            "small": st.integers(0, 255),
        },
    ).map(lambda row: json.dumps(row).encode()),
    st.sampled_from([b"", b"[]", b"\xff", b'{"n":1.5,"s":"a"}', b'{"n":1,"s":7}', b'{"n":2,"small":256,"s":"a"}']),
)


def test_chains_of_one_task_write_and_bury_what_each_would_by_itself(make_world: Any) -> None:
    world = make_world("abcdef")
    together = world.task(*(f"x{job}" for job in JOBS))
    alone = [world.task(f"y{job}") for job in JOBS]

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(RECORD, min_size=1, max_size=40))
    def property_(records: list[bytes]) -> None:
        send(world.client, "in", records)
        together.run()
        for task in alone:
            task.run()
        for job in JOBS:
            assert records_of(world.client, f"x.{job}") == records_of(world.client, f"y.{job}"), job
            assert world.letters(f"x{job}") == world.letters(f"y{job}"), job

    property_()
    rows = world.rows()
    for job in JOBS:
        for key in ("records", "dead", "behind"):
            assert rows[f"x{job}"][key] == rows[f"y{job}"][key], (job, key)
    assert rows["xa"]["dead"] and rows["xc"]["records"]


def good(first: int, last: int) -> list[bytes]:
    return [b'{"n":%d,"s":"a","small":2}' % n for n in range(first, last)]


FAILING = ("expression", {"program": "{n}", "output": {"format": "quote"}})


def test_one_that_raises_is_dropped_and_told_and_the_others_go_on(
    make_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world("ab", c=FAILING)
    task = world.task("xa", "xb", "xc")
    broken = task.loop._chains["xc"].head._transform

    class Raises:
        def arrow(self, _: Any) -> Any:
            raise ZeroDivisionError("no luck")

    monkeypatch.setattr(task.loop._chains["xc"].head, "_transform", Raises())
    send(world.client, "in", good(1, 11))
    task.run()
    assert records_of(world.client, "x.a") == records_of(world.client, "x.b") == good(1, 11)
    assert records_of(world.client, "x.c") == [] and world.rows()["xc"]["behind"] == 10
    assert list(task.loop.generations) == ["xa", "xb"]
    assert broken is not None
    alone = world.task("xc")
    alone.run()
    assert len(records_of(world.client, "x.c")) == 10
    # It has caught up, and shares the task again.
    task = world.task("xa", "xb", "xc")
    send(world.client, "in", good(11, 21))
    task.run()
    assert [world.rows()[name]["behind"] for name in ("xa", "xb", "xc")] == [0, 0, 0]


class Slow:
    """A slow transform."""

    def __init__(self, transform: Any, seconds: float) -> None:
        self._transform, self._seconds = transform, seconds

    def arrow(self, records: Any) -> Any:
        time.sleep(self._seconds)
        return self._transform.arrow(records)


@pytest.mark.parametrize(("slow", "is_dropped"), [({"xb": 0.1}, True), ({"xa": 0.05, "xb": 0.05}, False)])
def test_one_that_takes_most_of_the_time_is_dropped_and_two_alike_are_not(
    make_world: Any, monkeypatch: pytest.MonkeyPatch, slow: dict[str, float], is_dropped: bool
) -> None:
    monkeypatch.setattr(busy, "WINDOW_S", 0.4)
    world = make_world("abc")
    task = world.task("xa", "xb", "xc")
    for name, seconds in slow.items():
        head = task.loop._chains[name].head
        monkeypatch.setattr(head, "_transform", Slow(head._transform, seconds))
    for number in range(8):
        send(world.client, "in", good(10 * number + 1, 10 * number + 11))
        task.epoch()
    assert ("xb" not in task.loop.generations) is is_dropped
    apart = world.client.sync(DriverSync([])).apart
    assert ("of the time of a task of 3 chains" in apart.get("xb", "")) is is_dropped
    if is_dropped:
        world.task("xb").run()
    for job in "ab":
        assert records_of(world.client, f"x.{job}") == good(1, 81), job


def test_a_slow_one_that_is_alone_or_was_claimed_elsewhere_is_not_dropped(make_world: Any) -> None:
    world = make_world("ab")
    task = world.task("xa", "xb")
    world.task("xb")
    task.loop.generations.pop("xb")  # as after a rejected publish
    for name in ("xa", "xb"):
        task.loop._leave(name, 0.9)
    assert list(task.loop.generations) == ["xa"]
    assert world.client.sync(DriverSync([])).apart == {}


def test_one_whose_target_is_full_holds_nobody_up(tmp_path: Path) -> None:
    given = config("ab")
    for topic in given["topics"]:
        if topic["name"] == "x.b":
            topic["storage_config"] = {"storage_size": 5}
    given["topics"].append({"name": "rest", "storage": "memory"})
    given["processors"].append(
        {"name": "slow", "plugin": "filter", "source": {"topic": "x.b", "read": "offset"}, "target": {"topic": "rest"},
         "config": {"input": {"format": "quote"}, "where": "true"}}
    )  # fmt: skip
    world = World(tmp_path, given)
    try:
        task = world.task("xa", "xb")
        for step in range(3):
            send(world.client, "in", good(10 * step, 10 * step + 10))
            task.run()
        assert len(records_of(world.client, "x.a")) == 29
        assert list(task.loop.generations) == ["xa"]
        assert world.rows()["xb"]["behind"] > 0
    finally:
        world.engine.close()
        reading.engine.cache_clear()


def test_one_that_is_put_back_catches_up_and_changes_no_other(make_world: Any) -> None:
    world = make_world("ab")
    task = world.task("xa", "xb")
    send(world.client, "in", good(1, 11))
    task.run()
    world.client.command("readers.seek", {"topic": "in", "reader": "xb", "to": "5"})
    send(world.client, "in", good(11, 16))
    with pytest.raises(Fenced):
        task.granted()
    task.claim()
    task.run()
    assert records_of(world.client, "x.a") == good(1, 16)
    assert records_of(world.client, "x.b") == [*good(1, 11), *good(6, 16)]


def test_a_task_that_is_tried_again_goes_on_with_all_its_chains_beside_its_neighbour(make_world: Any) -> None:
    world = make_world("ab")
    one = world.task("xa", "xb")
    two = world.task("xa", "xb", job=one.job, task=1)
    send(world.client, "in", good(1, 101))
    held = two.granted(30)
    again = world.task("xa", "xb", job=one.job, task=0, attempt=1)  # its first attempt died
    with pytest.raises(Fenced):
        two.granted()
    assert held
    two.claim()
    while again.epoch(7) or two.epoch(7):
        pass
    assert records_of(world.client, "x.a") == records_of(world.client, "x.b") == good(1, 101)


def test_replayed_letters_reach_the_one_that_refused_them(make_world: Any) -> None:
    world = make_world("ab")
    task = world.task("xa", "xb")
    send(world.client, "in", [b'{"n":1,"s":7}', b'{"n":"x","s":"a"}'])
    task.run()
    assert len(world.letters("xa")) == 1 and len(world.letters("xb")) == 1
    assert world.client.command("dlq.replay", {"processor": "xb"})["replayed"] == 1
    task.run()
    found = [json.loads(data) for data in records_of(world.client, "_dead")]
    assert sorted((each["processor"], each["attempts"]) for each in found) == [("xa", 1), ("xb", 1), ("xb", 2)]
    assert records_of(world.client, "x.a") == [b'{"n":1,"s":7}']


def test_a_later_task_fences_all_chains_of_an_earlier_one(make_world: Any) -> None:
    world = make_world("ab")
    old = world.task("xa", "xb")
    send(world.client, "in", good(1, 11))
    grants = old.granted()
    world.task("xa", "xb").run()
    with pytest.raises(Fenced):
        old.work(grants)
    assert records_of(world.client, "x.a") == good(1, 11)


def test_those_that_read_the_same_in_the_same_way_are_one_team() -> None:
    given = config("abc")
    given["formats"].append({**QUOTE, "name": "other"})
    given["processors"][1]["config"]["input"] = {"format": "other"}  # the same format by another name
    given["processors"][2]["config"]["input"] = {"format": "json"}
    given["processors"][3]["parallelism"] = 2
    given["processors"][4]["source"]["read"] = "latest"
    given["processors"][5]["on_restart"] = "fail"
    pipeline = Pipeline.model_validate(given)
    graph = build_graph(pipeline)
    teams = find_teams(pipeline, graph, find_chains(pipeline, graph))
    assert [team.heads for team in teams] == [("xa", "xb"), ("xc",), ("ya",), ("yb",), ("yc",)]


def test_slots_of_a_cluster_are_one_per_task_table_and_parallelism() -> None:
    given = config("abc")
    given["processors"][0]["parallelism"] = 3
    given["topics"].append({"name": "rows", "storage": "clickhouse", "storage_config": {"host": "db.example"}})
    assert least_slots(Pipeline.model_validate(given)) == 3 + 1 + 1  # xa alone, the others together, and the table
