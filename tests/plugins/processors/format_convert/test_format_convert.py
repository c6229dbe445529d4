"""format-convert without a JVM: its lint, the fields it decodes, and whole conversions in its hosted form."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import FormatSpec
from gauss.contracts.format_batch import batched, encode_good
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from gauss.registry import build, spec
from helpers.processors import batch_of, faults_of, names_of, schema_of, transform_of

CONFIG: dict[str, Any] = {"input": {"format": "json"}, "output": {"format": "msgpack"}}


def test_the_outputs_fields_are_written_in_its_order() -> None:
    made = transform_of("format-convert", **CONFIG)
    source, output = schema_of(symbol="string", bid="double", o__id="int64"), schema_of(o__id="int64", symbol="string")
    fields = made.bind(Schemas(source, output)).fields
    assert names_of(fields) == {"symbol": "string", "$.o.id": "int64"}
    found = made.arrow(batch_of(fields, [{"symbol": "BTC", "$.o.id": 7}]))
    assert found.to_pylist() == [{"_ts_ms": 10, "$.o.id": 7, "symbol": "BTC"}]


def test_without_a_schema_of_the_output_all_fields_are_written() -> None:
    made = transform_of("format-convert", **CONFIG)
    assert names_of(made.bind(Schemas(schema_of(a="int64", b="bool"))).fields) == {"a": "int64", "b": "bool"}


def test_an_input_without_a_schema_is_decoded_by_the_outputs_types() -> None:
    made = transform_of("format-convert", **CONFIG)
    assert names_of(made.bind(Schemas(None, schema_of(a="int64"))).fields) == {"a": "int64"}


def test_two_formats_without_a_schema_are_refused() -> None:
    with pytest.raises(ConfigError, match='neither "json" nor "msgpack" says which fields there are'):
        transform_of("format-convert", **CONFIG).bind(Schemas())


def test_a_field_that_the_input_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="writes c, which the input format does not have"):
        transform_of("format-convert", **CONFIG).bind(Schemas(schema_of(a="int64"), schema_of(c="int64")))


def test_a_record_that_holds_many_rows_becomes_one_record_per_row() -> None:
    rows = pa.RecordBatch.from_pydict({"symbol": ["BTC", "ETH"], "bid": [1.5, 2.5]})
    arrow = batched(build(spec(FormatSpec, "arrow"), spec(FormatSpec, "arrow").validate({})))
    text = batched(build(spec(FormatSpec, "json"), spec(FormatSpec, "json").validate({})))
    schema = schema_of(symbol="string", bid="double")
    made = transform_of("format-convert", input={"format": "arrow"}, output={"format": "json"})
    fields = made.bind(Schemas(None, schema)).fields
    decoded = arrow.decode_batch(arrow.encode_batch(rows), arrow_schema(fields))
    found = made.arrow(batch_of(fields, decoded.rows.to_pylist())).drop_columns(["_ts_ms"])
    assert [json.loads(record.as_py()) for record in encode_good(text, found).records] == rows.to_pylist()


def test_lint_tells_missing_formats_and_a_conversion_to_the_same() -> None:
    assert "needs a format" in faults_of("format-convert", input={}, output={"format": "csv"})[0]
    assert "output: format-convert" in faults_of("format-convert", input={"format": "json"}, output={})[0]
    assert "use passthrough" in faults_of("format-convert", input={"format": "json"}, output={"format": "json"})[0]
    assert faults_of("format-convert", **CONFIG) == []
