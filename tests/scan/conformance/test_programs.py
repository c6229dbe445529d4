"""2.5 to 2.7, 5.1.3, 7 and (a) to (c), (j), (k) of the profile: the syntax and results of programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gauss.contracts.cursor import Agg, Code, Last, Mode, OffsetRange, Output, Program, Step
from gauss.contracts.expression import Call, Path, Value
from gauss.model.errors import ConfigError
from gauss.scan.program import blob
from gauss.scan.program.parse import parse_scan
from helpers.row_programs import row_cost, run_row
from helpers.scan_items import decode_item
from helpers.scan_worlds import Slot, World, doc

SELECT = parse_scan('seq | select(.symbol == "BTC" and .n > 3) | {k, n, mid: .bid / 2}')


def docs(world: World) -> list[dict[str, Any]]:
    """The expected decoded records of the root."""
    return [msgspec.json.decode(row["data"]) for row in world.fold()]


def selected(world: World) -> list[dict[str, Any]]:
    return [
        {"k": each["k"], "n": each["n"], "mid": each["bid"] / 2}
        for each in docs(world)
        if each["symbol"] == "BTC" and each["n"] > 3
    ]


def limited(world: World, **changes: Any) -> World:
    world.source.capabilities = dataclasses.replace(world.source.capabilities, **changes)
    world.provider.capabilities = world.source.capabilities
    return world


def test_2_5_and_2_6_program_is_one_declared_view_then_expressions(world: World) -> None:
    world.emit_numbers(0, 30)
    assert world.rows(SELECT) == selected(world)
    for text in ("seq | seq", "seq(from: 1) | range(from: 2)", "| .k", "teleport | .k", "seq, seq"):
        with pytest.raises(ConfigError):
            parse_scan(text)


def test_2_7_none_drops_the_row_and_some_null_is_a_row(world: World) -> None:
    world.emit_numbers(0, 14)
    nulls = world.rows(parse_scan("seq | .bid / 0"))
    assert nulls == [{"value": None}] * len(world.fold())
    assert world.rows(parse_scan("seq | select(.n < 0) | .bid / 0")) == []


def test_2_7_generator_is_invalid_at_open() -> None:
    for text in ("seq | .k, .n", "seq | .[]", "seq | range(5)", "seq | recurse"):
        with pytest.raises(ConfigError):
            parse_scan(text)


def test_5_1_3_step_cannot_change_program(world: World) -> None:
    world.emit_numbers(0, 20)
    slot = world.read(SELECT)
    assert {field.name for field in dataclasses.fields(Step)} == {"limit", "max_bytes", "seek", "fill"}
    for carried in (blob.encode_program(Program(Last())), blob.encode_program(parse_scan("seq | .bid", live=True))):
        assert slot.task.next(slot.number, carried) is Code.INVALID
        assert slot.task.next(slot.number, blob.encode_step(Step(5)) + carried) is Code.INVALID
    assert slot.drain(2) == selected(world)


def test_7_1_no_parameter_of_a_step_filters(world: World) -> None:
    world.emit_numbers(0, 30)
    steps = [Step(1), Step(7, 1), Step(1000, 50), Step(3, 1 << 20)]
    for program in (Program(), SELECT):
        found = []
        for step in steps:
            slot, rows = world.read(program), []
            while slot.task.next(slot.number, step) is Code.OK:
                rows += slot.batch()
            found.append(rows)
        assert found == [found[0]] * len(steps)
        assert found[0] == (world.fold() if program is not SELECT else selected(world))


def test_7_2_mode_comes_from_the_program(world: World) -> None:
    world.emit_numbers(0, 3)
    for program, mode in ((Program(), Mode.SNAPSHOT), (Program(mode=Mode.LIVE), Mode.LIVE)):
        slot = world.read(program)
        handle = slot.task.handle(slot.number)
        assert handle is not None
        assert handle.mode is mode
    live, still = world.read(parse_scan("seq | .n", live=True)), world.read(parse_scan("seq | .n"))
    live.drain(), still.drain()
    world.emit(doc(77))
    assert live.drain() == [{"value": 77}]
    assert still.drain() == []


def test_7_3_impure_operation_is_unrepresentable(world: World) -> None:
    for text in ("seq | now", "seq | input", "seq | env", "seq | .k |= 1", "seq | $x", 'seq | {a: "x" | system}'):
        with pytest.raises(ConfigError):
            parse_scan(text)
    forged = Program(stages=(Value(Call("now", Path(("k",)))),), text="seq | now")
    world.emit_numbers(0, 3)
    slot = Slot(world, world.task())
    assert Code.OK not in (slot.scan(forged) or slot.next(), slot.blob()[0])
    try:
        encoded = blob.encode_program(forged)
    except (ConfigError, ValueError):
        return  # no number represents it
    assert world.refusal(encoded) is Code.INVALID


@pytest.mark.providers("memory", "table")
def test_7_3_injected_impure_builtin_is_panic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.emit_numbers(0, 9)
    slot = world.read(SELECT)
    handle = slot.task.handle(slot.number)
    assert handle is not None
    binding = world.source.executor(handle.cursor_id)._binding  # type: ignore[attr-defined]

    def impure(*_: object) -> Any:
        raise OSError("an expression tried to open a file")

    monkeypatch.setattr(binding, "run", impure)
    assert slot.next() is Code.PANIC
    assert world.read().drain() == world.fold()


def test_7_4_unknown_field_or_type_is_invalid_at_open_never_at_next(world: World) -> None:
    for text in ("seq | .nosuch", "seq | select(.nosuch > 1)", "seq | {a: .k + 1}", "seq | .bid | length"):
        try:
            program = parse_scan(text)
        except ConfigError:
            continue
        assert world.refusal(program) is Code.INVALID, text
    assert world.refusal(parse_scan("agg(x: sum(.nosuch))")) is Code.INVALID
    assert world.refusal(parse_scan("agg(x: sum(.k))")) is Code.INVALID


@pytest.mark.providers("reference", "memory", "file")
def test_7_4_record_that_cannot_be_decoded_has_null_fields(world: World) -> None:
    world.emit_numbers(0, 3)
    world._append([200, 200], [b"not json", b'{"k":"later","symbol":"X","bid":1.5,"n":9,"gone":false}'])
    assert [row["k"] for row in world.rows(parse_scan("seq | {k, n}"))] == ["k0", "k1", "k2", None, "later"]
    assert world.rows(parse_scan("seq | select(.k == null) | .offset")) == [{"value": 3}]


@pytest.mark.parametrize("limit", [0, -1, 1.5, "7", None, True])
def test_7_5_limit_that_is_no_positive_int_is_invalid(world: World, limit: Any) -> None:
    world.emit_numbers(0, 9)
    for program in (Program(), SELECT):
        slot = world.read(program)
        assert slot.next(limit) is Code.INVALID
        assert slot.blob()[0] is Code.INVALID
        assert slot.drain() == (world.fold() if program is not SELECT else selected(world))


def test_7_5_undeclared_seek_is_invalid(world: World) -> None:
    world.emit_numbers(0, 9)
    target: Any = "k2" if world.is_table else 2
    assert world.read().next(seek=target) is Code.OK
    limited(world, seek=False)
    slot = world.read()
    assert slot.next(seek=target) is Code.INVALID
    assert slot.drain() == world.fold()


def test_7_5_seek_outside_the_view_is_invalid_and_leaves_the_cursor(world: World) -> None:
    world.emit_numbers(0, 20)
    program = parse_scan('prefix("k1") | .k') if world.is_table else dataclasses.replace(SELECT, view=OffsetRange(5, 9))
    outside: list[Any] = ["j", "k2", 4] if world.is_table else [4, 10, -1, "k1"]
    expected = world.read(program).drain()
    slot = world.read(program)
    for seek in outside:
        assert slot.next(1, seek=seek) is Code.INVALID, seek
    assert slot.drain(1) == expected


def test_7_5_legal_seek_lands_identically_each_time(world: World) -> None:
    world.emit_numbers(0, 40)
    target: Any = "k3" if world.is_table else 17
    for program in (Program(), parse_scan("seq | {k, n}")):
        slot = world.read(program)
        whole = slot.drain()
        landed = []
        for before in (0, 1, 3):
            again = world.read(program)
            for _ in range(before):
                again.next(2)
            assert again.next(1000, seek=target) is Code.OK
            landed.append(again.batch())
        index = 3 if world.is_table else 17
        assert landed == [whole[index:]] * 3


def test_7_6_rows_never_exceed_the_limit_and_the_whole_does_not_depend_on_it(world: World) -> None:
    world.emit_numbers(0, 60)
    for program in (Program(), SELECT, parse_scan("seq | .n")):
        whole = world.rows(program)
        for limit in (1, 2, 7, 59, 1000):
            slot, found = world.read(program), []
            while slot.next(limit) is Code.OK:
                rows = slot.batch()
                assert 1 <= len(rows) <= limit
                found += rows
            assert found == whole


def test_7_6_blob_decodes_by_its_output(world: World) -> None:
    world.emit_numbers(0, 9)
    expected = world.fold()
    for output in sorted(world.provider.capabilities.outputs, key=lambda each: each.value):
        program = dataclasses.replace(parse_scan("seq | .n"), output=output) if output is Output.SCALAR else None
        slot = world.read(program or Program(output=output))
        assert slot.next() is Code.OK
        found = decode_item(output, slot.blob()[1])
        match output:
            case Output.ROWS:
                assert found == expected
            case Output.COLUMNAR:
                assert found.to_pylist() == expected
                assert found.schema.names == world.provider.candidates().names
            case Output.SCALAR:
                assert found == [each["n"] for each in docs(world)]
            case Output.CHUNKS:
                assert len(found) == 1
                offset, count, times, lengths, payload = found[0]
                assert (offset, count, times) == (0, 9, [row["ts_ms"] for row in expected])
                assert lengths == [len(row["data"]) for row in expected]
                assert payload == b"".join(row["data"] for row in expected)


def test_7_7_every_breach_is_invalid_or_rejected(world: World) -> None:
    world.emit_numbers(0, 20)
    breaches: list[Callable[[], Code]] = [
        lambda: world.refusal(Program(OffsetRange(7, 3))),
        lambda: world.refusal(Program(Agg((("n", "count", ""),)), Mode.LIVE)),
        lambda: world.refusal(dataclasses.replace(SELECT, output=Output.SCALAR)),
        lambda: world.refusal(dataclasses.replace(SELECT, output=Output.CHUNKS)),
        lambda: world.refusal(Program(output=Output.SCALAR)),
        lambda: world.refusal(dataclasses.replace(SELECT, format="nosuch")),
        lambda: world.refusal(b"junk"),
        lambda: world.read().next(-3),
        lambda: world.read().next(1 << 40),
        lambda: world.read().next(5, max_bytes=0),
        lambda: world.read().next(5, seek=1.5),
    ]
    assert {breach() for breach in breaches} <= {Code.INVALID, Code.REJECTED}


def test_a_step_whose_rows_are_all_dropped_goes_on_to_a_row_or_the_end(world: World) -> None:
    world.emit(*(doc(number, f"k{number:05}") for number in range(5000)))
    slot = world.read(parse_scan("seq | select(.n == 4321) | .n"))
    assert slot.next(1) is Code.OK
    assert slot.batch() == [{"value": 4321}]
    assert slot.next(1) is Code.INVALID
    assert world.read(parse_scan("seq | select(.n < 0) | .n")).next(1) is Code.INVALID


def test_b_item_fuel_keeps_the_position_and_a_seek_goes_on(world: World) -> None:
    world.emit_numbers(0, 3)
    world.emit({**doc(3), "symbol": "X" * 5000})
    world.emit_numbers(4, 3)
    program = parse_scan('seq | select(.symbol != "no") | .n')
    limited(world, max_fuel_item=1000)
    slot = world.read(program)
    assert slot.next(100) is Code.OK
    first = slot.batch()
    assert first == [{"value": number} for number in (0, 1, 2)]
    assert [slot.next(100), slot.next(1)] == [Code.REJECTED] * 2
    assert slot.blob()[0] is not Code.OK
    assert slot.next(100, seek="k4" if world.is_table else 4) is Code.OK
    assert slot.batch() == [{"value": number} for number in (4, 5, 6)]


def test_b_scan_fuel_is_final(world: World) -> None:
    world.emit_numbers(0, 30)
    limited(world, max_fuel_scan=100)
    slot = world.read(parse_scan("seq | .n"))
    while slot.next(1) is Code.OK:
        pass
    assert slot.next(1) is Code.REJECTED
    assert slot.next(1, seek="k0" if world.is_table else 0) is Code.REJECTED


def test_c_expressions_are_total(world: World) -> None:
    world.emit_numbers(0, 9)
    texts = (".bid / 0", ".n % 0", ".bid * 1e308 * 1e308", '.k | test("(a+)+$")', ".k | length", "-.bid", "null == .k")
    for text in texts:
        assert len(world.rows(parse_scan(f"seq | {text}"))) == len(world.fold()), text


@pytest.mark.providers("memory", "file")
def test_j_program_without_expressions_costs_by_rows_and_bytes_and_frames_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.emit_numbers(0, 50)
    slot = world.read(Program(output=Output.CHUNKS))
    chunk = type(world.log.chunks(0, 50, 1 << 20)[0].chunk)  # type: ignore[attr-defined]

    def framed(*_: object) -> Any:
        raise AssertionError("a chunk was framed")

    with monkeypatch.context() as patch:
        patch.setattr(chunk, "bounds", framed)
        assert slot.next(fill=False) is Code.OK
        item = slot.task.take(slot.number)[1]
    assert isinstance(item, list)
    assert sum(entry.chunk.count for entry in item) == 50
    size = sum(len(row["data"]) + 1 for row in world.fold())
    handle = slot.task.handle(slot.number)
    assert handle is not None
    assert world.source.executor(handle.cursor_id).fuel == 8 * 50 + size // 64
    for fill in (True, False):
        cut = world.read(Program(output=Output.CHUNKS))
        assert cut.next(7, fill=fill) is Code.OK  # below the chunk's count, so the chunk is framed
        assert cut.batch() == world.fold()[:7]


@pytest.mark.providers("memory", "file", "reference")
def test_j_record_sizes_are_charged_only_where_records_are_looked_at(world: World) -> None:
    world.emit({**doc(0), "symbol": "x" * 6400})
    fuels = []
    for text in ("seq | .ts_ms", "seq | .n"):
        slot = world.read(parse_scan(text))
        slot.drain()
        handle = slot.task.handle(slot.number)
        assert handle is not None
        fuels.append(world.source.executor(handle.cursor_id).fuel)
    assert fuels[1] - fuels[0] == len(world.fold()[0]["data"]) // 64


def test_k_fuel_and_rows_of_the_row_backend_are_those_of_the_columns(world: World) -> None:
    world.emit_numbers(0, 25)
    slot = world.read(SELECT)
    rows = slot.drain()
    handle = slot.task.handle(slot.number)
    assert handle is not None
    executor = world.source.executor(handle.cursor_id)
    bound = executor._binding.bound  # type: ignore[attr-defined]
    made, fuel = [], 0
    for row in world.fold():
        fields = msgspec.json.decode(row["data"])
        fuel += row_cost(bound, fields, len(row["data"]))
        if (result := run_row(bound, fields)) is not None:
            made.append(dict(result))
    assert made == rows
    assert fuel == executor.fuel
