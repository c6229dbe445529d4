"""enrich: its lint, its lookup tables, the fields it decodes, and its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from helpers.processors import batch_of, faults_of, names_of, schema_of, transform_of

JSON = {"format": "json"}
TABLE = {"BTC": {"name": "Bitcoin", "lot": 1}, "ETH": {"lot": 0.5}}


def enriched(rows: list[dict[str, Any]], **config: Any) -> list[dict[str, Any]]:
    made = transform_of("enrich", input=JSON, **config)
    found = made.arrow(batch_of(made.bind(Schemas(schema_of(symbol="string", n="int64"))).fields, rows)).to_pylist()
    return [{name: value for name, value in row.items() if name != "_ts_ms"} for row in found]


def test_constants_are_added_and_replace_fields_of_their_name() -> None:
    assert enriched([{"symbol": "BTC", "n": 1}], add={"venue": "x", "n": 2.5, "live": True}) == [
        {"symbol": "BTC", "n": 2.5, "venue": "x", "live": True}
    ]


def test_a_key_that_is_not_there_gives_nulls() -> None:
    rows = [{"symbol": name, "n": 0} for name in ("ETH", None, "BTC", "XRP")]
    found = enriched(rows, lookup={"key": "symbol", "table": TABLE})
    assert [(row["symbol"], row["name"], row["lot"]) for row in found] == [
        ("ETH", None, 0.5),
        (None, None, None),
        ("BTC", "Bitcoin", 1.0),
        ("XRP", None, None),
    ]


def test_whole_numbers_can_be_keys() -> None:
    found = enriched([{"n": 7}, {"n": 8}], lookup={"key": "n", "table": {"7": {"a": "x"}}})
    assert [row["a"] for row in found] == ["x", None]
    with pytest.raises(ConfigError, match="keys must be int64"):
        enriched([], lookup={"key": "n", "table": {"seven": {"a": "x"}}})


def test_a_csv_file_gives_columns_of_the_type_that_all_its_rows_have(tmp_path: Path) -> None:
    file = tmp_path / "instruments.csv"
    file.write_text("symbol,code,lot,size,live,name\nBTC,007,1,0.5,true,Bitcoin\nETH,010,,2,false,\n")
    found = enriched([{"symbol": "BTC"}, {"symbol": "ETH"}], lookup={"key": "symbol", "file": str(file)})
    assert [{name: value for name, value in row.items() if name not in ("symbol", "n")} for row in found] == [
        {"code": "007", "lot": 1, "size": 0.5, "live": True, "name": "Bitcoin"},
        {"code": "010", "lot": None, "size": 2.0, "live": False, "name": None},
    ]


def test_a_json_file_is_an_array_of_objects(tmp_path: Path) -> None:
    file = tmp_path / "i.json"
    file.write_text('[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]')
    lookup = {"key": "n", "file": str(file), "file_key": "id"}
    assert [row["name"] for row in enriched([{"n": 2}], lookup=lookup)] == ["b"]
    with pytest.raises(ConfigError, match='has no key "n"'):
        enriched([], lookup={"key": "n", "file": str(file)})


@pytest.mark.parametrize(
    ("text", "said"),
    [("{}", "array of objects"), ("[", "can't be read"), ('[{"n":1,"a":1},{"n":1,"a":2}]', '"1" stands twice')],
)
def test_a_file_that_is_no_table_is_told(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "i.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        transform_of("enrich", input=JSON, lookup={"key": "n", "file": str(file)})


def test_values_of_several_kinds_in_a_column_are_refused() -> None:
    table = {"a": {"x": 1}, "b": {"x": "one"}}
    with pytest.raises(ConfigError, match='"x" must be text, numbers or booleans throughout, found int, str'):
        transform_of("enrich", input=JSON, lookup={"key": "k", "table": table})


def test_without_any_schema_the_rest_of_the_record_is_carried() -> None:
    made = transform_of("enrich", input=JSON, add={"venue": "x"}, lookup={"key": "o.id", "table": {"a": {"b": 1}}})
    traits = made.bind(Schemas())
    fields = traits.fields
    assert names_of(fields) == {"$.o.id": "string"}
    assert traits.carries
    found = made.arrow(batch_of(fields, [{"$.o.id": "a"}], [b"{}"]))
    assert found.to_pylist() == [{"_ts_ms": 10, "_rest": b"{}", "venue": "x", "b": 1}]


def test_an_output_without_the_added_field_is_refused() -> None:
    with pytest.raises(ConfigError, match="the output format has no field venue"):
        transform_of("enrich", input=JSON, add={"venue": "x"}).bind(Schemas(schema_of(a="int64"), schema_of(a="int64")))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "expected `add`, `lookup` or both"),
        ({"lookup": {"key": "a"}}, "one of `table`, `file` and `topic`"),
        ({"lookup": {"key": "a", "file": "x.xml"}}, "expected a .csv or .json file"),
        ({"lookup": {"key": "a", "topic": "t", "table": TABLE}}, "one of `table`, `file` and `topic`"),
        ({"lookup": {"key": "a", "table": TABLE, "fields": ["b"]}}, '"fields" belongs to `topic`'),
        ({"lookup": {"key": "a", "table": TABLE, "prefix": "b"}}, '"prefix" belongs to `topic`'),
    ],
)
def test_a_config_that_adds_nothing_is_a_fault(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        transform_of("enrich", input=JSON, **config)


def test_lint_tells_a_missing_format_and_an_unknown_key() -> None:
    assert "needs a format" in faults_of("enrich", input={}, add={"a": 1})[0]
    lookup = {"key": "sym", "table": TABLE}
    assert (
        'lookup: the input format has no field "sym"' in faults_of("enrich", ("symbol",), input=JSON, lookup=lookup)[0]
    )


def test_a_field_of_json_text_stays_marked_unless_it_is_replaced() -> None:
    for added, mark in (({"a": 1}, {b"gauss": b"json"}), ({"symbol": "x"}, None)):
        made = transform_of("enrich", input=JSON, add=added)
        batch = batch_of(made.bind(Schemas(schema_of(symbol="json"))).fields, [{"symbol": "7"}])
        fields = [field.with_metadata({"gauss": "json"} if field.name == "symbol" else None) for field in batch.schema]
        found = made.arrow(pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields)))
        assert found.schema.field("symbol").metadata == mark
