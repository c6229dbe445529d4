"""Every stateless processor gives the same rows as Spark columns and over Arrow columns, for generated records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gauss.contracts.format import FieldType, SourceSchema
from helpers import format_values as v
from helpers.processors import batch_of, schema_of, transform_of

pytestmark = pytest.mark.spark

RUNS = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink a failure would take minutes of Spark jobs
    suppress_health_check=list(HealthCheck),
)
JSON = {"format": "json"}
PRICE = FieldType("decimal", {"precision": 38, "scale": 8})
SCHEMA = schema_of(
    symbol="string",
    bid="double",
    n="int64",
    o__id="string",
    tags=FieldType("array", {"element": "string"}),
    price=PRICE,
)
TEXTS = st.sampled_from(["BTC", "ETH", "", "a", "1234", "12345", "é€😀é€😀", "x" * 40]) | st.text(
    st.characters(codec="utf-8"), max_size=12
)
ROWS = st.fixed_dictionaries(
    {
        "symbol": st.none() | TEXTS,
        "bid": st.none() | st.floats(allow_nan=False),
        "n": st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1),
        "$.o.id": st.none() | TEXTS,
        "tags": st.none() | st.lists(st.none() | TEXTS, max_size=4),
        "price": st.none() | v.DECIMAL_38_8,
        "data": st.binary(max_size=20),
    }
)


@dataclass(frozen=True)
class Case:
    plugin: str
    config: dict[str, Any] = field(default_factory=dict)
    schema: SourceSchema | None = SCHEMA
    output: SourceSchema | None = None


NARROW = schema_of(o__id="string", symbol="string")
LOOKUP = {"BTC": {"name": "Bitcoin", "lot": 1}, "": {"lot": 2, "live": False}, "a": {"name": ""}}
ROUTES = [
    {"when": '.symbol == "BTC" or .o.id == ""', "topic": "a"},
    {"when": ".bid > 0 and .n < 3", "topic": "b"},
    {"when": '.symbol == "ETH"', "topic": "a"},
]
CASES = [
    Case("symbol-filter", {"symbols": ["BTC", "é€😀é€😀", ""]}),
    Case("symbol-filter", {"symbols": ["ETH"], "field": "o.id"}, schema=None),
    Case("mask", {"fields": ["symbol", "o.id"]}),
    Case("mask", {"fields": ["symbol", "o.id"], "method": "hash", "salt": "pépper"}),
    Case("mask", {"fields": ["symbol", "o.id"], "method": "partial"}, output=NARROW),
    Case("mask", {"fields": ["o.id"], "method": "partial", "keep": 0}, schema=None),
    Case("mask", {"fields": ["n", "tags", "bid"], "method": "null"}),
    Case("format-convert", {"output": {"format": "msgpack"}}),
    Case("format-convert", {"output": {"format": "csv"}}, output=NARROW),
    Case("format-convert", {"output": {"format": "csv"}}, schema=None, output=NARROW),
    Case("flatten", {"field": "tags"}),
    Case("flatten", {"field": "tags", "empty": "keep"}, output=schema_of(tags="string", n="int64")),
    Case("flatten", {"field": "tags", "empty": "keep"}, schema=None),
    Case("flatten", {"field": "tags"}, schema=None, output=schema_of(symbol="string", tags="string")),
    Case("enrich", {"add": {"venue": "é", "n": 7, "x": 1.5, "live": True}}),
    Case("enrich", {"lookup": {"key": "o.id", "table": LOOKUP}}, schema=None),
    Case("enrich", {"lookup": {"key": "n", "table": {"1": {"bid": 2.5}, "-3": {"more": "z"}}}}),
    Case("router", {"routes": ROUTES, "otherwise": "rest"}),
    Case("router", {"routes": ROUTES}, schema=None),
    Case("expression", {"program": "select(.price > 1 or .n != 3) | {symbol, p: .price, twice: (.price * 2)}"}),
    Case("expression", {"program": "{price, p: .price}"}, output=schema_of(price=PRICE, p="double")),
    Case("expression", {"add": {"last": ".price", "n": ".n"}}),
    *(Case("compress", {"algo": algo}) for algo in ("gzip", "snappy")),
    Case("decompress", {"algo": "lz4"}),
]
WITHOUT_FORMAT = ("compress", "decompress")


def on_spark(spark: Any, transform: Any, batch: pa.RecordBatch, decoded: list[str]) -> list[dict[str, Any]]:
    from gauss.stream.driver.compile import nested

    records = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1)
    found: list[dict[str, Any]] = transform.apply(nested(records, decoded)).toArrow().to_pylist()
    return found


@pytest.mark.timeout(600)
@RUNS
@given(st.lists(ROWS, min_size=12, max_size=12))
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.plugin}-{'-'.join(map(str, case.config))}")
def test_both_forms_agree(spark: Any, case: Case, rows: list[dict[str, Any]]) -> None:
    config = case.config if case.plugin in WITHOUT_FORMAT else {"input": JSON, **case.config}
    transform = transform_of(case.plugin, **config)
    fields = transform.bind(case.schema, case.output)
    batch = batch_of(fields, rows, [row["data"] for row in rows])
    hosted = transform.arrow(batch)
    assert on_spark(spark, transform, batch, [entry.name for entry in fields]) == hosted.to_pylist()
