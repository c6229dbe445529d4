"""Whole programs: parsing, the position of faults, required capabilities, and results."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.cursor import (
    Agg,
    Capabilities,
    KeyRange,
    Last,
    Mode,
    OffsetRange,
    Output,
    Point,
    Prefix,
    Seq,
    TimeRange,
    View,
)
from gauss.contracts.expression import BINARY, FUNCTIONS, UNARY, Binary, Kind, Literal, Make, Path, Select, Value
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.program.blob import decode_program, encode_program
from gauss.scan.program.bound import bind
from gauss.scan.program.fault import ProgramFault
from gauss.scan.program.parse import parse, parse_scan
from helpers.cases import cases
from helpers.row_programs import row_cost, run_row

FIELDS = {"symbol": Kind.STRING, "bid": Kind.NUMBER, "ask": Kind.NUMBER, "id": Kind.INT, "ok": Kind.BOOL}
ALL = Capabilities(
    views=frozenset({Seq, OffsetRange, Last}),
    outputs=frozenset({Output.ROWS, Output.SCALAR, Output.CHUNKS}),
    live=True,
    ops=BINARY | UNARY | {"if", "select", "{}", "value"},
    builtins=frozenset(FUNCTIONS),
)


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("", Seq()),
        ("seq", Seq()),
        ("seq()", Seq()),
        ("seq(from: 3)", Seq(3)),
        ("select(.a)", Seq()),
        ("range(from: 10)", OffsetRange(10)),
        ("range(from: 10, to: 20)", OffsetRange(10, 20)),
        ("range(offset: 10, 20)", OffsetRange(10, 20)),
        ("range(ts: 1, 2)", TimeRange(1, 2)),
        ('range(key: "a", "b")', KeyRange("a", "b")),
        ('range(key: null, "b")', KeyRange(None, "b")),
        ('prefix("BT")', Prefix("BT")),
        ("point(last)", Last()),
        ('point("BTC") | .bid', Point("BTC")),
        ("agg(n: count, high: max(.p.bid))", Agg((("n", "count", ""), ("high", "max", "p.bid")))),
    ],
)
def test_a_program_begins_with_its_view(text: str, view: View) -> None:
    assert parse_scan(text).view == view


def test_stages_follow_the_view() -> None:
    program = parse_scan(
        'seq(format: "json") | select(.bid > 1) | {symbol, two: .bid * 2} | .two', live=True, output=Output.SCALAR
    )
    assert (program.format, program.mode, program.output) == ("json", Mode.LIVE, Output.SCALAR)
    assert program.stages == (
        Select(Binary(">", Path(("bid",)), Literal(1, Kind.INT))),
        Make((("symbol", Path(("symbol",))), ("two", Binary("*", Path(("bid",)), Literal(2, Kind.INT))))),
        Value(Path(("two",))),
    )


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        (".a, .b", 2, "several values"),
        (".[]", 2, "several values"),
        (".a[]", 3, "several values"),
        ("..", 1, "several values"),
        (".a | empty", 5, "generator"),
        (".a | range(3)", 5, "generator"),
        ("select(.a | recurse)", 12, "generator"),
        ("range(3)", 0, "offsets, times or keys"),
        ("range(from: 5, to: 3)", 15, "from ≤ to"),
        ("range(from: -1)", 6, "from 0 up"),
        ("knn(3)", 0, "no source has the view knn"),
        ("bitmap", 0, "no source has the view bitmap"),
        ("everything(1)", 0, "unknown view everything"),
        ("seq | seq", 6, "at the beginning"),
        ("{a, a}", 4, "duplicate column"),
        ("{a: select(.b)}", 4, "select is a stage"),
        ("select(.a, .b)", 0, "one condition"),
        ('{"a.b": 1}', 1, "may not be empty or hold"),
        ("agg(n: count, n: count)", 14, "duplicate column"),
        ("agg(n: median(.a))", 4, "agg takes names"),
        ("point(3)", 6, "point takes a string"),
        (".s | test(.p)", 10, "takes a literal"),
        (".a | . + .b", 9, "without a field"),
        ("{x: .a} | .y", 10, 'no column "y"'),
        ("{x: .a} | .", 10, "whole row"),
        ("length", 0, "whole record"),
        (". > 1", 0, "whole record"),
        ("if .a then 1 end", 13, "unexpected"),
        ('.s | test("(")', 10, "invalid pattern"),
        ("(.n + 1.5) | tostring", 13, "tostring needs"),
        ('{x: .a} | select(.x > 1) | select(.x == "b")', 4, "used as a number and as a string"),
        ('.a // "x" | . + 1', 0, "used as a string and as a number"),
    ],
)
def test_a_fault_points_at_its_place(text: str, at: int, message: str) -> None:
    with pytest.raises(ProgramFault, match=message) as caught:
        bind(parse_scan(text))
    assert caught.value.at == at
    line, caret = caught.value.message.splitlines()[-2:]
    assert line == f"  {text}"
    assert caret.index("^") - 2 == at


def test_a_fault_in_a_long_text_shows_its_line_alone() -> None:
    with pytest.raises(ProgramFault) as caught:
        parse_scan("seq\n| select(.a)\n| " + " or ".join([".b"] * 200) + " or ?")
    lines = caught.value.message.splitlines()
    assert len(lines) == 3 and len(lines[1]) < 220
    assert lines[1][lines[2].index("^")] == "?"


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("select(.bidd > 1)", 7, 'no field "bidd"'),
        ("select(.symbol > 1)", 15, "not defined between string and int"),
        ("  point(last)", 2, "does not declare the view"),
        ('prefix("a")', 0, "does not declare the view"),
        ("{x: .bid * 2}", 9, r"does not declare \*"),
        ("select(.symbol | length > 1)", 24, "unexpected"),
        ("select((.symbol | length) > 1)", 18, "does not declare length"),
        (".bid", 0, "does not declare value"),
        ("if .ok then 1 else 2 end", 0, "does not declare"),
    ],
)
def test_what_a_source_does_not_declare_is_refused(text: str, at: int, message: str) -> None:
    some = Capabilities(
        views=frozenset({Seq}),
        outputs=frozenset({Output.ROWS}),
        live=False,
        ops=frozenset({"select", "{}", ">", "and"}),
        builtins=frozenset({"startswith"}),
    )
    with pytest.raises(ProgramFault, match=message) as caught:
        bind(parse_scan(text), FIELDS, some)
    assert caught.value.at == at
    bind(parse_scan('select(.bid > 1 and (.symbol | startswith("B"))) | {symbol}'), FIELDS, some)


@pytest.mark.parametrize(
    ("text", "live", "output", "message"),
    [
        ("seq", True, Output.ROWS, "can't be read live"),
        ("seq", False, Output.COLUMNAR, "the output columnar"),
        ("select(.ok)", False, Output.CHUNKS, "without stages"),
        ("{bid, ask}", False, Output.SCALAR, "one column"),
        ("select(.ok)", False, Output.SCALAR, "one column"),
    ],
)
def test_modes_and_outputs_must_fit(text: str, live: bool, output: Output, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bind(parse_scan(text, live=live, output=output), FIELDS, replace(ALL, live=False))


def test_static_cost_above_a_limit_is_rejected() -> None:
    program = parse_scan("select(.bid > 1) | {x: .bid + .ask}")
    cost = bind(program, FIELDS, ALL).static_cost
    bind(program, FIELDS, replace(ALL, max_fuel_item=cost, max_fuel_scan=cost))
    for limits in ({"max_fuel_item": cost - 1}, {"max_fuel_scan": cost - 1}):
        with pytest.raises(Rejected, match="costs at least"):
            bind(program, FIELDS, replace(ALL, **limits))  # type: ignore[arg-type]


def test_fields_take_their_kinds_from_later_stages() -> None:
    bound = bind(parse_scan('{x: .a, y: .b // .c} | select(.x > 1) | {z: .y} | select(.z == "q")'))
    assert bound.fields == {"a": Kind.NUMBER, "b": Kind.STRING, "c": Kind.STRING}
    assert bound.columns == {"z": Kind.STRING}


def test_aggregates_are_what_stages_see() -> None:
    bound = bind(parse_scan("agg(n: count, high: max(.bid)) | {n, top: .high * 2}"), FIELDS)
    assert bound.fields == {"bid": Kind.NUMBER}
    assert bound.checked.fields == {"n": Kind.INT, "high": Kind.NUMBER}
    assert run_row(bound, {"n": 3, "high": 2.0}) == {"n": 3, "top": 4.0}
    with pytest.raises(ProgramFault, match='no field "x"') as unknown:
        bind(parse_scan("agg(n: count, s: sum(.x))"), FIELDS)
    assert unknown.value.at == 21
    with pytest.raises(ProgramFault, match=r"sum is not defined for \.symbol") as unfit:
        bind(parse_scan("agg(m: max(.symbol), s: sum( .symbol))"), FIELDS)
    assert unfit.value.at == 29


ROW = {"symbol": "BTC", "bid": 10.0, "ask": None, "id": 7, "ok": False}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seq", ROW),
        ("select(.bid > 100)", None),
        ("select(.bid > 1) | {symbol, mid: (.bid + .ask) / 2}", {"symbol": "BTC", "mid": None}),
        (".ask", {"value": None}),
        (".ask // .bid", {"value": 10.0}),
        (".ok // true", {"value": True}),
        (".bid | . * 2 | floor", {"value": 20.0}),
        ('.symbol | ascii_downcase | ltrimstr("b")', {"value": "tc"}),
        ('.symbol | rtrimstr("C") | length', {"value": 2.0}),
        ('.id | tostring | . + "!"', {"value": "7!"}),
        ('if .ok then "a" elif .bid == 10 then "b" else null end', {"value": "b"}),
        ('.symbol | test("^B.C$")', {"value": True}),
        ('("-1.5e1" | tonumber)', {"value": -15.0}),
        (".bid == 10 | not", {"value": False}),
        ("(-2.5 | round) + (2.5 | round) + (-2.5 | abs)", {"value": 2.5}),
        ("{a: .bid} | select(.a > 1) | {b: .a, c: .a + .a} | .b + .c", {"value": 30.0}),
    ],
)
def test_a_row_becomes_another_or_is_dropped(text: str, expected: Any) -> None:
    bound = bind(parse_scan(text), FIELDS)
    assert run_row(bound, ROW) == expected
    types = pa.schema([("symbol", "string"), ("bid", "double"), ("ask", "double"), ("id", "int64"), ("ok", "bool")])
    made, kept = bound.run(pa.RecordBatch.from_pylist([ROW], types))
    assert made.to_pylist() == ([] if expected is None else [expected])
    assert (kept is None) == (expected is not None)


def test_columns_of_another_type_count_as_null() -> None:
    bound = bind(
        parse_scan("{n: .n == null, s: .s == null, i: .i == null}"), {"n": Kind.NUMBER, "s": Kind.STRING, "i": Kind.INT}
    )
    batch = pa.RecordBatch.from_pylist([{"n": "1", "s": 1, "i": 1.5}])
    made = bound.run(batch)[0].to_pylist()
    assert made == [{"n": True, "s": True, "i": True}] == [run_row(bound, batch.to_pylist()[0])]


@pytest.mark.parametrize("held", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_strings_may_lie_in_any_layout(held: pa.DataType) -> None:
    bound = bind(parse_scan('select(.s | startswith("a")) | {s}'), {"s": Kind.STRING})
    batch = pa.RecordBatch.from_arrays([pa.array(["ab", None, "ba"]).cast(held)], names=["s"])
    assert bound.run(batch)[0].to_pylist() == [{"s": "ab"}]
    assert bound.cost.batch(batch).tolist() == [row_cost(bound, row) for row in batch.to_pylist()]


def test_nan_in_a_field_is_null() -> None:
    bound = bind(parse_scan("{n: .n, above: .n > 1, missing: .n == null, sum: .n + 1}"))
    batch = pa.RecordBatch.from_pydict({"n": [float("nan"), float("inf"), 2.0]})
    made = bound.run(batch)[0].to_pylist()
    assert made == [run_row(bound, row) for row in batch.to_pylist()]
    assert made[0] == {"n": None, "above": None, "missing": True, "sum": None}
    assert made[1] == {"n": float("inf"), "above": True, "missing": False, "sum": None}


def test_a_sliced_batch_gives_its_own_rows() -> None:
    bound = bind(parse_scan("select(.n % 2 == 1) | .n / 2"))
    batch = pa.RecordBatch.from_pydict({"n": [float("nan"), 1.0, 2.0, 3.0, float("inf")]}).slice(1, 3)
    made, kept = bound.run(batch)
    assert made.to_pylist() == [{"value": 0.5}, {"value": 1.5}]
    assert kept is not None and kept.tolist() == [0, 2]


@pytest.mark.parametrize(
    "text",
    [
        " | ".join(["{a: .a + .a}"] * 60),
        " | ".join([". + 1"] * 80),
        "not " * 2_000 + ".a",
        "+".join(["1"] * 500),
        "-" * 5_000 + ".a",
        ".a" * 4_000,
        "if .a then 1 " + "elif .a then 1 " * 500 + "else 2 end",
        "{" * 3_000,
        "(" * 3_000,
        "".join(f"{{a{i}: 1}} | " for i in range(100)) + ".a",
        "{" + ", ".join(f"a{i}" for i in range(300)) + "}",
        '"' + "x" * 20_000 + '"',
        "9" * 5_000,
    ],
)
def test_absurd_programs_are_refused_soon(text: str) -> None:
    begun = time.thread_time()
    with pytest.raises(ConfigError):
        bind(parse_scan(text))
    assert time.thread_time() - begun < 20  # seconds instead of hours with exponential backtracking


@pytest.mark.parametrize(
    "text",
    [
        "not " * 98 + ".b",
        "-(" * 98 + ".n" + ")" * 98,
        "+".join([".n"] * 99),
        "if .b then 1 " + "elif .b then 1 " * 90 + "else 2 end",
        " // ".join([".n"] * 98),
        "(" * 98 + ".s" + " | ascii_upcase)" * 98,
    ],
)
def test_the_deepest_programs_run(text: str) -> None:
    row = {"b": True, "n": 1.0, "s": "a"}
    bound = bind(parse_scan(text), {"b": Kind.BOOL, "n": Kind.NUMBER, "s": Kind.STRING})
    assert bound.run(pa.RecordBatch.from_pylist([row]))[0].to_pylist() == [run_row(bound, row)]
    assert decode_program(encode_program(bound.program)) == bound.program


def test_kinds_are_found_from_far_away_soon() -> None:
    names = [f".f{n}" for n in range(200)]
    chain = " and ".join(f"{a} == {b}" for a, b in pairwise(names))
    begun = time.thread_time()
    assert set(bind(parse_scan(f"select({chain} and .f199 == 1)")).fields.values()) == {Kind.NUMBER}
    assert set(bind(parse_scan(f"select(.f0 == 1 and {chain})")).fields.values()) == {Kind.NUMBER}
    assert time.thread_time() - begun < 20


def test_long_chains_of_conditions_are_no_nesting() -> None:
    text = " or ".join(f'.s == "{n}"' for n in range(400))
    assert run_row(bind(parse_scan(f"select({text})")), {"s": "399"}) == {"s": "399"}


TOKENS = """
seq range( from : 10 ) | select( .a .b.c == // and not { } , "x" if then else end - + . [ ] length test( null 1e5 ? é
"""


@settings(max_examples=cases(200), deadline=None)
@given(st.lists(st.sampled_from(TOKENS.split()), max_size=15))
def test_any_text_gives_a_program_or_a_fault(tokens: list[str]) -> None:
    text = " ".join(tokens)
    for read in (parse, lambda text: bind(parse_scan(text))):
        try:
            read(text)
        except ConfigError as error:
            assert isinstance(error, ProgramFault) and 0 <= error.at <= len(text)
