"""Clauses over every provider × {plain, staged, agg} × output: they hold for every kind of program."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from gauss.contracts.cursor import Code, Mode, Output, Program, Seq, Step
from gauss.scan.program.blob import encode_program, encode_step
from gauss.scan.resources import RESOURCES
from helpers.scan_cases import Case, case_name, cases, fuel
from helpers.scan_worlds import Slot, doc, make_world
from helpers.waiting import wait_until

ALL = pytest.mark.parametrize("case", cases(), indirect=True, ids=case_name)
READING = pytest.mark.parametrize(
    "case", [each for each in cases() if each[1] != "agg"], indirect=True, ids=case_name
)  # agg returns one row of a snapshot


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    provider, kind, output = request.param
    return Case(make_world(provider, tmp_path), kind, output)


def bad_steps(case: Case) -> list[Any]:
    outside: Any = 5 if case.world.is_table else -1
    return [
        Step(0),
        Step(-1),
        Step(5, 0),
        Step(5, seek=1.5),  # type: ignore[arg-type]
        Step(5, seek=outside),
        b"",
        b"junk",
        encode_step(Step(5)) + b"\0",
        encode_program(Program()),
        None,
        7,
    ]


@ALL
def test_5_2_2_and_7_6_batches_hold_up_to_the_limit_and_together_the_model(case: Case) -> None:
    case.world.emit(doc(0))
    case.world.emit_numbers(1, 40)
    for limit, size in ((1, 1 << 20), (7, 1 << 20), (1000, 1 << 20), (1000, 150), (3, 1)):
        slot, found = case.open(), []
        while slot.next(limit, max_bytes=size) is Code.OK:
            rows = case.rows(slot.blob()[1])
            assert 1 <= len(rows) <= limit
            assert len(rows) == 1 or sum(map(case.size, rows)) <= size
            found += rows
        assert found == case.expected()
        assert [slot.next(), slot.next()] == [Code.INVALID] * 2


@ALL
def test_5_3_2_repeated_read_gives_the_same_bytes(case: Case) -> None:
    case.world.emit_numbers(0, 9)
    slot = case.open()
    assert slot.next(2) is Code.OK
    first = slot.blob()
    case.world.emit_numbers(9, 5)
    case.world.compact()
    if isinstance(item := slot.task.take(slot.number)[1], list):
        item.clear()  # callers may modify the list that they receive
    assert [slot.blob() for _ in range(2)] == [first] * 2


@ALL
def test_5_3_3_read_after_a_step_that_failed_is_invalid(case: Case) -> None:
    case.world.emit_numbers(0, 9)
    for bad in bad_steps(case):
        slot = case.open()
        assert slot.blob() == (Code.INVALID, b"")
        assert slot.next(1) is Code.OK
        assert slot.task.next(slot.number, bad) is Code.INVALID, bad
        assert slot.blob() == (Code.INVALID, b""), bad


@ALL
def test_7_5_and_7_7_bad_step_is_invalid_and_leaves_the_cursor(case: Case) -> None:
    case.world.emit_numbers(0, 9)
    slot = case.open()
    for bad in bad_steps(case):
        assert slot.task.next(slot.number, bad) is Code.INVALID, bad
    assert case.drained(slot, Step(2)) == case.expected()


@ALL
def test_7_5_seek_lands_identically_or_is_invalid_for_an_aggregate(case: Case) -> None:
    case.world.emit_numbers(0, 14)
    target: Any = "k3" if case.world.is_table else 3
    found = []
    for before in (0, 1, 2):
        slot = case.open()
        for _ in range(before):
            slot.next(2)
        code = slot.next(1000, seek=target)
        if case.kind == "agg":
            assert code is Code.INVALID
            assert before or case.drained(slot, Step()) == case.expected()
            continue
        assert code is Code.OK
        found.append(case.rows(slot.blob()[1]))
    assert case.kind == "agg" or found == [case.of(case.world.fold()[3:])] * 3


@READING
def test_6_1_1_and_6_1_2_emits_between_steps_are_invisible_to_a_snapshot(case: Case) -> None:
    case.world.emit_numbers(0, 7)
    expected, slot, found = case.expected(), case.open(), []
    while slot.next(2) is Code.OK:
        found += case.rows(slot.blob()[1])
        case.world.emit_numbers(7, 3)
        case.world.compact()
    assert found == expected


@READING
def test_6_2_2_live_gives_the_root_then_the_tail_in_steps_of_any_size(case: Case) -> None:
    case.world.emit_numbers(0, 9)
    root, first = case.world.fold(), case.open(case.live)
    found = case.drained(first, Step(4, 120))
    for number in range(9, 30, 7):
        case.world.emit_numbers(number, 7)
        found += case.drained(first, Step(4, 120))
    assert found == case.of(root) + case.of(case.world.tail(9))
    assert [first.next(), first.blob()[0]] == [Code.INVALID] * 2


@READING
def test_position_of_a_live_scan_is_the_pin_within_the_root_of_a_table_and_the_place_in_a_log(case: Case) -> None:
    case.world.emit_numbers(0, 7)
    slot = case.open(case.live)
    handle = slot.task.handle(slot.number)
    assert handle is not None
    executor = case.world.source.executor(handle.cursor_id)
    assert slot.next(2) is Code.OK
    if case.world.is_table:
        assert executor.position == 7
    else:
        last = case.rows(slot.blob()[1])[-1]
        assert executor.position == last[next(name for name in ("n", "offset", "value") if name in last)] + 1
    assert executor.hold == 7


@ALL
def test_5_4_3_done_closes_the_cursor_and_moves_the_watermark(case: Case) -> None:
    case.world.emit_numbers(0, 3)
    slot = case.open()
    slot.next(1)
    assert case.world.source.watermark() == 3
    slot.task.done()
    assert (case.world.source.open_cursors(), case.world.source.watermark()) == (0, None)


@ALL
def test_8_3_batch_is_cut_at_the_most_bytes_and_a_larger_row_is_rejected_and_passed_by_a_seek(case: Case) -> None:
    case.world.emit_numbers(0, 14)
    expected = case.expected()
    sizes = [case.size(row) for row in expected]
    case.limit(max_batch_bytes=2 * max(sizes))
    slot, found = case.open(), []
    while slot.next(1000) is Code.OK:
        rows = case.rows(slot.blob()[1])
        assert sum(map(case.size, rows)) <= 2 * max(sizes)
        found += rows
    assert found == expected
    case.limit(max_batch_bytes=min(sizes) - 1)
    slot = case.open()
    assert [slot.next(1000), slot.next(1), slot.blob()[0]] == [Code.REJECTED, Code.REJECTED, Code.INVALID]


@ALL
def test_8_3_limit_above_the_most_items_is_rejected(case: Case) -> None:
    case.world.emit_numbers(0, 9)
    case.limit(max_batch_items=5)
    slot = case.open()
    assert [slot.next(6), slot.blob()[0]] == [Code.REJECTED, Code.INVALID]
    assert slot.next(5) is Code.OK


@ALL
def test_8_3_fuel_of_a_scan_stops_at_the_limit_for_good(case: Case) -> None:
    case.world.emit(*(doc(number, f"k{number:04}") for number in range(500)))
    free = case.open()
    case.drained(free, Step(3))
    whole = fuel(case, free)
    case.limit(max_fuel_scan=whole)
    assert case.drained(case.open(), Step(1000)) == case.expected(), "what it costs is enough"
    case.limit(max_fuel_scan=whole // 3)
    found, ended = [], []
    for limit in (1, 7, 1000):
        slot, rows = case.open(), []
        while (code := slot.next(limit)) is Code.OK:
            rows += case.rows(slot.blob()[1])
        assert [code, slot.next(1), slot.blob()[0]] == [Code.REJECTED] * 3
        found.append(rows)
        ended.append(fuel(case, slot))
    assert found == [found[0]] * 3
    assert ended == [ended[0]] * 3
    assert ended[0] <= whole // 3
    assert found[0] == case.expected()[: len(found[0])]
    assert case.kind == "agg" or found[0]


@ALL
def test_8_3_no_more_is_read_than_the_fuel_pays_for(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.world.emit(*(doc(number, f"k{number:04}") for number in range(2000)))
    case.limit(max_fuel_scan=400)
    slot = case.open()
    cursor = case.world.source.executor(slot.task.handle(slot.number).cursor_id).cursor  # type: ignore[union-attr]
    cursor = getattr(cursor, "cursor", cursor)
    read, fetched = cursor.read, []

    def counted() -> Any:
        code, item = read()
        counts = (
            [each.chunk.count for each in item] if isinstance(item, list) else [cast(pa.RecordBatch, item).num_rows]
        )
        fetched.append(sum(counts))
        return code, item

    monkeypatch.setattr(cursor, "read", counted)
    while slot.next(1000) is Code.OK:
        pass
    assert slot.next(1000) is Code.REJECTED
    assert fuel(case, slot) <= 400
    assert 0 < sum(fetched) <= 400 // 8 + 1


@ALL
def test_8_3_row_that_can_never_be_paid_is_rejected_at_open(case: Case) -> None:
    case.world.emit_numbers(0, 3)
    for limit in ({"max_fuel_item": 7}, {"max_fuel_scan": 7}):
        case.limit(**{"max_fuel_item": 1 << 40, "max_fuel_scan": 1 << 40, **limit})
        assert case.world.refusal(case.program) is Code.REJECTED
    assert case.world.source.open_cursors() == 0


@ALL
def test_8_3_fuel_of_one_row_is_bounded_and_the_position_is_kept(case: Case) -> None:
    case.world.emit(doc(0, "k0"))
    case.world.emit({**doc(1, "k1"), "symbol": "X" * 6400})
    case.world.emit(doc(2, "k2"))
    case.limit(max_fuel_item=90)
    slot = case.open()
    codes = [slot.next(10), slot.next(10), slot.next(1)]
    if case.kind == "agg" and "." not in case.program.text.split("|")[0]:
        assert codes == [Code.OK, Code.INVALID, Code.INVALID], "records that are only counted are not read"
    elif case.kind == "agg":
        assert codes == [Code.REJECTED] * 3
    else:
        assert codes == [Code.OK, Code.REJECTED, Code.REJECTED]
        assert slot.next(10, seek="k2" if case.world.is_table else 2) is Code.OK
        assert case.rows(slot.blob()[1]) == case.of(case.world.fold()[2:])


@ALL
def test_12_1_and_12_2_calls_bytes_errors_and_fuel_are_counted(case: Case) -> None:
    case.world.emit_numbers(0, 9)
    task = case.world.task()
    assert task.next(0, Step()) is Code.INVALID
    assert task.used()[RESOURCES.index("init")] == 1
    slot = Slot(case.world, task)
    assert slot.scan(case.program) is Code.OK
    assert slot.next(4) is Code.OK
    size = len(slot.blob()[1])
    assert slot.next(0) is Code.INVALID
    assert slot.blob()[0] is Code.INVALID
    used = dict(zip(RESOURCES, task.used(), strict=True))
    assert [used[name] for name in ("scan", "next", "read", "errs", "recv")] == [1, 3, 2, 3, size]
    assert used["fuel"] > 3
    assert not task._busy


@ALL
def test_g_lapsed_lease_frees_the_pin_though_a_bad_call_came_last(case: Case) -> None:
    case.world.emit_numbers(0, 4)
    slot = case.open(lease_seconds=0.02)
    slot.next(1)
    slot.task.next(slot.number, None)  # type: ignore[arg-type]
    wait_until(slot.task.lapsed)
    assert case.world.engine.reap() == 1
    assert (slot.task.ended, case.world.source.open_cursors()) == (Code.REJECTED, 0)


@ALL
def test_5_4_3_lease_that_lapses_while_a_scan_is_opened_leaves_no_cursor(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.world.emit_numbers(0, 4)
    number, task = case.world.engine.reader(lease_seconds=30)
    _, slot = task.slot()
    open_ = case.world.source.open

    def slowly(program: Program | bytes) -> Any:
        opened = open_(program)
        assert not task.lapsed(), "whoever opens a scan has not gone"
        case.world.engine.done(number, Code.REJECTED)  # as another call that renews the lease would
        return opened

    monkeypatch.setattr(case.world.source, "open", slowly)
    assert task.scan(slot, case.world.id, case.program) is Code.PANIC
    assert (case.world.source.open_cursors(), case.world.source.watermark()) == (0, None)
    assert case.world.source.readers == []


@ALL
def test_11_2_audit_gives_the_same_and_survives_seeks(case: Case, tmp_path: Path) -> None:
    audited = Case(make_world(case.world.name, tmp_path / "audited", audit=True), case.kind, case.output)
    for each in (case, audited):
        each.world.emit_numbers(0, 9)
    target: Any = "k2" if case.world.is_table else 2
    steps = [Step(2), Step(2, seek=target), Step(3, 100), Step(1000), Step(1)]
    assert audited.answers(steps) == case.answers(steps)


@pytest.mark.parametrize("output", [Output.ROWS, Output.COLUMNAR])
@pytest.mark.providers("table")
def test_6_1_3_snapshot_of_an_older_version_is_invalid_though_it_is_held(world: Any, output: Output) -> None:
    world.emit_numbers(0, 10)
    held = world.table.hold()
    world.emit_numbers(10, 10)
    assert world.refusal(Program(Seq(held), Mode.SNAPSHOT, output)) is Code.INVALID
    world.table.unpin(held)
