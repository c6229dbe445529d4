"""A mapping gives the same columns whether it is applied to a row or to a DataFrame."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping import apply_mapping, map_frame, row_of
from gauss.model.errors import ConfigError

pytestmark = pytest.mark.spark
SOURCE = SourceSchema(
    (
        SourceField("symbol", FieldType("string")),
        SourceField("$.order.id", FieldType("int64")),
        SourceField("a`b", FieldType("decimal", {"precision": 18, "scale": 8})),
        SourceField("secret", FieldType("string")),
    )
)
TARGET = TargetSchema(
    (
        TargetField("sym", FieldType("String"), "symbol"),
        TargetField("at", FieldType("Int64"), "@ts_ms"),
        TargetField("order id", FieldType("Int64"), "$.order.id"),
        TargetField("price", FieldType("Decimal64", {"scale": 8}), "a`b"),
        TargetField("wrt_ts", FieldType("DateTime64"), None, {"default": "now64(3)"}),
    )
)


def test_a_frame_is_filtered_renamed_and_ordered_as_a_row_is_and_keeps_its_source_types(spark: Any) -> None:
    values = {"symbol": "BTC", "$.order.id": 7, "a`b": None, "secret": "x"}
    columns = "symbol string, `$.order.id` bigint, `a``b` decimal(18,8), secret string, ts_ms bigint"
    frame = map_frame(spark.createDataFrame([(*values.values(), 100)], columns), TARGET, SOURCE)
    row = apply_mapping(row_of(values, SOURCE, 100), TARGET)
    assert frame.columns == [field.name for field in row.fields] == ["sym", "at", "order id", "price"]
    assert list(frame.collect()[0]) == [field.value for field in row.fields] == ["BTC", 100, 7, None]
    kept = {field.name: json.loads(field.metadata["source_type"]) for field in frame.schema.fields if field.metadata}
    own = {field.name: field.source_type for field in row.fields if field.name != "at"}
    assert kept == {name: {"name": kind.name, "attrs": kind.attrs} for name, kind in own.items()}
    with pytest.raises(ConfigError, match='reads the field "symbol"'):
        map_frame(frame, TARGET)
