"""A table that reads another table takes over its columns and attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.config.check import check_or_raise
from gauss.model.names import orders_topic
from gauss.model.paths import DataDir
from gauss.stream.driver.tasks.table_reads import with_orders
from gauss.stream.tables import table_topic
from gauss.tables.mapped_table import MappedTable

CONFIG = """
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [
    { name = "symbol", type = "string" },
    { name = "size", type = { name = "decimal", attrs = { precision = 18, scale = 8 } } },
    { name = "at", type = { name = "timestamp", attrs = { precision = 3 } } },
    { name = "tags", type = { name = "array", attrs = { element = "string" } } },
    { name = "count", type = "uint64" },
] }

[[schema_maps]]
name = "mapped"
script = "map.star"

[[topics]]
name = "from.first"
storage = "FIRST"
storage_config = { format = "quote", schema = { table = "quotes" } }

[[topics]]
name = "second"
storage = "SECOND"

[[topics]]
name = "scripted"
storage = "SECOND"
storage_config = { schema_map = "mapped" }

[[processors]]
name = "onward"
plugin = "passthrough"
source = { topic = "from.first", read = "snapshot" }
target = { topic = "second" }

[[processors]]
name = "through"
plugin = "filter"
source = { topic = "from.first", read = "query", every = "1m" }
target = { topic = "scripted" }
config = { input = {}, where = '.symbol == "BTC"' }
"""
SCRIPT = """
def map_schema(source, target):
    for field in source["fields"]:
        if field["name"] == "symbol":
            kind = field["field_type"]["name"]
            name = source["attrs"]["table"] + "_" + kind
            target["fields"].append({"name": name, "field_type": {"name": "TYPE", "attrs": {}}, "source": "symbol"})
    return target
"""


def understood(tmp_path: Path, first: str, second: str, text: str, topic: str) -> MappedTable:
    (tmp_path / "gauss.toml").write_text(CONFIG.replace("FIRST", first).replace("SECOND", second))
    (tmp_path / "map.star").write_text(SCRIPT.replace("TYPE", text))
    pipeline, checked = check_or_raise(tmp_path / "gauss.toml")
    return table_topic(pipeline, topic, checked.base_dir, DataDir(tmp_path / "data"))


def columns(found: MappedTable) -> dict[str, str]:
    return {field.name: found.store.column(field).partition(" ")[2] for field in found.mapped.fields}


def test_rows_of_clickhouse_become_columns_of_postgres(tmp_path: Path) -> None:
    found = understood(tmp_path, "clickhouse", "postgres", "TEXT", "second")
    assert found.source.attrs == {
        "database": "default",
        "table": "quotes",
        "engine": "MergeTree",
        "order_by": ["ts_ms"],
    }
    assert {field.name: field.field_type.name for field in found.source.fields}["at"] == "Nullable"
    assert columns(found) == {
        "ts_ms": "BIGINT",
        "symbol": "TEXT",
        "size": "NUMERIC(18,8)",
        "at": "TIMESTAMP(3) WITH TIME ZONE",
        "tags": "TEXT[]",
        "count": "NUMERIC(20,0)",
    }
    assert found.columns().explain()
    scripted = understood(tmp_path, "clickhouse", "postgres", "TEXT", "scripted")
    assert columns(scripted) == {"quotes_Nullable": "TEXT"}


def test_rows_of_postgres_become_columns_of_clickhouse(tmp_path: Path) -> None:
    found = understood(tmp_path, "postgres", "clickhouse", "String", "second")
    assert found.source.attrs == {"database": "postgres", "schema": "public", "table": "quotes"}
    types = {field.name: field.field_type.name for field in found.source.fields}
    assert types == {
        "ts_ms": "int8", "symbol": "text", "size": "numeric", "at": "timestamptz", "tags": "array", "count": "numeric",
    }  # fmt: skip
    assert columns(found)["size"] == "Nullable(Decimal64(8))"
    assert columns(found)["at"] == "Nullable(DateTime64(3))"
    assert columns(understood(tmp_path, "postgres", "clickhouse", "String", "scripted")) == {"quotes_text": "String"}


def test_processors_read_their_orders_with_the_tables_own_schema(tmp_path: Path) -> None:
    understood(tmp_path, "clickhouse", "postgres", "TEXT", "second")
    pipeline, checked = check_or_raise(tmp_path / "gauss.toml")
    ordered = with_orders(pipeline, checked.base_dir, DataDir(tmp_path / "data"))
    through = next(entry for entry in ordered.processors if entry.name == "through")
    assert through.source is not None and (through.source.topic, through.source.read) == (
        orders_topic("through"),
        "offset",
    )
    assert through.config["input"] == {"format": "_rows.from.first"}
    from gauss.stream.driver.queries.compile import design

    made: Any = design(ordered, through)
    assert [field.name for field in made.traits.fields] == ["symbol"]
