"""filter: the fields it decodes, the records that pass, and what is written."""

from __future__ import annotations

from gauss.contracts.transform import Schemas
from helpers.processors import batch_of, names_of, schema_of, transform_of

JSON = {"format": "json"}
SCHEMA = schema_of(symbol="string", bid="double", o__id="int64")
ROWS = [{"symbol": "BTC", "bid": 101.0, "$.o.id": 1}, {"symbol": "ETH", "bid": 50.0, "$.o.id": 2}]


def test_matching_records_pass_as_the_bytes_they_are() -> None:
    made = transform_of("filter", input=JSON, where='.bid > 100 and .symbol == "BTC"')
    fields = made.bind(Schemas()).fields
    assert names_of(fields) == {"bid": "double", "symbol": "string"}
    found = made.arrow(batch_of(fields, ROWS, [b"a", b"b"]))
    assert found.to_pylist() == [{"_ts_ms": 10, "_data": b"a"}]


def test_batch_in_which_every_record_matches_passes_whole() -> None:
    made = transform_of("filter", input=JSON, where=".bid > 0")
    fields = made.bind(Schemas(SCHEMA)).fields
    assert made.arrow(batch_of(fields, ROWS, [b"a", b"b"])).column("_data").to_pylist() == [b"a", b"b"]


def test_named_output_writes_the_fields_of_its_schema() -> None:
    made = transform_of("filter", input=JSON, where=".o.id == 2", output=JSON)
    fields = made.bind(Schemas(SCHEMA)).fields
    assert list(names_of(fields)) == ["symbol", "bid", "$.o.id"]
    found = made.arrow(batch_of(fields, ROWS))
    assert found.to_pylist() == [{"_ts_ms": 20, "symbol": "ETH", "bid": 50.0, "$.o.id": 2}]
