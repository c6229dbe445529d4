"""Blocks into a real Postgres: appended or upserted, once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gauss.clients.embedded import ensure
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.table import RowBlock, RowGroup, TablePlace
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping.columns import ColumnMap
from gauss.mapping.script import run_file
from gauss.model.errors import ConfigError, Fenced
from gauss.plugins.storages.postgres.spec import SPEC, PostgresConfig
from gauss.plugins.storages.postgres.table import PostgresTable, newest

SOURCE = SourceSchema((SourceField("n", FieldType("int64")), SourceField("note", FieldType("string"))))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("postgres")
    with ensure("postgres", directory):
        yield directory


class Made:
    """A new table with access to its rows."""

    def __init__(self, directory: Path, **config: Any) -> None:
        self.name = f"t{uuid.uuid4().hex[:12]}"
        checked = SPEC.validate({"format": "json", "schema": {"table": self.name}, **config})
        assert isinstance(checked, PostgresConfig)
        self.store = PostgresTable(checked, TablePlace("numbers", directory))
        self.target = self.store.target(SOURCE, None)
        self.store.open(self.target, self.store.prepare(self.target))

    def ask(self, query: str) -> list[Any]:
        return self.store._connection().execute(query.replace("TABLE", self.name).encode()).fetchall()

    def block(self, start: int, stop: int, values: list[int] | None = None, **given: Any) -> RowBlock:
        offsets = np.arange(start, stop)
        numbers = pa.array(offsets if values is None else values, pa.int64())
        rows = pa.table({"ts_ms": pa.array(offsets), "n": numbers, "note": pa.array([f"at {n}" for n in offsets])})
        return RowBlock(f"_table.{self.name}", 1, 0, 7, start, stop, (RowGroup(offsets, rows),), **given)


def test_block_written_again_changes_nothing(server: Path) -> None:
    made = Made(server)
    for _ in range(2):
        made.store.insert(made.block(0, 100), 0)
    made.store.insert(made.block(50, 120), 0)
    assert made.ask("SELECT count(*), count(DISTINCT _offset), max(n) FROM TABLE") == [(120, 120, 119)]


def test_older_generation_is_refused(server: Path) -> None:
    made = Made(server)
    made.store.insert(replace(made.block(0, 10), generation=2), 0)
    with pytest.raises(Fenced):
        made.store.insert(made.block(10, 20), 0)
    assert made.ask("SELECT count(*) FROM TABLE") == [(10,)]


def test_last_row_of_a_key_wins_within_and_across_blocks(server: Path) -> None:
    made = Made(server, key="n")
    assert made.store.ordered
    made.store.insert(made.block(0, 4, [1, 2, 1, 2]), 0)
    made.store.insert(made.block(4, 5, [1]), 0)
    assert made.ask("SELECT n, note, _offset FROM TABLE ORDER BY n") == [(1, "at 4", 4), (2, "at 3", 3)]


def test_ledger_forgets_what_is_settled(server: Path) -> None:
    made = Made(server)
    for start in range(0, 50, 10):
        made.store.insert(made.block(start, start + 10, settled=start), 0)
    left = f"SELECT min(start), count(*) FROM _gauss_ledger WHERE processor = '_table.{made.name}'"
    assert made.ask(left) == [(40, 1)]


def test_rewound_block_adds_what_the_table_lacks(server: Path) -> None:
    made = Made(server)
    made.store.insert(made.block(0, 10), 0)
    made.store.insert(made.block(10, 20, settled=10), 0)
    made.store._connection().execute(f"DELETE FROM {made.name} WHERE n IN (3, 15)".encode())
    made.store.insert(made.block(0, 20, unclear=True, rewound=True), 0)
    assert made.ask("SELECT count(*), count(DISTINCT _offset), sum(n) FROM TABLE") == [(20, 20, 190)]


def test_of_one_key_in_groups_with_other_defaults_the_last_row_goes_in() -> None:
    def group(offsets: list[int], keys: list[int], part: str) -> RowGroup:
        return RowGroup(np.array(offsets), pa.table({"k": pa.array(keys)}), part)

    found = newest((group([0, 3], [1, 2], ""), group([1, 2], [1, 2], "note")), ["k"])
    assert [(each.offsets.tolist(), each.part) for each in found] == [([3], ""), ([1], "note")]


def test_missing_value_takes_the_default_and_null_into_a_key_is_bad(server: Path) -> None:
    target = TargetSchema(
        (
            TargetField("n", FieldType("BIGINT"), "n"),
            TargetField("note", FieldType("TEXT"), "note", {"default": "'none'"}),
        ),
        {"table": "t"},
    )
    made = Made(server, key="n")
    columns = ColumnMap(SOURCE, target, made.store.kind)
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1, None, 3]), "note": pa.array(["x", "y", None])})
    groups, bad = columns.run(rows, pa.array([0, 0, 0]))
    assert [(each.row, each.column, each.reason) for each in bad] == [(1, "n", "null")]
    assert [group.columns.to_pylist() for group in groups] == [[{"n": 1, "note": "x"}], [{"n": 3}]]


def test_nested_values_become_json_text(server: Path) -> None:
    source = SourceSchema((SourceField("tags", FieldType("map", {"key": "string", "value": "int64"})),))
    target = TargetSchema((TargetField("tags", FieldType("JSONB"), "tags"),), {"table": "t"})
    columns = ColumnMap(source, target, Made(server).store.kind)
    given = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    groups, bad = columns.run(pa.RecordBatch.from_arrays([given], ["tags"]), pa.array([0, 0]))
    assert not bad
    assert groups[0].columns.to_pylist() == [{"tags": '{"a":1}'}, {"tags": None}]


def test_changed_type_is_refused_with_the_statement(server: Path) -> None:
    made = Made(server)
    fields = tuple(
        replace(field, field_type=FieldType("TEXT")) if field.name == "n" else field for field in made.target.fields
    )
    with pytest.raises(ConfigError, match="~ n: bigint → text") as caught:
        made.store.prepare(replace(made.target, fields=fields))
    assert "ALTER COLUMN" in caught.value.hint


def test_two_servers_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match="dsn or host"):
        SPEC.validate({"dsn": "postgresql://h/d", "host": "h"})


ORDERS = SourceSchema(
    (
        SourceField("$.order.id", FieldType("int64")),
        SourceField("$.order.customer.name", FieldType("string")),
        SourceField("$.order.customer.tags", FieldType("array", {"element": "string"})),
        SourceField("$.order.items[*].price", FieldType("array", {"element": "double"})),
        SourceField("$.ts", FieldType("int64")),
    )
)
QUOTE = SourceSchema(
    (
        SourceField("symbol", FieldType("string")),
        SourceField("bid", FieldType("decimal", {"precision": 18, "scale": 8})),
        SourceField("at", FieldType("timestamp", {"precision": 3})),
        SourceField("name", FieldType("varchar", {"length": 255})),
        SourceField("sizes", FieldType("array", {"element": "int64"})),
    )
)
SCRIPTS = Path(__file__).parents[4] / "examples" / "schema-maps"


@pytest.mark.parametrize(
    ("script", "source"), [("json-orders-to-postgres.star", ORDERS), ("proto-to-postgres.star", QUOTE)]
)
def test_started_again_a_mapped_table_is_found_the_same(server: Path, script: str, source: SourceSchema) -> None:
    made = Made(server)
    made.store._connection().execute(f"DROP TABLE {made.name}".encode())
    target = made.store.target(source, lambda start: run_file(SCRIPTS / script, source, start))
    for _ in range(2):
        assert made.store.prepare(target) == []
    assert made.store.differences(target) == []
