from __future__ import annotations

from pathlib import Path

import pytest

from gauss.contracts.format import SourceSchema
from gauss.contracts.target import TargetSchema
from gauss.mapping.script import check_file, run, run_file
from gauss.model.errors import ConfigError
from helpers.schemas import QUOTE, field

SCRIPTS = Path(__file__).parents[2] / "examples" / "schema-maps"


def columns(schema: TargetSchema) -> list[tuple[str, str, dict[str, object], str | None, dict[str, object]]]:
    return [(f.name, f.field_type.name, f.field_type.attrs, f.source, f.props) for f in schema.fields]


def test_the_clickhouse_script_gives_the_printed_columns() -> None:
    attrs = {"table": "quotes", "engine": "MergeTree", "order_by": "(ts_ms)"}
    made = run_file(SCRIPTS / "proto-to-clickhouse.star", QUOTE, TargetSchema((), attrs))
    assert made.attrs == attrs
    assert columns(made) == [
        ("ts_ms", "Int64", {}, "ts_ms", {}),
        ("sym", "LowCardinality", {"inner": {"name": "String"}}, "symbol", {}),
        ("bid", "Decimal64", {"scale": 8}, "bid", {}),
        ("ask", "Decimal64", {"scale": 8}, "ask", {}),
        ("volume", "Int64", {}, "volume", {}),
        ("wrt_ts", "DateTime64", {"precision": 3}, None, {"default": "now64(3)"}),
        ("spread", "Float64", {}, None, {"materialized": "ask - bid"}),
    ]


def test_the_postgres_script_gives_every_field_and_the_time_of_writing() -> None:
    made = run_file(SCRIPTS / "proto-to-postgres.star", QUOTE, TargetSchema((), {"table": "quotes"}))
    assert [(name, kind) for name, kind, *_ in columns(made)] == [
        ("ts_ms", "BIGINT"),
        ("symbol", "TEXT"),
        ("bid", "NUMERIC"),
        ("ask", "NUMERIC"),
        ("volume", "BIGINT"),
        ("exchange", "TEXT"),
        ("internal_id", "TEXT"),
        ("debug_info", "BYTEA"),
        ("wrt_ts", "TIMESTAMPTZ"),
    ]


def test_the_orders_script_gives_the_printed_columns() -> None:
    orders = SourceSchema(
        (
            field("$.order.id", "int64"),
            field("$.order.customer.name", "string"),
            field("$.order.customer.tags", "array", element="string"),
            field("$.order.items[*].price", "array", element="double"),
            field("$.ts", "int64"),
        )
    )
    made = run_file(SCRIPTS / "json-orders-to-postgres.star", orders, TargetSchema((), {"table": "orders"}))
    assert [(name, kind, source) for name, kind, _, source, _ in columns(made)] == [
        ("order_id", "BIGINT", "$.order.id"),
        ("customer_name", "TEXT", "$.order.customer.name"),
        ("customer_tags", "ARRAY", "$.order.customer.tags"),
        ("ts", "BIGINT", "$.ts"),
        ("created_at", "TIMESTAMPTZ", None),
    ]


def test_a_script_may_change_the_attrs() -> None:
    text = """
def map_schema(source, target):
    target["attrs"]["table"] = source["attrs"]["message"].lower()
    target["fields"].append(column("bid", "Decimal64", source = "bid", scale = 8))
    return target
"""
    made = run(text, "m.star", QUOTE, TargetSchema((), {"table": "x"}))
    assert made.attrs == {"table": "quote"}
    assert columns(made) == [("bid", "Decimal64", {"scale": 8}, "bid", {})]


def body(*lines: str) -> str:
    return "def map_schema(source, target):\n" + "".join(f"    {line}\n" for line in lines) + "    return target\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (body('fail("no decimal here")'), "m.star:2:5: no decimal here"),
        ("x = \n", "m.star:1:5: Parse error"),
        ("x = 1\n", "m.star: expected a function map_schema(source, target), found none"),
        (body(), "m.star: map_schema gave no columns"),
        (body('return open("/etc/passwd")'), "m.star:2:12: Variable `open` not found"),
        ("def f(x):\n    return f(x)\n" + body("f(1)"), "m.star:2:12: Starlark call stack overflow"),
        (body("for i in range(100000000):", "    pass"), "m.star: the schema map did not end within"),
        (body("for i in range(100000):", '    x = "a" * 100000'), "m.star: the schema map took more than 384 MiB"),
        (body('x = "a" * 2000000000'), "m.star: the schema map took more than 384 MiB"),
        (body("x = list(range(2000000000))"), "m.star: the schema map took more than"),
        (body("return 1"), "m.star: expected map_schema to return target, found 1"),
        (
            body('target["fields"].append({"name": "a"})'),
            "m.star: expected a column {name, field_type, source?, props?}",
        ),
        (body('target["fields"].append(column("a", "Int64"))'), "m.star: nothing gives column 'a' a value"),
        (body('target["fields"].append(column("a", "Int64", "bidd"))'), "column 'a' reads the unknown field 'bidd'"),
        (body('target["fields"].extend(2 * [column("a", "Int64", "bid")])'), "m.star: column 'a' is there twice"),
        (
            body('target["fields"].append({"name": "a", "field_type": 5, "source": "bid"})'),
            "column 'a': expected a type",
        ),
        ('load("x.star", "y")\n', "m.star:1:1: No imports are available"),
    ],
)
def test_a_wrong_script_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(text, "m.star", QUOTE, TargetSchema())
    assert message in caught.value.message


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.star can't be read"):
        run_file(tmp_path / "nowhere.star", QUOTE, TargetSchema())


RHAI = """// scripts/schema-map/proto-to-clickhouse.rhai
fn map_schema(source, target) {
    let p = 3;
    target.fields.push(#{ name: "ts_ms", field_type: #{ name: "Int64", attrs: #{} }, source: "ts_ms" });
    target
}
"""


@pytest.mark.parametrize(
    "text",
    [RHAI, RHAI.split("\n", 1)[1], 'let x = #{ name: "a" };', "def map_schema(source, target):\n    let p = 1\n"],
)
def test_a_script_in_rhai_is_told_that_scripts_are_starlark(text: str) -> None:
    with pytest.raises(ConfigError, match="the script is no Starlark") as caught:
        run(text, "map.rhai", QUOTE, TargetSchema())
    assert "looks like Rhai" in caught.value.hint and "def map_schema(source, target):" in caught.value.hint


def test_a_mistake_in_starlark_is_not_taken_for_another_language() -> None:
    with pytest.raises(ConfigError, match=r"map.star:1:") as caught:
        run("def map_schema(source, target)\n  return 1", "map.star", QUOTE, TargetSchema())
    assert "Rhai" not in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [(RHAI, "is no Starlark"), ("x = 1", "expected a function map_schema"), ("def map_schema(:", r"map\.star:1:")],
)
def test_a_script_is_checked_without_anything_to_map(tmp_path: Path, text: str, message: str) -> None:
    script = tmp_path / "map.star"
    script.write_text(text)
    with pytest.raises(ConfigError, match=message):
        check_file(script)
    script.write_text('def map_schema(source, target):\n    return source["fields"][7]\n')
    check_file(script)
