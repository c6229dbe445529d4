"""Expressions: parsing, the position of faults, and results for a row."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.contracts.expression import Binary, Kind, Literal, Path
from gauss.model.errors import ConfigError
from gauss.scan.program.check import check
from gauss.scan.program.parse import parse
from helpers.row_programs import compile_filter, compile_row


def value(text: str, row: dict[str, Any]) -> Any:
    return compile_row(check(parse(text)))(row)


def test_parse_gives_a_tree_of_operations() -> None:
    assert parse(".bid > 100").root == Binary(">", Path(("bid",)), Literal(100, Kind.INT))


def test_paths_are_listed_once_in_order() -> None:
    assert parse('.b.c > 1 and .a == "x" and .b.c < 9').paths() == ["b.c", "a"]


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ('.bid > 100 and .symbol == "BTC"', {"bid": 101, "symbol": "BTC"}, True),
        ('.bid > 100 and .symbol == "BTC"', {"bid": 101, "symbol": "ETH"}, False),
        (".a.b == 1", {"a": {"b": 1}}, True),
        (".a.b == 1", {"a": 5}, False),
        ('.["x y"] == 1', {"x y": 1}, True),
        (".a + .b * 2", {"a": 1, "b": 3}, 7.0),
        ("(.a + .b) * 2", {"a": 1, "b": 3}, 8.0),
        (".a - -1", {"a": 1}, 2.0),
        (".a / 0", {"a": 1}, None),
        (".a % 3", {"a": -7}, -1.0),
        (".a * 1e308 * 10", {"a": 1}, None),
        ('.s + "!"', {"s": "hi"}, "hi!"),
        (".a < 1", {}, None),
        (".a == null", {}, True),
        (".a != null", {"a": False}, True),
        ("not (.a < 1)", {}, True),
        (".ok or .a > 1", {"ok": 0, "a": 0}, True),
        ("(.s | length)", {"s": "añ😀"}, 3.0),
        ("(.s | length)", {}, 0.0),
        ('.s | startswith("a")', {"s": "ab"}, True),
        ('.s | endswith("a")', {"s": "ab"}, False),
        ('.s | contains("b")', {"s": "ab"}, True),
        ('.s | contains("b")', {}, None),
        (".a == 1 or .a == 2 and .b == 1", {"a": 1, "b": 9}, True),
    ],
)
def test_value_of_an_expression(text: str, row: dict[str, Any], expected: Any) -> None:
    assert value(text, row) == expected


def test_a_field_of_another_kind_counts_as_null() -> None:
    assert compile_filter(check(parse(".bid > 1")))({"bid": "2"}) is False


def test_whole_numbers_that_a_schema_vouches_for_compare_exactly() -> None:
    typed = check(parse(".id == 9007199254740993"), {"id": Kind.INT})
    assert compile_filter(typed)({"id": 9007199254740993})
    assert not compile_filter(typed)({"id": 9007199254740992})


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        (".a +", 4, "unexpected the end"),
        (".a ==== 1", 5, "unexpected"),
        ('.a > 1 and .a == "x"', 11, "used as a number and as a string"),
        (".a == .b", 3, "is unknown"),
        (".s | nope", 5, "unknown function nope"),
        (".s | startswith", 5, "takes 1 argument"),
        ('"a" - 1', 0, "needs a number"),
        ("true > false", 5, "not defined for booleans"),
        ("1 == 1e999", 5, "larger than any number"),
        ('.a == "\\ud800"', 6, "surrogate"),
    ],
)
def test_a_fault_points_at_its_place(text: str, at: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check(parse(text))
    line, caret = caught.value.message.splitlines()[-2:]
    assert line == f"  {text}"
    assert caret.index("^") - 2 == at


@pytest.mark.parametrize("text", ["(" * 5_000 + "1" + ")" * 5_000, "not " * 2_400 + ".a", "x" * 20_000])
def test_absurd_expressions_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        check(parse(text))


def test_an_unknown_field_is_refused_when_the_format_has_a_schema() -> None:
    with pytest.raises(ConfigError, match='no field "bidd"'):
        check(parse(".bidd > 1"), {"bid": Kind.NUMBER})
