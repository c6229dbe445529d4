"""Any content of a record, field name or aggregate gives a value or null, never a failed read."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gauss.contracts.cursor import Code, Output, Program, Step
from gauss.scan import outputs, sources
from gauss.scan.log_cursor import LogProvider
from gauss.scan.program.parse import parse_scan
from gauss.scan.sources import SourceTask
from gauss.scan.tasks import ReaderTask
from helpers.logs import lines, open_log, put
from helpers.scan_items import decode_item
from helpers.scan_worlds import World, doc, make_world

DEEP = b"[" * 900 + b"]" * 900
BLOBS = (Output.ROWS, Output.SCALAR)


def source_of(folder: Path, *records: bytes) -> SourceTask:
    log = open_log("memory", folder)
    put(log, lines(*records))
    return SourceTask("t", LogProvider(log))


def read(source: SourceTask, program: Program) -> tuple[Code, Code, Any]:
    task = ReaderTask(lambda _: source)
    _, slot = task.slot()
    assert task.scan(slot, source.id, program) is Code.OK, task.fault
    code = task.next(slot, Step())
    read_code, blob = task.read(slot)
    assert task.resources.errs == (code is not Code.OK) + (read_code is not Code.OK)
    return code, read_code, decode_item(program.output, blob) if blob else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"18446744073709551615", 18446744073709551615),
        (b"18446744073709551616", 18446744073709551616.0),
        (b"-9223372036854775809", -9223372036854775809.0),
        (b"1" + b"0" * 400, None),
        (b"1e999", None),
        (b"-1e999", None),
        (b'[1, 1e999, {"x": 18446744073709551616}]', [1, None, {"x": 18446744073709551616.0}]),
        (b'{"x": 5}', {"x": 5}),
        (b'"\\ud800"', None),
    ],
)
@pytest.mark.parametrize("output", BLOBS)
def test_value_that_messagepack_cannot_hold_is_a_double_or_null(
    tmp_path: Path, text: bytes, value: Any, output: Output
) -> None:
    source = source_of(tmp_path, b'{"a": %s}' % text, b'{"a": 7}')
    code, read_code, found = read(source, parse_scan('seq(format: "json") | .a', output=output))
    assert (code, read_code) == (Code.OK, Code.OK)
    assert found == ([value, 7] if output is Output.SCALAR else [{"value": value}, {"value": 7}])


@pytest.mark.parametrize("output", [*BLOBS, Output.COLUMNAR])
def test_deeply_nested_value_does_not_break_a_read(tmp_path: Path, output: Output) -> None:
    source = source_of(tmp_path, b'{"a": %s}' % DEEP, b'{"a": 7}')
    code, read_code, found = read(source, parse_scan('seq(format: "json") | .a', output=output))
    assert (code, read_code) == (Code.OK, Code.OK)
    assert len(found) == 2


def test_read_that_fails_is_panic_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(tmp_path, b'{"a": 1}')

    def broken(*_: object) -> bytes:
        raise RuntimeError("a defect")

    monkeypatch.setattr(sources, "encode_item", broken)
    assert read(source, parse_scan('seq(format: "json") | .a')) == (Code.OK, Code.PANIC, None)


@pytest.mark.parametrize("name", [r"a\nb", r"a\tb", r"a\\b", r"a\u0000b", "é", "a b", "-", "0", "select"])
def test_field_of_any_name_is_read_or_invalid_at_open(tmp_path: Path, name: str) -> None:
    source = source_of(tmp_path, b'{"%s": 5}' % name.encode())
    task = ReaderTask(lambda _: source)
    _, slot = task.slot()
    code = task.scan(slot, source.id, parse_scan(f'seq(format: "json") | {{x: .["{name}"]}}'))
    assert code in (Code.OK, Code.INVALID)
    if code is Code.OK:
        assert task.next(slot, Step()) is Code.OK
        assert decode_item(Output.ROWS, task.read(slot)[1]) == [{"x": 5}]


@pytest.fixture(params=["reference", "memory", "file", "rolled", "table"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return make_world(request.param, tmp_path)


def aggregated(world: World, numbers: list[int | None], text: str) -> dict[str, Any]:
    world.emit(*({**doc(index, f"k{index}"), "n": number} for index, number in enumerate(numbers)))
    found = {}
    for output in (Output.ROWS, Output.COLUMNAR):
        slot = world.read(parse_scan(text, output=output))
        assert slot.next() is Code.OK
        batch = decode_item(output, slot.blob()[1])
        (found[output],) = batch if output is Output.ROWS else batch.to_pylist()
    exact: dict[str, Any] = found[Output.COLUMNAR]
    # MessagePack has 64-bit integers; larger numbers become the nearest double.
    assert found[Output.ROWS] == {
        name: float(value) if isinstance(value, Decimal) and not -(2**63) <= value < 2**64 else value
        for name, value in exact.items()
    }
    return exact


@pytest.mark.parametrize(
    "numbers",
    [
        [9007199254740993, 1],
        [9007199254740993, 0],
        [2**63 - 1, 2**63 - 1],
        [-(2**63), -1],
        [2**63 - 1] * 40,
        [2**62, -(2**62), 3],
        [None, 5],
    ],
)
def test_sum_of_whole_numbers_is_exact_and_their_average_a_number(world: World, numbers: list[int | None]) -> None:
    known = [number for number in numbers if number is not None]
    found = aggregated(world, numbers, "agg(s: sum(.n), a: avg(.n), low: min(.n), high: max(.n))")
    assert found["a"] == sum(known) / len(known)
    assert isinstance(found["a"], float)
    assert (found["low"], found["high"]) == (min(known), max(known))
    assert found["s"] == sum(known)


def test_stages_read_a_sum_beyond_64_bits(world: World) -> None:
    found = aggregated(world, [2**63 - 1] * 3, "agg(s: sum(.n)) | select(.s > 9223372036854775807) | {s, half: .s / 2}")
    assert found["half"] == 3 * (2**63 - 1) / 2


def test_aggregate_of_nothing_is_null(world: World) -> None:
    assert aggregated(world, [None], "agg(s: sum(.n), a: avg(.n), c: count)") == {"s": None, "a": None, "c": 1}


def test_whole_numbers_beyond_messagepack_are_doubles() -> None:
    assert outputs.json_value("[18446744073709551616, -1e999]") == [18446744073709551616.0, None]
