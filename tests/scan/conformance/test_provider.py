"""4, 8, 11 and 13: duties, capabilities and error codes of providers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.cursor import (
    OUT_IDS,
    VIEW_IDS,
    Capabilities,
    Code,
    KeyRange,
    Last,
    Mode,
    OutId,
    Output,
    Program,
    Seq,
    Step,
    ViewId,
)
from gauss.model.errors import ConfigError, StorageError
from gauss.scan.program import blob
from gauss.scan.program.parse import parse_scan
from gauss.scan.resources import OpKind
from gauss.scan.sources import SourceTask
from helpers.reference_provider import ReferenceCursor, ReferenceProvider
from helpers.scan_worlds import GOLDEN, LIMITS, Slot, World, golden, json_format, make_world


def limited(world: World, **changes: Any) -> World:
    """The same world with other capabilities."""
    world.source.capabilities = dataclasses.replace(world.source.capabilities, **changes)
    world.provider.capabilities = world.source.capabilities
    return world


def test_4_1_views_without_a_provider_are_refused(world: World) -> None:
    class Declares:
        inc = 1
        capabilities = world.provider.capabilities

    with pytest.raises(ConfigError, match="without a provider"):
        SourceTask("broken", Declares())  # type: ignore[arg-type]


def test_4_2_source_has_four_calls_and_close_returns_nothing(world: World) -> None:
    world.emit_numbers(0, 3)
    opened = world.source.open(Program())
    assert opened.code is Code.OK
    assert world.source.next(opened.cursor_id, Step()) is Code.OK
    assert world.source.read(opened.cursor_id)[0] is Code.OK
    assert world.source.close(opened.cursor_id) is None  # type: ignore[func-returns-value]
    assert world.source.close(opened.cursor_id) is None  # type: ignore[func-returns-value]


def test_4_3_unknown_or_foreign_cursor_is_invalid(world: World, tmp_path: Path) -> None:
    world.emit_numbers(0, 3)
    other = make_world("reference", tmp_path / "other")
    other.emit_numbers(0, 3)
    foreign = other.source.open(Program()).cursor_id
    for cursor_id in (0, -1, 10**9, foreign):
        assert world.source.next(cursor_id, Step()) is Code.INVALID
        assert world.source.read(cursor_id) == (Code.INVALID, None)
        world.source.close(cursor_id)
    assert other.source.next(foreign, Step()) is Code.OK


def test_4_4_bad_program_is_invalid_at_open_and_bad_step_at_next(world: World) -> None:
    world.emit_numbers(0, 9)
    good = blob.encode_program(Program())
    for bad in (b"", b"\x00", b"not a program", good[:-1], good + b"\x00", b"\xff" * 64):
        assert world.refusal(bad) is Code.INVALID, bad
    slot = world.read(good)
    step = blob.encode_step(Step(3))
    for bad in (b"", b"\x00", step[:-1], step + b"\x01", good):
        assert slot.task.next(slot.number, bad) is Code.INVALID, bad
    assert slot.task.next(slot.number, step) is Code.OK
    assert slot.batch() == world.fold()[:3]


def test_4_4_bytes_on_the_wire_grow_with_the_output_not_the_input(world: World) -> None:
    received = []
    for size in (70, 7000):
        world.emit_numbers(len(world.wal), size)
        slot = world.read(parse_scan('seq | select(.n == 5 or .k == "k5") | .k') if world.is_table else _FIVE)
        slot.drain()
        slot.blob()
        received.append(slot.task.resources.recv)
    assert received[0] == received[1] > 0


_FIVE = parse_scan("seq | select(.n == 5) | .k")


@pytest.mark.providers("memory", "file")
def test_4_5_native_fast_path_on_and_off_gives_the_same_bytes_codes_and_fuel(world: World, tmp_path: Path) -> None:
    slow = make_world(world.name, tmp_path / "slow", native=False)
    for number in range(0, 500, 20):
        for each in (world, slow):
            each.emit_numbers(number, 20)
    for text in ("agg(n: count)", "agg(n: count) | .n * 2", "agg(n: count) | select(.n > 1000)"):
        one, two = world.read(parse_scan(text)), slow.read(parse_scan(text))
        assert one.golden(1, 5, 5) == two.golden(1, 5, 5)
        assert one.task.resources.fuel == two.task.resources.fuel


def test_8_1_capabilities_are_complete_and_optionals_have_defaults(world: World) -> None:
    capabilities = world.provider.capabilities
    assert capabilities.views <= VIEW_IDS.keys()
    assert capabilities.views and capabilities.outputs
    for name in ("max_fuel_item", "max_fuel_scan", "max_batch_items", "max_batch_bytes"):
        assert getattr(capabilities, name) > 0
    bare = Capabilities(frozenset({Seq}), frozenset({Output.ROWS}), live=False)
    assert (bare.ops, bare.builtins, bare.jit, bare.seek) == (None, None, True, False)


def test_8_1_without_jit_no_compiled_program_is_kept(world: World) -> None:
    program = parse_scan("seq | .k")
    world.read(program)
    assert list(world.source._bound) == [program]
    still = limited(make_world("reference", Path()), jit=False)
    still.read(program)
    assert list(still.source._bound) == []


def test_8_2_unknown_ids_are_invalid(world: World) -> None:
    for number in (0x0302_0000, 0x0302_0008, 0x8001):
        with pytest.raises(ValueError, match=str(number)):
            ViewId(number)
    with pytest.raises(ValueError, match=str(0x0303_0006)):
        OutId(0x0303_0006)
    encoded = blob.encode_program(Program())
    for index in range(len(encoded)):
        for flip in (0x80, 0xFF):
            changed = bytearray(encoded)
            changed[index] ^= flip
            assert world.refusal(bytes(changed)) in (Code.INVALID, Code.REJECTED, Code.OK)
    assert set(OUT_IDS.values()) == set(OutId) - {OutId.TAGGED}
    assert not {ViewId.KNN, ViewId.BITMAP} & set(VIEW_IDS.values())


def test_8_3_undeclared_view_op_builtin_and_output_are_invalid(world: World) -> None:
    world.emit_numbers(0, 3)
    undeclared = Program(KeyRange("a", "b")) if not world.is_table else Program(Last())
    assert world.refusal(undeclared) is Code.INVALID
    limited(world, ops=frozenset({"select", "value", "=="}), builtins=frozenset({"length"}))
    assert world.refusal(parse_scan("seq | .bid + 1")) is Code.INVALID
    assert world.refusal(parse_scan('seq | select(.k | startswith("k"))')) is Code.INVALID
    assert world.read(parse_scan("seq | select((.k | length) == 2) | .k")).next() is Code.OK
    limited(world, outputs=frozenset({Output.COLUMNAR}))
    assert world.refusal(Program()) is Code.INVALID
    assert world.read(Program(output=Output.COLUMNAR)).drain() == world.fold()


def test_8_3_static_cost_above_the_scans_fuel_is_rejected_at_open(world: World) -> None:
    limited(world, max_fuel_scan=20)
    assert world.refusal(parse_scan("seq | .bid * 2 + .n * 3")) is Code.REJECTED
    assert world.source.open_cursors() == 0


def test_8_3_runtime_fuel_of_the_scan_is_rejected_for_good(world: World) -> None:
    world.emit_numbers(0, 50)
    program = parse_scan("seq | .k")
    free = world.read(program)
    assert free.next(3) is Code.OK
    first, spent = free.batch(), _executor(world, free).fuel
    limited(world, max_fuel_scan=spent)
    slot = world.read(program)
    assert slot.next(100) is Code.OK
    assert slot.batch() == first
    assert [slot.next(), slot.next(1), slot.blob()[0]] == [Code.REJECTED] * 3


def _executor(world: World, slot: Slot) -> Any:
    handle = slot.task.handle(slot.number)
    assert handle is not None
    return world.source.executor(handle.cursor_id)


def test_8_3_plain_scan_pays_too(world: World) -> None:
    world.emit_numbers(0, 50)
    limited(world, max_fuel_scan=40)
    slot = world.read()
    codes = [slot.next(2) for _ in range(12)]
    assert Code.REJECTED in codes
    assert codes[codes.index(Code.REJECTED) :] == [Code.REJECTED] * (12 - codes.index(Code.REJECTED))


def test_8_3_limit_above_the_most_items_is_rejected(world: World) -> None:
    world.emit_numbers(0, 20)
    limited(world, max_batch_items=5)
    for program in (Program(), parse_scan("seq | .k")):
        slot = world.read(program)
        assert slot.next(6) is Code.REJECTED
        assert slot.next(5) is Code.OK
        assert len(slot.batch()) == 5


def test_8_3_batch_is_cut_at_its_most_bytes_and_a_larger_row_is_rejected(world: World) -> None:
    world.emit_numbers(0, 7)
    expected = [row["data"] for row in world.fold()]
    program = parse_scan("seq | {data}")
    size = max(map(len, expected))
    limited(world, max_batch_bytes=3 * size)
    slot = world.read(program)
    found = []
    while slot.next(100) is Code.OK:
        rows = slot.batch()
        assert sum(len(row["data"]) for row in rows) <= 3 * size
        found += [row["data"] for row in rows]
    assert found == expected
    limited(world, max_batch_bytes=size - 1)
    assert Code.REJECTED in [world.read(program).next() for _ in range(1)] + _codes(world, program)


def _codes(world: World, program: Program) -> list[Code]:
    slot = world.read(program)
    return [slot.next(1) for _ in range(9)]


class _Faulty(ReferenceProvider):
    """A provider that fails at a given call."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__(json_format())
        self.where, self.error = where, error
        self.append(*((number, b'{"k":"a"}') for number in range(5)))

    def open(self, program: Program) -> ReferenceCursor:
        if self.where == "open":
            raise self.error
        cursor = super().open(program)
        if self.where in ("next", "read"):

            def fail(*_: object) -> Any:
                raise self.error

            setattr(cursor, self.where, fail)
        return cursor


@pytest.mark.parametrize("where", ["open", "next", "read"])
@pytest.mark.parametrize("error", [RuntimeError("x"), ConfigError("x"), KeyError("x"), RecursionError("x")])
def test_13_3_providers_exception_is_panic_of_that_cursor_alone(where: str, error: Exception, tmp_path: Path) -> None:
    world = make_world("reference", tmp_path)
    world.emit_numbers(0, 3)
    faulty = SourceTask("faulty", _Faulty(where, error))
    world.engine.register(faulty)
    task = world.task()
    slot, other = Slot(world, task), Slot(world, task)
    assert other.scan(Program()) is Code.OK
    code = task.scan(slot.number, faulty.id, Program())
    if where == "open":
        # A provider may reject a program as invalid; any other error is an internal one.
        assert code is (Code.INVALID if isinstance(error, ConfigError) else Code.PANIC)
    else:
        assert code is Code.OK
        assert [slot.next(), slot.next(), slot.blob()[0]] == [Code.PANIC] * 3
    assert other.drain() == world.fold()


def test_13_2_source_that_cannot_be_reached_is_rejected(tmp_path: Path) -> None:
    world = make_world("reference", tmp_path)
    source = SourceTask("dead", _Faulty("next", StorageError("the disk is gone")))
    world.engine.register(source)
    task = world.task()
    _, slot = task.slot()
    assert task.scan(slot, source.id, Program()) is Code.OK
    assert [task.next(slot, Step()) for _ in range(2)] == [Code.REJECTED] * 2


def test_13_2_grant_denial_is_rejected(world: World) -> None:
    world.emit_numbers(0, 3)
    denied = OpKind.SCAN
    task = world.task(allow=lambda op: op is not denied)
    slot = Slot(world, task)
    assert slot.scan(Program()) is Code.REJECTED
    assert world.source.open_cursors() == 0
    denied = OpKind.READ
    assert slot.scan(Program()) is Code.OK
    assert slot.next() is Code.OK
    assert slot.blob() == (Code.REJECTED, b"")


@pytest.mark.parametrize(
    "text",
    [
        "seq | .nosuch",
        "seq | select(.symbol > 1)",
        "seq | .bid + .symbol",
        "seq | {a: .k | nosuch}",
    ],
)
def test_13_1_unknown_field_type_and_builtin_are_invalid(world: World, text: str) -> None:
    try:
        program = parse_scan(text)
    except ConfigError:
        return  # the language has no syntax for it
    assert world.refusal(program) is Code.INVALID


def test_13_1_end_idle_and_bad_step_are_invalid(world: World) -> None:
    world.emit_numbers(0, 2)
    snapshot, live = world.read(), world.read(Program(Seq(), Mode.LIVE))
    assert snapshot.next(0) is Code.INVALID
    snapshot.drain()
    live.drain()
    assert (snapshot.next(), live.next()) == (Code.INVALID, Code.INVALID)


class _Flaky(ReferenceProvider):
    """A provider that returns different bytes at each read."""

    asked = 0

    def open(self, program: Program) -> ReferenceCursor:
        cursor, read = super().open(program), None
        type(self).asked += 1
        number, read = self.asked, cursor.read

        def other() -> tuple[Code, pa.RecordBatch | None]:
            code, batch = read()
            if batch is not None:
                batch = batch.set_column(1, "ts_ms", pa.array([number] * batch.num_rows, pa.int64()))
            return code, batch

        cursor.read = other  # type: ignore[method-assign]
        return cursor


def test_11_2_flaky_provider_under_audit_is_panic_and_others_live_on(tmp_path: Path) -> None:
    world = make_world("memory", tmp_path, audit=True)
    world.emit_numbers(0, 30)
    provider = _Flaky(json_format())
    provider.append(*((number, b'{"k":"a"}') for number in range(5)))
    flaky = SourceTask("flaky", provider, audit=True)
    world.engine.register(flaky)
    task = world.task()
    bad, good = Slot(world, task), Slot(world, task)
    assert good.scan(parse_scan("seq | .k")) is Code.OK
    assert task.scan(bad.number, flaky.id, Program()) is Code.OK
    assert [bad.next(), bad.next()] == [Code.PANIC] * 2
    assert len(good.drain()) == 30


def test_11_1_golden_sequence_is_equal_across_processes_seeds_and_cpu_counts(
    world: World, elsewhere: list[str]
) -> None:
    here = f"{world.name} {golden(world)}"
    assert [here in said.splitlines() for said in elsewhere] == [True, True]


@pytest.mark.providers("memory", "file")
def test_11_1_logs_give_the_golden_sequence_of_the_reference(world: World, tmp_path: Path) -> None:
    assert golden(world) == golden(make_world("reference", tmp_path / "reference"))


def test_11_1_in_process_objects_and_blobs_are_the_same(world: World) -> None:
    world.emit_numbers(0, 40)
    for text in GOLDEN:
        program = parse_scan(text)
        typed, wired = world.read(program), world.read(blob.encode_program(program))
        for limit in LIMITS:
            code = wired.task.next(wired.number, blob.encode_step(Step(limit)))
            assert typed.next(limit) is code
            assert typed.blob() == wired.blob()
        assert typed.task.resources.fuel == wired.task.resources.fuel
