"""expression: its lint, the fields it decodes, and its results."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.processor import LintContext
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from gauss.plugins.processors.expression.spec import SPEC
from gauss.plugins.processors.expression.transform import Expression

SCHEMA = SourceSchema(
    (
        SourceField("symbol", FieldType("string")),
        SourceField("bid", FieldType("double")),
        SourceField("$.o.id", FieldType("int64")),
    )
)
ROWS = pa.RecordBatch.from_pydict(
    {
        "symbol": ["BTC", "ETH", None],
        "bid": [101.0, 50.0, None],
        "$.o.id": pa.array([1, 2, 3], pa.int64()),
        "_ts_ms": pa.array([10, 20, 30], pa.int64()),
        "_data": [b"a", b"b", b"c"],
        "ts_ms": pa.array([10, 20, 30], pa.int64()),
    }
)


def expression(**given: Any) -> Expression:
    return Expression(SPEC.validate({"input": {"format": "json"}, **given}))  # type: ignore[arg-type]


def faults(fields: tuple[str, ...] | None = ("symbol", "bid", "$.o.id"), **given: Any) -> list[str]:
    assert SPEC.lint is not None
    return SPEC.lint(SPEC.validate({"input": {"format": "json"}, **given}), LintContext(fields))


def kinds(fields: list[SourceField]) -> dict[str, str]:
    return {field.name: field.field_type.name for field in fields}


def test_program_decodes_what_it_reads_and_keeps_each_rows_time() -> None:
    made = expression(program="select(.bid > 40) | {symbol, twice: .bid * 2, id: .o.id, at: .ts_ms}")
    assert kinds(made.bind(Schemas(SCHEMA)).fields) == {"symbol": "string", "bid": "double", "$.o.id": "int64"}
    assert made.arrow(ROWS).to_pylist() == [
        {"_ts_ms": 10, "symbol": "BTC", "twice": 202.0, "id": 1, "at": 10},
        {"_ts_ms": 20, "symbol": "ETH", "twice": 100.0, "id": 2, "at": 20},
    ]


@pytest.mark.parametrize(("output", "kind"), [(None, "decimal"), ("decimal", "decimal"), ("double", "double")])
def test_a_copied_decimal_keeps_every_digit_unless_the_output_is_a_double(output: str | None, kind: str) -> None:
    exact, price = Decimal("12345678901234567890.12345678"), FieldType("decimal", {"precision": 38, "scale": 8})
    written = None if output is None else FieldType(output, price.attrs if output == "decimal" else {})
    made = expression(program="select(.price > 10) | {last: .price, half: (.price / 2)}")
    source = SourceSchema((SourceField("price", price),))
    made.bind(Schemas(source, None if written is None else SourceSchema((SourceField("last", written),))))
    prices = pa.array([Decimal(5), exact], pa.decimal128(38, 8))
    rows = ROWS.slice(0, 2).select(["_ts_ms", "_data", "ts_ms"]).append_column("price", prices)
    assert made.arrow(rows).to_pylist() == [
        {"_ts_ms": 20, "last": exact if kind == "decimal" else float(exact), "half": float(exact) / 2}
    ]


def test_program_that_makes_no_row_passes_bytes() -> None:
    made = expression(program="select(.o.id != 2)")
    assert kinds(made.bind(Schemas(SCHEMA)).fields) == {"$.o.id": "int64"}
    assert made.arrow(ROWS).to_pylist() == [{"_ts_ms": 10, "_data": b"a"}, {"_ts_ms": 30, "_data": b"c"}]


def test_program_that_ends_in_a_value_gives_one_column() -> None:
    made = expression(program=".bid + 1")
    made.bind(Schemas(SCHEMA))
    assert made.arrow(ROWS).column("value").to_pylist() == [102.0, 51.0, None]


def test_add_keeps_the_other_fields_and_replaces_those_of_its_name() -> None:
    made = expression(add={"mid": "(.bid + .o.id) / 2", "symbol": '.symbol + "-X"'})
    assert list(kinds(made.bind(Schemas(SCHEMA)).fields)) == ["symbol", "bid", "$.o.id"]
    assert made.arrow(ROWS).slice(0, 1).to_pylist() == [
        {"_ts_ms": 10, "bid": 101.0, "$.o.id": 1, "mid": 51.0, "symbol": "BTC-X"}
    ]


def test_without_a_schema_use_says_a_fields_type_and_the_records_the_rest() -> None:
    made = expression(program="select(.bid > 1) | {symbol, at: .ts_ms} | select(.at > 0)")
    assert kinds(made.bind(Schemas()).fields) == {"bid": "double", "symbol": "auto"}
    with pytest.raises(ConfigError, match=r"nothing says what \.symbol is"):
        expression(program="select(.symbol) | {symbol}").bind(Schemas())
    with pytest.raises(ConfigError, match="needs to know the fields"):
        expression(add={"a": "1"}).bind(Schemas(None, SCHEMA))


def test_add_without_any_schema_is_put_into_the_record() -> None:
    made = expression(add={"twice": ".bid * 2", "symbol": "(.symbol | ascii_downcase)", "o.at": ".ts_ms"})
    traits = made.bind(Schemas())
    assert kinds(traits.fields) == {"bid": "double", "symbol": "string"}
    assert traits.carries
    assert made.arrow(ROWS).to_pylist() == [
        {"_ts_ms": 10, "_rest": b"a", "twice": 202.0, "symbol": "btc", "$.o.at": 10},
        {"_ts_ms": 20, "_rest": b"b", "twice": 100.0, "symbol": "eth", "$.o.at": 20},
        {"_ts_ms": 30, "_rest": b"c", "twice": None, "symbol": None, "$.o.at": 30},
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [("{b: 1}", "belong into `program`"), (".symbol | ascii_downcase", r"parentheses: \(.symbol \| ascii_downcase\)")],
)
def test_add_takes_expressions_alone(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="add: a: expected one expression") as caught:
        expression(add={"a": text})
    assert re.search(hint, caught.value.hint)
    [fault] = faults(add={"a": text})
    assert re.search(f"^add: a: expected one expression.*{hint}", fault)


@pytest.mark.parametrize("given", [{}, {"program": ".a", "add": {"b": "1"}}, {"add": {}}])
def test_neither_or_both_of_program_and_add_is_a_fault(given: dict[str, Any]) -> None:
    with pytest.raises((ValidationError, ConfigError), match="either"):
        expression(**given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"program": "select(.bid >"}, "program: "),
        ({"program": "{bidd}"}, 'no field "bidd" (it has: bid, o.id, symbol)'),
        ({"program": "range(from: 1) | {bid}"}, "found a view"),
        ({"program": "{_data: .bid}"}, '"_data" is taken'),
        ({"program": "select(.bid > 1)", "output": {"format": "json"}}, "makes no row"),
        ({"add": {"a": ".gone + 1"}}, 'add: a: the input format has no field "gone"'),
    ],
)
def test_lint_tells_what_is_wrong(given: dict[str, Any], expected: str) -> None:
    [fault] = faults(**given)
    assert expected in fault


def test_lint_knows_columns_that_an_earlier_stage_made() -> None:
    assert faults(program="{mid: .bid * 2} | select(.mid > 1) | {m: .mid}") == []
    assert faults(None, program="{anything}") == []


def test_lint_without_a_format_says_so() -> None:
    assert SPEC.lint is not None
    assert "needs a format" in SPEC.lint(SPEC.validate({"input": {}, "program": ".a"}), LintContext(None))[0]


def test_copies_of_json_text_stay_marked_and_what_is_made_of_it_is_not() -> None:
    place = ROWS.schema.names.index("symbol")
    marked = ROWS.schema.set(place, ROWS.schema.field(place).with_metadata({"gauss": "json"}))
    rows = pa.RecordBatch.from_arrays(ROWS.columns, schema=marked)
    for given in ({"program": '{a: .symbol, b: (.symbol + "!"), c: .bid}'}, {"add": {"a": ".symbol", "b": '"!"'}}):
        made = expression(**given)
        made.bind(Schemas(SCHEMA))
        found = made.arrow(rows).schema
        assert found.field("a").metadata == {b"gauss": b"json"}
        assert not found.field("b").metadata
