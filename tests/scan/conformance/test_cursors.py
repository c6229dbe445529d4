"""5 and 6: cursors, snapshots and live scans."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from gauss.contracts.cursor import Code, Cursor, KeyRange, Last, Mode, OffsetRange, Program, Seq, Step
from gauss.scan.sources import SourceTask
from helpers.reference_provider import ReferenceProvider
from helpers.scan_worlds import Slot, World, doc, make_world
from helpers.waiting import wait_until

LIVE = Program(Seq(), Mode.LIVE)


def test_5_1_1_scan_pins_the_published_version_and_failure_leaves_nothing(world: World) -> None:
    world.emit_numbers(0, 5)
    slot = Slot(world, world.task())
    bad = Program(KeyRange("a", "b")) if not world.is_table else Program(OffsetRange(0, 1))
    assert slot.scan(bad) is Code.INVALID
    assert slot.task.handle(slot.number) is None
    assert (world.source.open_cursors(), world.source.watermark()) == (0, None)
    assert slot.scan(Program()) is Code.OK  # the slot is unchanged
    handle = slot.task.handle(slot.number)
    assert handle is not None
    assert handle.pinned_version == world.provider.version() == 5
    assert (world.source.open_cursors(), world.source.watermark()) == (1, 5)


def test_5_1_2_handle_has_five_immutable_fields(world: World) -> None:
    world.emit_numbers(0, 2)
    slot = world.read(LIVE)
    handle = slot.task.handle(slot.number)
    assert handle is not None
    assert handle._fields == ("source_task_id", "pinned_version", "mode", "cursor_id", "route_hint")
    assert handle[:3] == (world.id, 2, Mode.LIVE)
    for name in handle._fields:
        with pytest.raises(AttributeError):
            setattr(handle, name, 0)
    slot.drain()
    world.emit_numbers(2, 2)
    slot.drain()
    assert slot.task.handle(slot.number) == handle


def test_5_1_4_idle_executor_lives_until_close_or_done(world: World) -> None:
    world.emit_numbers(0, 3)
    slot, other = world.read(), world.read()
    slot.next(1)
    for number in range(20):
        world.emit_numbers(number, 5)
        world.compact()
    assert world.source.open_cursors() == 2
    assert slot.batch() == world.fold(3)[:1]
    assert slot.drain() == world.fold(3)[1:]
    slot.task.release(slot.number)
    other.task.done()
    assert world.source.open_cursors() == 0


def pinned(slot: Slot) -> int:
    handle = slot.task.handle(slot.number)
    assert handle is not None
    return handle.pinned_version


def test_5_1_5_and_9_3_sixty_four_cursors_beside_a_writer_each_equal_their_fold(world: World) -> None:
    ready, half, stop = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set() and number < 4000:
            if number > 2000:  # if the writer is faster, some versions are left for the second half
                half.wait(60)
            world.emit_numbers(number, 3)
            number += 3
            ready.set()
            time.sleep(0)

    def read() -> Slot:
        time.sleep(0.001)
        return world.read()

    writer = threading.Thread(target=write)
    writer.start()
    ready.wait()
    slots = [read() for _ in range(32)]
    half.set()
    wait_until(lambda: world.provider.version() > pinned(slots[-1]), 60)
    slots += [read() for _ in range(32)]
    found = [slot.drain(17) for slot in slots]
    stop.set()
    writer.join()
    versions = []
    for slot, rows in zip(slots, found, strict=True):
        assert rows == world.fold(pinned(slot))
        versions.append(pinned(slot))
    assert len(set(versions)) > 1


def test_5_2_1_next_on_an_unallocated_or_scannerless_slot_is_invalid(world: World) -> None:
    task = world.task()
    assert task.next(3, Step()) is Code.INVALID
    _, slot = task.slot()
    assert task.next(slot, Step()) is Code.INVALID
    assert task.next(-1, Step()) is Code.INVALID


def test_5_2_2_unset_means_that_a_batch_is_ready(world: World) -> None:
    world.emit_numbers(0, 20)
    slot = world.read()
    while slot.next(3) is Code.OK:
        assert slot.blob()[0] is Code.OK
        assert 1 <= len(slot.batch()) <= 3


def test_5_2_3_snapshot_end_is_invalid_repeatably(world: World) -> None:
    world.emit_numbers(0, 3)
    slot = world.read()
    slot.drain()
    world.emit_numbers(3, 3)
    assert [slot.next() for _ in range(3)] == [Code.INVALID] * 3


def test_5_2_3_live_idle_is_invalid_then_unset_after_an_emit(world: World) -> None:
    slot = world.read(LIVE)
    assert [slot.next(), slot.next()] == [Code.INVALID] * 2
    world.emit_numbers(0, 2)
    assert slot.next() is Code.OK
    assert slot.batch() == world.tail(0)


def test_5_3_1_read_without_a_scanner_is_invalid(world: World) -> None:
    task = world.task()
    assert task.read(0) == (Code.INVALID, b"")
    _, slot = task.slot()
    assert task.read(slot) == (Code.INVALID, b"")


def test_5_3_2_repeated_read_gives_the_same_bytes(world: World) -> None:
    world.emit_numbers(0, 9)
    slot = world.read()
    slot.next(2)
    first = slot.blob()
    world.emit_numbers(9, 5)
    world.compact()
    assert [slot.blob() for _ in range(3)] == [first] * 3
    assert first[0] is Code.OK


def test_5_3_3_read_before_next_and_after_a_failed_next_is_invalid(world: World) -> None:
    world.emit_numbers(0, 2)
    slot = world.read()
    assert slot.blob() == (Code.INVALID, b"")
    slot.drain()
    assert slot.next() is Code.INVALID
    assert slot.blob() == (Code.INVALID, b"")


class _Closes(ReferenceProvider):
    def open(self, program: Program) -> Cursor:  # type: ignore[override]
        cursor, closed = super().open(program), self.closed
        close = cursor.close

        def counted() -> None:
            closed.append(cursor)
            close()

        cursor.close = counted  # type: ignore[method-assign]
        return cursor

    closed: list[object] = []  # noqa: RUF012 - one for the test


@pytest.mark.providers("reference")
def test_5_4_1_and_5_4_2_releasing_a_slot_closes_exactly_once(world: World) -> None:
    provider = _Closes()
    provider.closed = []
    source = SourceTask("closes", provider)
    world.engine.register(source)
    task = world.task()
    for number in range(3):
        assert task.slot(number)[0] is Code.OK
        assert task.scan(number, source.id, Program()) is Code.OK
    task.release(1)
    task.release(1)
    assert len(provider.closed) == 1
    task.done()
    task.release(0)
    assert len(provider.closed) == len({id(cursor) for cursor in provider.closed}) == 3


@pytest.mark.parametrize("code", list(Code))
def test_5_4_3_done_with_any_code_closes_cursors_invalidates_slots_moves_the_watermark(
    world: World, code: Code
) -> None:
    world.emit_numbers(0, 3)
    task = world.task()
    slots = [Slot(world, task) for _ in range(3)]
    assert [slot.scan(LIVE) for slot in slots] == [Code.OK] * 3
    world.emit_numbers(3, 2)
    later = world.read()
    assert world.source.watermark() == 3
    assert task.done(code) is Code.OK
    assert task.ended is code
    assert world.source.open_cursors() == 1
    assert world.source.watermark() == 5
    assert [task.handle(slot.number) for slot in slots] == [None] * 3
    assert later.drain() == world.fold(5)


def test_6_1_1_and_6_1_2_emits_and_deletes_between_nexts_are_invisible(world: World) -> None:
    world.emit_numbers(0, 7)
    expected = world.fold()
    slot = world.read()
    found = []
    number = 7
    while slot.next(2) is Code.OK:
        found += slot.batch()
        world.emit_numbers(number, 3)
        world.emit(doc(number, "k5", gone=True))
        number += 3
        world.compact()
    assert found == expected


def test_6_1_3_snapshot_pins_the_current_version_and_no_older(world: World) -> None:
    for number in range(5):
        world.emit_numbers(number, 1)
        slot = world.read()
        handle = slot.task.handle(slot.number)
        assert handle is not None
        assert handle.pinned_version == world.provider.version() == number + 1
    # A program cannot name an older version: a table starts at the current one, and a log's range may not pass its end.
    older = Program(Seq(2)) if world.is_table else Program(OffsetRange(0, 6))
    assert world.refusal(older) is Code.INVALID


@pytest.mark.providers("reference")
def test_6_2_1_live_is_invalid_where_it_is_not_declared(world: World) -> None:
    source = SourceTask("still", ReferenceProvider(live=False))
    assert source.open(LIVE).code is Code.INVALID
    assert source.open(Program()).code is Code.OK
    assert world.refusal(Program(Last(), Mode.LIVE)) is Code.INVALID


def test_6_2_2_root_first_then_the_tail_without_gap_duplicate_or_reorder(world: World) -> None:
    world.emit_numbers(0, 20)
    root = world.fold()
    slot = world.read(LIVE)

    def write() -> None:
        for number in range(20, 620, 3):
            world.emit_numbers(number, 3)
            if number % 5 == 0:
                world.emit(doc(number, "k3", gone=True))

    writer = threading.Thread(target=write)
    writer.start()
    found = []
    while True:
        over = not writer.is_alive()
        if slot.next(7) is Code.OK:
            found += slot.batch()
        elif over:
            break
        else:
            time.sleep(0.0005)  # a busy-waiting reader would starve the writer
    assert found == root + world.tail(20)
    assert any(row.get("deleted") for row in found) is world.is_table


def test_6_2_3_pinned_stays_the_start_version(world: World) -> None:
    world.emit_numbers(0, 3)
    slot = world.read(LIVE)
    for number in range(3, 9, 2):
        world.emit_numbers(number, 2)
        slot.drain()
        handle = slot.task.handle(slot.number)
        assert handle is not None
        assert handle.pinned_version == 3


def test_6_2_4_idle_next_and_read_are_invalid_without_blocking(world: World) -> None:
    world.emit_numbers(0, 3)
    slot = world.read(LIVE)
    slot.drain()
    began, calls = time.monotonic(), 0
    while calls < 200:
        assert (slot.next(), slot.blob()[0]) == (Code.INVALID, Code.INVALID)
        calls += 1
    assert time.monotonic() - began < 60  # a call that waits for data would never return here


@pytest.mark.providers("memory", "file", "table")
def test_f_live_start_in_the_future_is_invalid(world: World) -> None:
    world.emit_numbers(0, 3)
    assert world.refusal(Program(Seq(4), Mode.LIVE)) is Code.INVALID
    assert world.read(Program(Seq(3), Mode.LIVE)).next() is Code.INVALID


@pytest.mark.providers("table")
def test_f_live_start_that_is_collected_is_rejected(world: World) -> None:
    world.emit_numbers(0, 3)
    assert world.refusal(Program(Seq(1), Mode.LIVE)) is Code.REJECTED


def test_h_ended_source_still_gives_snapshots(world: World) -> None:
    world.emit_numbers(0, 9)
    before = world.read(LIVE)
    world.source.end()
    assert world.rows() == world.fold()
    assert world.refusal(LIVE) is Code.REJECTED
    assert before.drain() == world.fold()


def test_i_dead_incarnation_is_rejected(world: World, tmp_path: Path) -> None:
    world.emit_numbers(0, 3)
    slot = world.read()
    newer = make_world("reference", tmp_path / "newer")
    newer.source.id = world.id._replace(inc=world.id.inc + 1)
    world.engine.register(newer.source)
    assert slot.next() is Code.REJECTED
    assert slot.blob()[0] is Code.REJECTED
    assert world.refusal(Program()) is Code.REJECTED
    task = world.task()
    _, number = task.slot()
    assert task.scan(number, world.id._replace(inc=99), Program()) is Code.REJECTED
    assert task.scan(number, world.id._replace(topic="nobody"), Program()) is Code.INVALID
    assert task.scan(number, newer.source.id, Program()) is Code.OK


@pytest.mark.providers("memory", "file")
def test_i_append_of_n_moves_the_version_by_n_and_a_range_gives_the_same_for_every_later_one(world: World) -> None:
    world.emit_numbers(0, 10)
    first = world.read(Program(OffsetRange(3, 8))).golden(3, 3, 3)
    for number in range(10, 40, 6):
        world.emit_numbers(number, 6)
        assert world.provider.version() == number + 6
        assert world.read(Program(OffsetRange(3, 8))).golden(3, 3, 3) == first


def test_i_hold_is_the_pin_until_the_root_is_delivered_then_the_position(world: World) -> None:
    world.emit_numbers(0, 6)
    slot = world.read(LIVE)
    world.emit_numbers(6, 6)
    slot.next(2)
    assert world.source.watermark() == 6
    while world.source.watermark() == 6 and slot.next(2) is Code.OK:
        pass
    slot.drain(5)
    assert world.source.watermark() == 12
    handle = slot.task.handle(slot.number)
    assert handle is not None
    assert handle.pinned_version == 6


@pytest.mark.providers("memory", "file")
def test_i_behind_the_floor_is_rejected_and_a_live_reader_opens_anew_there(world: World) -> None:
    log = world.log  # type: ignore[attr-defined]
    snapshot, live = None, None
    for number in range(0, 900, 30):
        world.emit_numbers(number, 30)
        if snapshot is None:
            snapshot, live = world.read(), world.read(LIVE)
    assert snapshot is not None and live is not None
    log.trim(600)
    floor = world.provider.floor()
    assert 30 < floor <= 600
    assert [snapshot.next(), snapshot.next()] == [Code.REJECTED] * 2
    assert [live.next(), live.next()] == [Code.REJECTED] * 2
    assert world.refusal(Program(Seq(floor - 1), Mode.LIVE)) is Code.REJECTED
    again = world.read(Program(Seq(floor), Mode.LIVE))
    assert again.drain(100) == world.fold()[floor:]
    assert world.refusal(Program(OffsetRange(0, 1))) is Code.REJECTED
