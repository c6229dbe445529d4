"""flatten: its lint, the fields it decodes, and its results."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.format import FieldType, FormatSpec
from gauss.contracts.format_batch import encode_good
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from gauss.registry import build, spec
from gauss.stream.driver.planning.refs import FieldRef
from helpers.processors import batch_of, faults_of, names_of, schema_of, transform_of

JSON = {"format": "json"}
TAGS = FieldType("array", {"element": "string"})
SCHEMA = schema_of(id="int64", tags=TAGS)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "tags": ["a", "b"]},
    {"id": 2, "tags": []},
    {"id": 3, "tags": None},
    {"id": 4, "tags": [None]},
    {"id": 5, "tags": []},
]


def flattened(rows: list[dict[str, Any]], **config: Any) -> list[tuple[int, int, str | None]]:
    made = transform_of("flatten", input=JSON, field="tags", **config)
    found = made.arrow(batch_of(made.bind(Schemas(SCHEMA)).fields, rows)).to_pylist()
    return [(row["_ts_ms"], row["id"], row["tags"]) for row in found]


def test_each_element_becomes_a_record_that_repeats_the_other_fields() -> None:
    assert flattened(ROWS) == [(10, 1, "a"), (10, 1, "b"), (40, 4, None)]


def test_records_without_elements_stay_when_they_are_kept() -> None:
    assert flattened(ROWS, empty="keep") == [
        (10, 1, "a"),
        (10, 1, "b"),
        (20, 2, None),
        (30, 3, None),
        (40, 4, None),
        (50, 5, None),
    ]
    assert flattened(ROWS[:1], empty="keep") == [(10, 1, "a"), (10, 1, "b")]
    assert flattened(ROWS[1:2], empty="keep") == [(10, 2, None)]


def test_a_slice_of_a_batch_is_spread_by_its_own_arrays() -> None:
    made = transform_of("flatten", input=JSON, field="tags")
    batch = batch_of(made.bind(Schemas(SCHEMA)).fields, ROWS)
    assert made.arrow(batch.slice(3, 1)).to_pylist() == [{"_ts_ms": 40, "id": 4, "tags": None}]


def test_without_any_schema_elements_of_every_kind_are_put_into_their_record() -> None:
    made = transform_of("flatten", input=JSON, field="o.items", empty="keep")
    traits = made.bind(Schemas())
    [field] = traits.fields
    assert traits.carries
    text = build(spec(FormatSpec, "json"), spec(FormatSpec, "json").validate({}))
    records = [b'{"n":1.10,"o":{"items":[{"sku": "a"},7,"x",null],"z":0}}', b'{"n":2}']
    decoded = text.decode_batch(
        pa.array(records, pa.binary()),
        pa.schema([FieldRef(field.name, field.field_type.name, field.field_type.attrs).arrow()]),
    )
    assert decoded.bad == []
    found = made.arrow(batch_of([field], decoded.rows.to_pylist(), records))
    rest = found.column("_rest")
    assert encode_good(text, found.drop_columns(["_ts_ms", "_rest"]), rest).records.to_pylist() == [
        b'{"n":1.10,"o":{"items":{"sku": "a"},"z":0}}',
        b'{"n":1.10,"o":{"items":7,"z":0}}',
        b'{"n":1.10,"o":{"items":"x","z":0}}',
        b'{"n":1.10,"o":{"items":null,"z":0}}',
        b'{"n":2}',
    ]


def test_the_outputs_type_is_that_of_an_element() -> None:
    made = transform_of("flatten", input=JSON, output={"format": "csv"}, field="tags")
    fields = made.bind(Schemas(None, schema_of(id="int64", tags="string"))).fields
    assert names_of(fields) == {"id": "int64", "tags": "array"}
    assert made.arrow(batch_of(fields, ROWS[:1])).column("tags").to_pylist() == ["a", "b"]


def test_a_field_that_is_no_array_is_refused() -> None:
    with pytest.raises(ConfigError, match='"id" is int64: only an array'):
        transform_of("flatten", input=JSON, field="id").bind(Schemas(SCHEMA))


def test_lint_tells_that_an_element_does_not_fit_the_schema_that_has_the_array() -> None:
    tagged = {"format": "tagged"}
    configs: list[dict[str, Any]] = [{"input": tagged}, {"input": tagged, "output": tagged}]
    for config in configs:
        [fault] = faults_of("flatten", ("id", "tags"), field="tags", **config)
        assert fault.startswith('output: an element is not an array, as which "tagged" would write it')
    assert faults_of("flatten", ("id", "tags"), input=tagged, output=JSON, field="tags") == []
    assert faults_of("flatten", input=JSON, field="tags") == []


def test_lint_tells_a_missing_format_and_an_unknown_field() -> None:
    assert "needs a format" in faults_of("flatten", input={}, field="a")[0]
    assert 'no field "tag"' in faults_of("flatten", ("id", "tags"), input=JSON, field="tag")[0]
