"""Custom functions as processors, without a JVM."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gauss.contracts.function import FunctionSpec, arrow_function, dataframe_function
from gauss.contracts.processor import LintContext
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from helpers.processors import batch_of, names_of, schema_of


@arrow_function()
def twice(batch: pa.RecordBatch, field: str = "n") -> pa.RecordBatch:
    """Doubles a field."""
    return batch.append_column("twice", pc.multiply(batch.column(field), 2))


@dataframe_function(active=False)
def same(records: Any) -> Any:
    return records


def made(function: FunctionSpec, **config: Any) -> Any:
    found = function.validate(config)
    return function(found)  # type: ignore[arg-type]


def test_a_function_is_given_its_fields_and_the_time_and_its_options() -> None:
    transform = made(twice, input={"format": "json"}, options={"field": "m"})
    fields = transform.bind(Schemas(schema_of(n="int64", m="int64"))).fields
    assert transform.arrow(batch_of(fields, [{"n": 1, "m": 2}])).to_pylist() == [
        {"n": 1, "m": 2, "_ts_ms": 10, "twice": 4}
    ]


def test_fields_are_those_of_the_schema_or_the_named_ones() -> None:
    schema = schema_of(n="int64", o__id="string", ts_ms="int64")
    assert names_of(made(twice, input={"format": "json"}).bind(Schemas(schema)).fields) == {
        "n": "int64",
        "$.o.id": "string",
        "ts_ms": "int64",
    }
    named = made(twice, input={"format": "json"}, fields=["o.id"])
    assert names_of(named.bind(Schemas(schema)).fields) == {"$.o.id": "string"}
    assert names_of(named.bind(Schemas()).fields) == {"$.o.id": "auto"}
    with pytest.raises(ConfigError, match="has no field x"):
        made(twice, input={"format": "json"}, fields=["x"]).bind(Schemas(schema))
    with pytest.raises(ConfigError, match='"twice" needs to know the fields'):
        made(twice, input={"format": "json"}).bind(Schemas())


def test_without_a_format_a_function_gets_bytes() -> None:
    @arrow_function(active=True)
    def shorter(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["_ts_ms", "_data"]
        return batch.filter(pc.less(pc.binary_length(batch.column("_data")), 2))

    transform = made(shorter)
    assert transform.bind(Schemas()).fields == []
    assert transform.arrow(batch_of([], [{}, {}], [b"aa", b"b"])).to_pylist() == [{"_ts_ms": 20, "_data": b"b"}]


def test_the_decorator_says_how_it_runs() -> None:
    assert (twice.hosted, twice.active, twice.summary) == (True, False, "Doubles a field.")
    assert (same.hosted, same.active) == (False, False)


def test_lint_tells_unknown_fields() -> None:
    assert twice.lint is not None
    config = twice.validate({"input": {"format": "json"}, "fields": ["m"]})
    assert 'no field "m"' in twice.lint(config, LintContext(("n",)))[0]


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ({"field": "m"}, []),
        ({}, []),
        ({"feild": "m"}, ['options: "twice" takes no option "feild" (it takes: field); did you mean "field"?']),
        ({"x": 1}, ['options: "twice" takes no option "x" (it takes: field)']),
        ({"field": 7}, ['options: expected text for "field", found 7']),
    ],
)
def test_options_are_held_against_the_signature(options: dict[str, Any], faults: list[str]) -> None:
    config = twice.validate({"options": options})
    assert twice.lint is not None and twice.lint(config, LintContext(input_fields=None)) == faults


def test_an_option_without_a_default_is_needed_and_any_is_taken_by_double_stars() -> None:
    @dataframe_function()
    def wide(records: Any, least: float, **others: Any) -> Any:
        return records, least, others

    assert wide.lint is not None
    judged = [wide.lint(wide.validate({"options": given}), LintContext(None)) for given in ({}, {"least": 2, "x": 1})]
    assert judged == [['options: "wide" needs the option "least"'], []]
