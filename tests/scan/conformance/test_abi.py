"""ZRK, 1, 12 and 14: the ABI of tasks, its counters and its codes."""

from __future__ import annotations

import dataclasses

import pytest

from gauss.contracts.cursor import Capabilities, Code, Mode, OffsetRange, Program, Seq, Step
from gauss.scan.program.blob import encode_program, encode_step
from gauss.scan.resources import RESOURCES, OpKind
from gauss.scan.sources import OpenAnswer, SourceTask
from gauss.scan.tasks import ReaderTask
from helpers.scan_worlds import Slot, World


def counter(task: ReaderTask, name: str) -> int:
    return task.used()[RESOURCES.index(name)]


@pytest.mark.providers("memory")
def test_zrk_sixteen_counters_in_order_are_zero_at_init_and_frozen_at_done(world: World) -> None:
    task = world.task()
    order = "wall exec fuel shed errs peak sent recv noop init emit done slot scan next read"
    assert " ".join(RESOURCES) == order
    assert task.resources.values() == (0,) * 16
    assert [kind.value for kind in OpKind] == list(range(8))
    assert [kind.name for kind in OpKind] == ["NOOP", "INIT", "EMIT", "DONE", "SLOT", "SCAN", "NEXT", "READ"]
    world.emit_numbers(0, 3)
    slot, before = Slot(world, task), task.used()
    for call in (lambda: slot.scan(Program()), slot.next, slot.blob, slot.next):
        call()
        after = task.used()
        assert all(a <= b for a, b in zip(before, after, strict=True))
        before = after
    task.done()
    frozen = task.used()
    assert (slot.next(), slot.blob()[0], slot.scan(Program()), task.slot()[0], task.done()) == (Code.PANIC,) * 5
    assert task.used() == frozen
    assert counter(task, "done") == 1


@pytest.mark.providers("memory")
def test_zrk_slots_of_one_task_are_independent_of_anothers(world: World) -> None:
    world.emit_numbers(0, 4)
    one, other = world.read(), world.read()
    assert one.number == other.number == 0
    assert len(one.drain()) == 4
    one.task.release(0)
    assert len(other.drain()) == 4


@pytest.mark.providers("memory")
def test_zrk_one_scanner_per_slot(world: World) -> None:
    world.emit_numbers(0, 4)
    slot = world.read()
    assert slot.scan(Program()) is Code.INVALID
    assert world.source.open_cursors() == 1


@pytest.mark.providers("memory")
def test_zrk_abi_call_from_a_done_task_is_panic(world: World) -> None:
    slot = world.read()
    slot.task.done()
    assert slot.next() is Code.PANIC
    assert slot.blob() == (Code.PANIC, b"")
    assert slot.task.take(slot.number) == (Code.PANIC, None)


def test_1_1_executor_is_reached_only_through_slot_scan_next_read(world: World) -> None:
    world.emit_numbers(0, 4)
    task = world.task()
    assert (task.next(0, Step()), task.read(0)[0]) == (Code.INVALID, Code.INVALID)
    _, slot = task.slot()
    assert task.next(slot, Step()) is Code.INVALID
    assert task.scan(slot, world.id, Program()) is Code.OK
    assert task.next(slot, Step()) is Code.OK
    assert task.read(slot)[0] is Code.OK
    handle = task.handle(slot)
    assert handle is not None
    assert not any(callable(value) or hasattr(value, "next") for value in handle)


class _Recorder(SourceTask):
    """A source that records the blobs it receives."""

    def open(self, program: bytes | Program) -> OpenAnswer:
        self.seen: list[object] = [program]
        return super().open(Program())

    def next(self, cursor_id: int, step: bytes | Step) -> Code:
        self.seen.append(step)
        return super().next(cursor_id, Step())


@pytest.mark.providers("memory")
def test_1_3_engine_forwards_blobs_unparsed(world: World) -> None:
    world.emit_numbers(0, 2)
    recorder = _Recorder("raw", world.provider)
    world.engine.register(recorder)
    task = world.task()
    _, slot = task.slot()
    program, step = b"\xff not a program", b"\x00 not a step"
    assert task.scan(slot, recorder.id, program) is Code.OK
    assert task.next(slot, step) is Code.OK
    assert [given is seen for given, seen in zip((program, step), recorder.seen, strict=True)] == [True, True]


def test_12_1_calls_count_on_entry_recv_on_success_errs_on_anything_else(world: World) -> None:
    world.emit_numbers(0, 3)
    task = world.task()
    slot = Slot(world, task)
    assert slot.blob()[0] is Code.INVALID
    assert slot.next() is Code.INVALID
    assert slot.scan(Program(OffsetRange(5, 1))) is Code.INVALID
    assert [counter(task, name) for name in ("slot", "scan", "next", "read", "errs", "recv")] == [1, 1, 1, 1, 3, 0]
    assert slot.scan(Program()) is Code.OK
    assert slot.next() is Code.OK
    sizes = [len(slot.blob()[1]), len(slot.blob()[1])]
    assert [counter(task, name) for name in ("scan", "next", "read", "errs")] == [2, 2, 3, 3]
    assert counter(task, "recv") == sum(sizes) > 0
    assert counter(task, "peak") == max(sizes)
    assert slot.next() is Code.INVALID  # the end of the data
    assert slot.blob()[0] is Code.INVALID
    assert [counter(task, name) for name in ("next", "read", "errs", "recv")] == [3, 4, 5, sum(sizes)]


def test_12_2_fuel_is_charged_to_the_reader_for_any_work(world: World) -> None:
    world.emit_numbers(0, 50)
    slot, idle = world.read(), world.task()
    spent = []
    while slot.next(3) is Code.OK:
        spent.append(counter(slot.task, "fuel"))
    assert spent == sorted(set(spent))
    assert spent[0] > 0
    assert counter(slot.task, "exec") > 0
    assert counter(idle, "fuel") == 0


def test_12_3_throttling_is_rejected_and_later_results_are_unchanged(world: World) -> None:
    world.emit_numbers(0, 30)
    free = world.read().golden(2, 2, 2, 50)
    open_, refused = True, []
    slot = world.read(allow=lambda _: open_)
    found = []
    for limit in (2, 2, 2, 50):
        open_ = False
        refused += [slot.next(limit), slot.blob()[0], slot.task.slot()[0]]
        open_ = True
        found += slot.golden(limit)
    assert found == free
    assert set(refused) == {Code.REJECTED}


@pytest.mark.providers("memory")
def test_zrk_every_counter_counts_what_it_is_for(world: World) -> None:
    world.emit_numbers(0, 9)
    open_ = True
    task = world.task(allow=lambda _: open_)
    slot = Slot(world, task)
    assert counter(task, "init") == 1
    program, step = encode_program(Program()), encode_step(Step(2))
    assert slot.scan(program) is Code.OK
    assert [task.next(slot.number, step) for _ in range(2)] == [Code.OK] * 2
    assert counter(task, "sent") == len(program) + 2 * len(step)
    assert slot.blob()[0] is Code.OK
    task.emitted(100)
    task.renew()
    open_ = False
    assert slot.next() is Code.REJECTED
    found = {name: counter(task, name) for name in RESOURCES}
    assert all(found[name] > 0 for name in ("wall", "exec", "fuel", "peak"))
    assert found["recv"] == found["peak"]
    assert found["sent"] == len(program) + 2 * len(step) + 100
    counts = ("shed", "errs", "noop", "init", "emit", "done", "slot", "scan", "next", "read")
    assert [found[name] for name in counts] == [1, 1, 1, 1, 1, 0, 1, 1, 3, 1]
    task.done()
    frozen = task.used()
    task.emitted(1)
    task.renew()
    assert task.used() == frozen


def test_14_1_default_program_reads_every_provider_whole(world: World) -> None:
    world.emit_numbers(0, 40)
    assert world.rows() == world.fold()


def test_14_2_unknown_op_and_capabilities_key_are_refused(world: World) -> None:
    with pytest.raises(ValueError, match="8"):
        OpKind(8)
    with pytest.raises(TypeError, match="teleport"):
        Capabilities(world.provider.capabilities.views, frozenset(), live=True, teleport=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="teleport"):
        dataclasses.replace(Step(), teleport=1)  # type: ignore[call-arg]
    abi = {name for name in vars(ReaderTask) if not name.startswith("_")}
    calls = {"slot", "scan", "next", "read", "take", "done", "emitted"}
    around = {"release", "handle", "used", "lapsed", "renew", "pinned_bytes", "limit_pins"}
    assert abi == calls | around


@pytest.mark.providers("memory")
def test_d_slots_exhausted_is_rejected(world: World) -> None:
    task = world.task()
    assert {task.slot()[0] for _ in range(1 << 16)} == {Code.OK}
    assert task.slot() == (Code.REJECTED, 0)
    task.release(500)
    assert task.slot() == (Code.OK, 500)
    assert task.slot(1 << 16)[0] is Code.INVALID


@pytest.mark.providers("memory")
def test_e_occupied_slot_is_invalid(world: World) -> None:
    slot = world.read()
    assert slot.scan(Program()) is Code.INVALID
    assert slot.task.slot(slot.number) == (Code.INVALID, 0)
    assert slot.task.slot(9) == (Code.OK, 9)


def test_g_lapsed_lease_ends_the_task_rejected_and_frees_its_pins(world: World) -> None:
    world.emit_numbers(0, 4)
    slot = world.read(Program(Seq(), Mode.LIVE), lease_seconds=0.02)
    kept = world.read(Program(Seq(), Mode.LIVE), lease_seconds=60)
    assert world.source.watermark() == 4
    while not slot.task.lapsed():
        pass
    assert world.engine.reap() == 1
    assert slot.task.ended is Code.REJECTED
    assert slot.next() is Code.PANIC
    assert world.source.open_cursors() == 1
    assert kept.next() is Code.OK
    kept.task.done()
    assert world.source.watermark() is None
