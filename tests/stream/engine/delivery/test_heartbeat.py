"""Watermarks in the ends of batches: what they carry, when they advance without records, and when they stop."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gauss.clients.engine.positions import At, Ends, Timing, time_basis
from gauss.clients.engine.task_messages import Latest, Publish, StageTime
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import Role, Where
from gauss.stream.engine.delivery.heartbeat import SLACK_MS
from gauss.stream.engine.delivery.stages import Stages
from gauss.stream.graph import ProcessorInput, ProcessorNode
from helpers.delivery import INLET, Delivery

ARRIVAL = Timing(watermark_ms=100, span_ms=1000, step_ms=1000)
EVENT = Timing(watermark_ms=100, span_ms=1000, step_ms=500, arrival=False)


def ask(world: Delivery, start: Ends, timing: Timing | None = ARRIVAL) -> Ends:
    latest = Latest("p", world.generation, start, 100, 1 << 20, wait_ms=0, timing=timing)
    return world.sources.latest(latest).end


def publish(world: Delivery, epoch: int, ends: Ends, seen: int, late: int = 0) -> None:
    at = ends["in"]
    world.stages.times.put(StageTime("p", world.generation, "in", at.inc, at.off - 1, at.off, seen, late))
    world.publisher.publish(Publish("p", world.generation, "c", epoch, ends, {"out": []}))


def fed(tmp_path: Path, seen: int) -> tuple[Delivery, Ends]:
    """An engine in which one epoch is published, and its end."""
    world = Delivery(tmp_path)
    start = world.claim().start
    world.feed(b"a", ts_ms=5000)
    ends = ask(world, start)
    publish(world, 0, ends, seen)
    return world, ends


def test_an_end_carries_the_largest_time_of_earlier_epochs(tmp_path: Path) -> None:
    world, first = fed(tmp_path, 5000)
    assert time_basis(first) == 0
    world.feed(b"b", ts_ms=5100)
    second = ask(world, first, EVENT)
    assert (second["in"].off, time_basis(second)) == (2, 5000)
    publish(world, 1, second, 4000, late=2)
    world.feed(b"c", ts_ms=5200)
    assert time_basis(ask(world, second, EVENT)) == 5000  # an older record does not move it back
    assert world.running.late == 2


def test_ends_of_processors_without_time_hold_no_time(tmp_path: Path) -> None:
    world = Delivery(tmp_path)
    start = world.claim().start
    world.feed(b"a")
    end = ask(world, start, timing=None)
    assert msgspec.to_builtins(end["in"]) == {"inc": end["in"].inc, "off": 1}


def test_the_clock_goes_on_for_a_silent_source_until_all_is_closed(tmp_path: Path) -> None:
    world, ends = fed(tmp_path, 5500)
    world.now = 6000 + 100 + SLACK_MS - 1
    assert ask(world, ends) == ends  # no window ends before that
    world.now += 1
    beat = ask(world, ends)
    assert beat["in"] == At(ends["in"].inc, 1, seen=5500, beat=6100)
    assert beat[INLET] == ends[INLET]
    publish(world, 1, beat, 0)
    world.now = 7100 + SLACK_MS
    last = ask(world, beat)
    assert last["in"].beat == 7100
    publish(world, 2, last, 0)
    world.now = 50_000
    assert ask(world, last) == last  # all windows that were open ended before 6,500, so there is nothing to do


def test_another_time_goes_on_only_after_silence_and_by_its_length(tmp_path: Path) -> None:
    world, ends = fed(tmp_path, 800_000)
    world.now = 10_000_000
    assert ask(world, ends, EVENT) == ends  # never without `idle_timeout`
    patient = msgspec.structs.replace(EVENT, idle_ms=2000)
    world.running.silent_since.clear()
    assert ask(world, ends, patient) == ends
    world.now += 1900
    assert ask(world, ends, patient) == ends
    world.now += 700
    assert ask(world, ends, patient)["in"].beat == 802_600


def test_a_chain_passes_time_on_only_as_far_as_its_records_have_come(tmp_path: Path) -> None:
    world, ends = fed(tmp_path, 5000)
    node = ProcessorNode(
        name="p",
        plugin="sql",
        role=Role.TRANSFORM,
        where=Where.SPARK,
        active=True,
        stateful=False,
        keeps_order=True,
        sources=(ProcessorInput("in", "offset"),),
        targets=("out",),
        address=None,
        config=PluginConfig(),
    )
    world.graph.processors["p"] = node
    beats = world.sources._heartbeat
    world.now = 9000
    assert beats.reached("out") == 9000 - SLACK_MS
    world.feed(b"b", ts_ms=7000)
    assert beats.reached("out") == 7000  # the record is not processed yet
    publish(world, 1, ask(world, ends), 7000)
    assert beats.reached("out") == 9000 - SLACK_MS


def test_what_tasks_told_of_time_outlives_the_engine_but_not_a_claim(tmp_path: Path) -> None:
    world = Delivery(tmp_path)
    world.claim()
    told = StageTime("p", world.generation, "in", 1, 0, 5, 77, 1)
    world.stages.times.put(told)
    again = Stages(tmp_path / "stages", 1 << 20)
    assert again.times.of("p", {"in": At(1, 0)}, {"in": At(1, 5)}) == [told]
    assert again.times.of("p", {"in": At(1, 0)}, {"in": At(1, 4)}) == []
    again.sweep("p", world.generation + 1)
    assert again.times.of("p", {"in": At(1, 0)}, {"in": At(1, 5)}) == []
    assert not list((tmp_path / "stages").glob("*.time"))


def test_a_fresh_checkpoint_goes_on_with_the_time_of_its_start(tmp_path: Path) -> None:
    world, ends = fed(tmp_path, 5000)
    world.feed(b"b", ts_ms=5100)
    publish(world, 1, ask(world, ends), 6000)
    start = world.claim("d", drop_state=True).start
    assert start["in"].seen == 5000
    row = world.ledger.row("p")
    assert row is not None and row.seen == {}
