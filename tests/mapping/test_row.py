"""apply_mapping: which fields of a record fill which columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping import apply_mapping, row_of
from gauss.model.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "schema-maps.md"
PRICE = FieldType("decimal", {"precision": 18, "scale": 8})
SOURCE = SourceSchema(
    (
        SourceField("symbol", FieldType("string")),
        SourceField("$.order.id", FieldType("int64")),
        SourceField("price", PRICE),
        SourceField("secret", FieldType("string")),
    )
)


def test_fields_are_selected_renamed_and_ordered_and_keep_their_types() -> None:
    target = TargetSchema(
        (
            TargetField("p", FieldType("Decimal64", {"scale": 8}), "price"),
            TargetField("order id", FieldType("Int64"), "$.order.id"),
            TargetField("sym", FieldType("String"), "symbol"),
            TargetField("made", FieldType("DateTime64"), None, {"default": "now64(3)"}),
        )
    )
    row = apply_mapping(row_of({"symbol": "BTC", "$.order.id": 7, "secret": "x"}, SOURCE, 100), target)
    assert [(field.name, field.value) for field in row.fields] == [("p", None), ("order id", 7), ("sym", "BTC")]
    assert [field.source_type for field in row.fields] == [PRICE, FieldType("int64"), FieldType("string")]


def test_column_of_an_unknown_field_is_refused() -> None:
    with pytest.raises(ConfigError, match='column "a" reads the unknown field "b"'):
        apply_mapping(row_of({}, SOURCE, 100), TargetSchema((TargetField("a", FieldType("String"), "b"),)))


def test_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(from gauss.*?)```", PAGE.read_text(), re.DOTALL)
    exec(example, {})
