"""Faults of topics whose storage is a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.config.check import check
from gauss.config.listeners import addresses
from gauss.stream.graph import build_graph
from gauss.stream.guarantee import guarantees

HEAD = """
[[formats]]
name = "typed"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }

[[formats]]
name = "loose"
plugin = "json"

[[schema_maps]]
name = "map"
script = "map.star"

[[topics]]
name = "table"
storage = "STORAGE"
storage_config = { CONFIG }

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "table" }
config = { port = 12001, input = { framing = "newline" } }
"""
SINK = """
[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "table", read = "READ" }
config = { port = 12002, output = { framing = "newline" } }
"""


def faults(folder: Path, config: str, storage: str = "clickhouse", more: str = "") -> list[str]:
    (folder / "map.star").write_text("")
    file = folder / "gauss.toml"
    file.write_text(HEAD.replace("CONFIG", config).replace("STORAGE", storage) + more)
    return [str(fault) for fault in check(file).faults]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ('format = "loose"', "declares no fields"),
        ('format = "json"', "declares no fields"),
        ('format = "auto"', "declares no fields"),
        ('format = "loose", schema_map = "map"', "declares no fields"),
        ('schema_map = "map"', '"schema_map" needs the "format"'),
        ('format = "typed", schema = { engine = "ReplacingMergeTree" }', "would merge all rows into one"),
        ('format = "typed", evolve = "sometimes"', "reject_row"),
        ('format = "typed", flush_interval = "5m"', "flush_interval"),
    ],
)
def test_fault_is_named(tmp_path: Path, config: str, told: str) -> None:
    found = faults(tmp_path, config)
    assert any(told in fault for fault in found), found


@pytest.mark.parametrize("read", ["offset", "snapshot", "query"])
def test_processor_that_reads_a_table_is_refused_with_the_reason(tmp_path: Path, read: str) -> None:
    found = faults(tmp_path, 'format = "typed"', more=SINK.replace("READ", read))
    assert any("keeps rows, not records in order" in fault for fault in found), found


@pytest.mark.parametrize(
    ("storage", "config", "promise"),
    [
        ("clickhouse", 'format = "typed"', "exactly once"),
        ("clickhouse", "", "exactly once"),
        ("clickhouse", 'format = "typed", async_insert = true', "at least once: async_insert is not deduplicated"),
        ("clickhouse", 'format = "typed", exactly_once = false', "at least once: exactly_once is off"),
        (
            "clickhouse",
            'format = "typed", schema = { engine = "SummingMergeTree", order_by = "n" }',
            "may miss a batch when ClickHouse is killed in mid-insert, since merged rows can't be read back",
        ),
        ("clickhouse", 'format = "typed", write_full = "drop"', "refuses new records when full: table"),
        ("postgres", 'format = "typed"', "exactly once"),
        ("postgres", 'format = "typed", exactly_once = false', "at least once: exactly_once is off"),
        ("postgres", 'format = "typed", exactly_once = false, key = "n"', "exactly once"),
    ],
)
def test_table_promises_what_its_config_allows(tmp_path: Path, storage: str, config: str, promise: str) -> None:
    assert faults(tmp_path, config, storage) == []
    pipeline = check(tmp_path / "gauss.toml").pipeline
    assert pipeline is not None
    graph = build_graph(pipeline)
    assert [(found.end, found.kind, str(found)) for found in guarantees(graph)] == [("table", "table", promise)]
    assert graph.servers == [storage]
    assert graph.needs_spark


@pytest.mark.parametrize(
    ("storage", "config", "host", "port"),
    [
        ("clickhouse", 'host = "db.example", secure = false', "db.example", 8123),
        ("clickhouse", 'host = "db.example", secure = true', "db.example", 8443),
        ("postgres", 'host = "db.example", sslmode = "prefer"', "db.example", 5432),
        ("postgres", 'dsn = "postgresql://me:pw@db.example:5433/x?sslmode=require"', "db.example", 5433),
        ("postgres", "dsn = \"host=db.example port='5434' dbname=x sslmode=require\"", "db.example", 5434),
    ],
)
def test_named_server_is_looked_for_and_needs_no_embedded_one(
    tmp_path: Path, storage: str, config: str, host: str, port: int
) -> None:
    assert faults(tmp_path, f'format = "typed", {config}', storage) == []
    pipeline = check(tmp_path / "gauss.toml").pipeline
    assert pipeline is not None
    assert build_graph(pipeline).servers == []
    assert [(each.host, each.port) for each in addresses(pipeline) if each.who == 'topic "table"'] == [(host, port)]


def faults_of(tmp_path: Path, storage: str, config: str) -> list[str]:
    text = HEAD.replace("STORAGE", storage).replace("CONFIG", config)
    (tmp_path / "map.star").write_text("")
    (tmp_path / "gauss.toml").write_text(text)
    return [f"{fault.message}; {fault.hint}" for fault in check(tmp_path / "gauss.toml").errors]


def test_a_misspelt_engine_is_refused_offline(tmp_path: Path) -> None:
    given = 'format = "typed", schema = { engine = "ReplacingMergeTre", order_by = "n" }'
    (fault,) = faults_of(tmp_path, "clickhouse", given)
    assert 'no table engine "ReplacingMergeTre": did you mean "ReplacingMergeTree"?' in fault


def test_ttl_is_a_storage_parameter_of_clickhouse(tmp_path: Path) -> None:
    ttl = 'ttl = "toDateTime(ts_ms / 1000) + INTERVAL 1 DAY"'
    assert faults_of(tmp_path, "clickhouse", f'format = "typed", {ttl}') == []
    (fault,) = faults_of(tmp_path, "clickhouse", f'format = "typed", {ttl}, schema = {{ {ttl} }}')
    assert '"ttl" stands here and in "schema"' in fault
    (fault,) = faults_of(tmp_path, "clickhouse", 'format = "typed", ttl = "30d"')
    assert "INTERVAL 30 DAY" in fault and '"30d"' in fault


@pytest.mark.parametrize(
    ("storage", "instead"), [("postgres", "partition_by"), ("file", "retention"), ("memory", "storage_size")]
)
def test_ttl_is_refused_with_what_to_do_where_a_storage_has_none(tmp_path: Path, storage: str, instead: str) -> None:
    (fault,) = faults_of(tmp_path, storage, 'ttl = "ts_ms"')
    assert 'unknown key "storage_config.ttl"' in fault or 'unknown key "ttl"' in fault
    assert instead in fault.partition("; ")[2]
