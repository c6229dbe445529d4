"""router: its lint, the fields it decodes, and its results."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.contracts.format import SourceSchema
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from helpers.processors import batch_of, faults_of, names_of, schema_of, transform_of

JSON = {"format": "json"}
ROUTES = [{"when": ".n > 10", "topic": "big"}, {"when": '.s == "x" or .n > 5', "topic": "some"}]
SCHEMA = schema_of(n="double", s="string", other="bool")


def routed(schema: SourceSchema | None, **config: Any) -> list[tuple[bytes, str]]:
    made = transform_of("router", input=JSON, routes=ROUTES, **config)
    fields = made.bind(Schemas(schema)).fields
    assert names_of(fields) == {"n": "double", "s": "string"}
    rows: list[dict[str, Any]] = [{"n": 11.0, "s": "x"}, {"n": 6.0}, {"s": "x"}, {"n": 1.0, "s": "y"}, {}]
    return [(row["_data"], row["_topic"]) for row in made.arrow(batch_of(fields, rows)).to_pylist()]


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_a_record_goes_to_the_first_route_that_it_fits(schema: SourceSchema | None) -> None:
    assert routed(schema) == [(b"0", "big"), (b"1", "some"), (b"2", "some")]


def test_what_fits_no_route_goes_otherwise() -> None:
    assert routed(SCHEMA, otherwise="rest")[2:] == [(b"2", "some"), (b"3", "rest"), (b"4", "rest")]


def test_routes_that_take_a_field_for_different_kinds_need_a_schema() -> None:
    routes = [{"when": ".a > 1", "topic": "x"}, {"when": '.a == "one"', "topic": "y"}]
    with pytest.raises(ConfigError, match=r"one route takes \.a for"):
        transform_of("router", input=JSON, routes=routes).bind(Schemas())


def test_lint_tells_faulty_conditions_and_unknown_fields() -> None:
    faults = faults_of(
        "router", ("n",), input=JSON, routes=[{"when": ".n >", "topic": "a"}, {"when": ".m > 1", "topic": "b"}]
    )
    assert len(faults) == 2
    assert faults[0].startswith("routes: ") and 'no field "m"' in faults[1]
    assert "needs a format" in faults_of("router", input={}, routes=ROUTES)[0]
