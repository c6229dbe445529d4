"""symbol-filter: its lint, the fields it decodes, and its results."""

from __future__ import annotations

import pytest

from gauss.contracts.format import SourceSchema
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from helpers.processors import batch_of, faults_of, names_of, schema_of, transform_of

JSON = {"format": "json"}


@pytest.mark.parametrize("schema", [None, schema_of(bid="double", symbol="string")])
def test_listed_records_pass_as_bytes_and_others_are_dropped(schema: SourceSchema | None) -> None:
    made = transform_of("symbol-filter", input=JSON, symbols=["BTCUSD", "BTCEUR"])
    fields = made.bind(Schemas(schema)).fields
    assert names_of(fields) == {"symbol": "string"}
    rows = [{"symbol": name} for name in ("BTCUSD", "ETHUSD", None, "btcusd", "BTCEUR")]
    assert made.arrow(batch_of(fields, rows)).to_pylist() == [
        {"_ts_ms": 10, "_data": b"0"},
        {"_ts_ms": 50, "_data": b"4"},
    ]


def test_a_nested_field_is_named_by_its_path() -> None:
    made = transform_of("symbol-filter", input=JSON, field="o.id", symbols=["a"])
    fields = made.bind(Schemas()).fields
    assert names_of(fields) == {"$.o.id": "string"}
    assert made.arrow(batch_of(fields, [{"$.o.id": "b"}, {"$.o.id": "a"}])).column("_data").to_pylist() == [b"1"]


def test_a_field_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match='"n" is int64'):
        transform_of("symbol-filter", input=JSON, field="n", symbols=["1"]).bind(Schemas(schema_of(n="int64")))


def test_lint_tells_a_missing_format_and_an_unknown_field() -> None:
    assert "needs a format" in faults_of("symbol-filter", input={}, symbols=["a"])[0]
    [fault] = faults_of("symbol-filter", ("sym", "bid"), input=JSON, symbols=["a"])
    assert fault == 'field: the input format has no field "symbol" (it has: bid, sym)'
    assert faults_of("symbol-filter", ("sym",), input=JSON, field="sym", symbols=["a"]) == []


def test_an_empty_list_is_a_fault() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        transform_of("symbol-filter", input=JSON, symbols=[])
