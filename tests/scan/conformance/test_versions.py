"""2, 3, 9 and 10: versions, roots, isolation from the writer, and garbage collection."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.contracts.cursor import Code, Mode, OffsetRange, Program, Seq, Step
from helpers.root_hash import RootHash, root_hash
from helpers.scan_worlds import World, doc, make_world

LIVE = Program(Seq(), Mode.LIVE)


def test_2_3_new_task_is_empty_and_versions_count_successful_emits(world: World) -> None:
    assert world.provider.version() == 0
    assert world.read().next() is Code.INVALID
    assert world.read(LIVE).next() is Code.INVALID
    for number in range(5):
        world.emit_numbers(number, 1)
        assert world.provider.version() == number + 1
        world.fail_to_emit()
        assert world.provider.version() == number + 1
    assert world.rows() == world.fold()


@pytest.mark.providers("file", "rolled")
def test_2_3_version_and_wal_survive_a_restart(world: World) -> None:
    world.emit_numbers(0, 300)
    before = root_hash(world.provider)
    again = world.reopened()  # type: ignore[attr-defined]
    assert again.provider.version() == 300
    assert root_hash(again.provider) == before
    assert again.rows() == world.fold()


def test_2_4_hash_of_a_root_does_not_change_under_later_emits(world: World) -> None:
    world.emit_numbers(0, 12)
    _, before = root_hash(world.provider)
    slot = world.read()
    world.emit_numbers(12, 30)
    world.emit(doc(1, "k1", gone=True))
    world.compact()
    assert slot.drain() == world.fold(12)
    if not world.is_table:
        assert _hash_of_range(world, 12) == before
    handle = slot.task.handle(slot.number)
    assert handle is not None
    executor = world.source.executor(handle.cursor_id)
    assert not [name for name in dir(executor) if name.startswith(("set", "write", "append", "put", "delete"))]


def _hash_of_range(world: World, stop: int) -> str:
    found = RootHash(world.provider.candidates())
    cursor = world.provider.open(Program(OffsetRange(0, stop)))
    while cursor.next(Step(limit=5)) is Code.OK:
        found.update(cursor.read()[1])
    return found.hexdigest()


def test_2_14_scanner_task_reads_one_source_and_emits_its_own_state(world: World, tmp_path: Path) -> None:
    world.emit_numbers(0, 10)
    target = make_world("reference", tmp_path / "target")
    slot = world.read(LIVE)
    seen = 0
    for first, more in ((10, 2), (12, 5)):
        world.emit_numbers(first, more)
        rows = slot.drain(3)
        seen += len(rows)
        target.emit(*(doc(index) for index in range(len(rows))))
    assert target.provider.version() == seen == len(world.fold(10)) + 7
    assert target.rows() == target.fold()


def test_3_1_reading_the_wal_again_gives_the_same_order(world: World) -> None:
    slots = [world.read(LIVE) for _ in range(3)]
    for number in range(0, 60, 4):
        world.emit_numbers(number, 4)
        slots[0].next(1)
    first = slots[1].drain(7)
    assert first == slots[2].drain(100) == world.tail(0)


def test_3_2_and_9_1_scans_leave_version_root_and_wal_unchanged(world: World) -> None:
    world.emit_numbers(0, 25)
    before, wal = root_hash(world.provider), world.rows()
    for program in (Program(), LIVE):
        slot = world.read(program)
        slot.drain(3)
        slot.next(1, seek=0 if not world.is_table else "k1")
        slot.task.done()
    assert root_hash(world.provider) == before
    assert world.rows() == wal
    assert world.source.open_cursors() == 0


def test_3_3_every_root_is_the_fold_of_its_prefix(world: World) -> None:
    slots = []
    for number in range(30):
        slots.append(world.read())
        world.emit(doc(number, gone=number % 11 == 10))
        if number % 8 == 7:
            world.compact()
    slots.append(world.read())
    assert [slot.drain(4) for slot in slots] == [world.fold(version) for version in range(31)]


def test_3_4_same_root_hash_in_other_processes_and_under_other_hash_seeds(world: World, elsewhere: list[str]) -> None:
    world.emit_numbers(0, 60)
    world.emit(doc(3, "k3", gone=True))
    here = " ".join(map(str, (world.name, *root_hash(world.provider))))
    assert [here in said.splitlines() for said in elsewhere] == [True, True]


def test_3_5_and_9_2_version_and_root_are_never_torn_and_readers_take_no_lock(world: World) -> None:
    stop = threading.Event()
    sizes = [3, 1, 7, 2]

    def write() -> None:
        number = 0
        while not stop.is_set() and number < 2500:
            size = sizes[number % len(sizes)]
            world.emit_numbers(number, size)
            number += size

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        for _ in range(40):
            slot = world.read()
            handle = slot.task.handle(slot.number)
            assert handle is not None
            seen.append((handle.pinned_version, slot.drain(500)))
            slot.task.done()
    finally:
        stop.set()
        writer.join()
    boundaries = {0}
    number = 0
    while number < len(world.wal):
        number += sizes[number % len(sizes)]
        boundaries.add(number)
    for version, rows in seen:
        assert version in boundaries  # an append of n records is one swap
        assert rows == world.fold(version)


@pytest.mark.providers("memory", "file", "table")
def test_3_5_and_9_2_readers_go_on_while_the_writer_holds_every_lock(world: World) -> None:
    world.emit_numbers(0, 40)
    slot, live = world.read(), world.read(LIVE)
    held = [
        value
        for owner in (world.source, getattr(world, "log", None), getattr(world, "table", None))
        for value in (vars(owner).values() if owner is not None else ())
        if isinstance(value, type(threading.Lock()) | type(threading.RLock()))
    ]
    assert held
    for lock in held:
        assert lock.acquire(timeout=60)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.extend((slot.drain(9), live.drain(9))), daemon=True)
    reader.start()
    reader.join(60)
    for lock in held:
        lock.release()
    assert found == [world.fold(), world.fold()]


def test_9_4_threads_never_meet_a_container_that_changes_under_them(world: World) -> None:
    stop, faults = threading.Event(), []

    def guarded(work: object) -> threading.Thread:
        def run() -> None:
            try:
                while not stop.is_set():
                    work()  # type: ignore[operator]
            except BaseException as error:
                faults.append(error)

        return threading.Thread(target=run)

    numbers = iter(range(0, 1 << 30, 2))

    def write() -> None:
        world.emit_numbers(next(numbers), 2)
        if len(world.wal) > 1500:
            stop.set()

    def read() -> None:
        slot = world.read()
        assert slot.next(50) in (Code.OK, Code.INVALID)
        world.source.watermark()
        slot.task.done()

    def tail() -> None:
        slot = world.read(LIVE)
        for _ in range(10):
            slot.next(20)
        slot.task.done()

    def watch() -> None:
        list(world.source.readers)
        world.engine.reap()
        world.compact()

    threads = [guarded(work) for work in (write, read, read, tail, watch)]
    for thread in threads:
        thread.start()
    stop.wait(2)
    stop.set()
    for thread in threads:
        thread.join()
    assert faults == []


def test_10_1_pinned_root_is_identical_after_compaction_and_reopened_segments(world: World) -> None:
    world.emit_numbers(0, 200)
    plain, other = world.read(), world.read()
    plain.next(3)
    first = plain.batch()
    for number in range(200, 1200, 50):
        world.emit_numbers(number, 50)
        world.compact()
    if world.name == "file":
        mapped = world.log._segments.mapped  # type: ignore[attr-defined]
        while mapped:
            mapped.popleft().unmap()
    assert first + plain.drain(64) == world.fold(200)
    assert other.drain(10) == world.fold(200)


def test_10_2_watermark_is_the_lowest_hold_after_open_close_done_and_with_none(world: World) -> None:
    source = world.source
    assert source.watermark() is None
    world.emit_numbers(0, 3)
    first = world.read()
    assert source.watermark() == 3
    world.emit_numbers(3, 2)
    second, third = world.read(), world.read(LIVE)
    assert source.watermark() == 3
    first.task.release(first.number)
    assert source.watermark() == 5
    world.emit_numbers(5, 4)
    third.drain()
    assert source.watermark() == 5
    second.task.done(Code.PANIC)
    assert source.watermark() == 9
    third.task.done()
    assert source.watermark() is None


@pytest.mark.providers("memory", "table")
def test_10_3_memory_below_the_watermark_is_freed_and_the_rest_is_unchanged(world: World) -> None:
    gc.collect()
    others = _held(world)
    world.emit(*(doc(number, f"k{number:05}") for number in range(3000)))
    slot = world.read(LIVE)
    for later in (1, 2, 3):
        world.emit(*(doc(number + later, f"k{number:05}") for number in range(3000)))
    before = _held(world) - others
    if world.name == "memory":
        assert len(slot.drain(1000)) == 12_000
        world.log.trim(world.source.watermark())  # type: ignore[attr-defined]
    else:
        slot.task.done()
        for number in range(6000, 6003):
            world.emit_numbers(number, 1)
            world.compact()
    gc.collect()
    assert _held(world) - others < 0.7 * before
    floor = world.provider.floor() if world.name == "memory" else 0
    assert world.rows() == world.fold()[floor:]


def _held(world: World) -> int:
    """The bytes of everything that the storage still references (for a table: including other memory of Arrow's
    pool)."""
    if world.name == "memory":
        return sum(chunk.nbytes for chunk in world.log._blocks.chunks if chunk is not None)  # type: ignore[attr-defined]
    return int(pa.total_allocated_bytes())


def test_10_4_roots_are_the_same_under_every_strategy_of_compaction(world: World, tmp_path: Path) -> None:
    lazy = make_world(world.name, tmp_path / "lazy")
    for number in range(0, 120, 3):
        for each in (world, lazy):
            each.emit_numbers(number, 3)
            each.emit(doc(number, f"k{number % 5}", gone=number % 4 == 0))
        world.compact()
    assert root_hash(world.provider) == root_hash(lazy.provider)
    assert world.read().golden(3, 5, 100) == lazy.read().golden(3, 5, 100)
