"""Blocks into a real ClickHouse, also after failures whose outcome is unknown."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gauss.clients.clickhouse.quote import identifier
from gauss.clients.embedded import ensure
from gauss.clients.errors import Unclear
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.table import RowBlock, RowGroup, TablePlace
from gauss.contracts.target import TargetField, TargetSchema
from gauss.mapping.columns import ColumnMap
from gauss.mapping.script import run_file
from gauss.model.errors import ConfigError, Fenced, Unavailable
from gauss.plugins.storages.clickhouse.spec import SPEC, ClickHouseConfig
from gauss.plugins.storages.clickhouse.table import ClickHouseTable
from helpers.waiting import wait_until

SOURCE = SourceSchema((SourceField("n", FieldType("int64")),))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("clickhouse")
    with ensure("clickhouse", directory):
        yield directory


class Made:
    """A new table with access to its rows."""

    def __init__(self, directory: Path, **config: Any) -> None:
        self.name = f"t{uuid.uuid4().hex[:12]}"
        self.directory = directory
        self.store = self.open(**config)
        self.target = self.store.target(SOURCE, None)

    def open(self, **config: Any) -> ClickHouseTable:
        config.setdefault("schema", {"table": self.name})
        checked = SPEC.validate({"format": "json", **config})
        assert isinstance(checked, ClickHouseConfig)
        return ClickHouseTable(checked, TablePlace("numbers", self.directory))

    def prepared(self) -> Made:
        self.store.open(self.target, self.store.prepare(self.target))
        return self

    def ask(self, query: str) -> list[Any]:
        return list(self.store._client().query(query.replace("TABLE", self.name)).result_rows)

    def numbers(self) -> list[int]:
        return [n for (n,) in self.ask("SELECT n FROM TABLE ORDER BY _offset")]


def block(start: int, stop: int, **given: Any) -> RowBlock:
    offsets = np.arange(start, stop)
    rows = pa.table({"ts_ms": pa.array(offsets), "n": pa.array(offsets * 10)})
    return RowBlock("_table.numbers", 1, 0, 7, start, stop, (RowGroup(offsets, rows),), **given)


def tens(start: int, stop: int) -> list[int]:
    return [n * 10 for n in range(start, stop)]


def test_block_inserted_again_changes_nothing(server: Path) -> None:
    made = Made(server).prepared()
    for _ in range(3):
        made.store.insert(block(0, 100), 0)
    made.store.insert(block(100, 150), 0)
    assert made.numbers() == tens(0, 150)


@pytest.mark.parametrize("unclear", [True, False])
def test_token_that_outlived_its_rows_is_seen_through_only_by_reading_back(server: Path, unclear: bool) -> None:
    made = Made(server).prepared()
    made.store.insert(block(0, 100), 0)
    # The state after a server dies between the log of tokens and the rename of the part: the token, and no rows.
    made.ask("DELETE FROM TABLE WHERE 1 SETTINGS mutations_sync = 2")
    made.store.insert(block(0, 100, unclear=unclear), 0.5)
    assert made.numbers() == (tens(0, 100) if unclear else [])
    if unclear:
        made.store.insert(block(0, 100, unclear=True), 0.5)
        assert made.numbers() == tens(0, 100)


def test_writer_that_may_insert_no_more_sends_nothing_also_after_it_has_waited(server: Path) -> None:
    made, until = Made(server).prepared(), [2]

    def guard() -> None:
        until[0] -= 1
        if until[0] < 0:
            raise Fenced("too late")

    made.store.insert(block(0, 100, guard=guard), 0)
    made.ask("DELETE FROM TABLE WHERE 1 SETTINGS mutations_sync = 2")
    with pytest.raises(Fenced):  # the first insert has a token that is known; the one under a fresh token is refused
        made.store.insert(block(0, 100, unclear=True, guard=guard), 0)
    assert made.numbers() == []


def test_blocks_cut_otherwise_after_a_lost_checkpoint_double_nothing(server: Path) -> None:
    made = Made(server).prepared()
    made.store.insert(block(0, 100), 0)
    made.store.insert(block(50, 120, unclear=True), 0.1)
    assert made.numbers() == tens(0, 120)


def test_replayed_letters_are_not_taken_for_the_inbox_rows_at_the_same_offsets(server: Path) -> None:
    made = Made(server).prepared()
    made.store.insert(block(0, 10), 0)
    made.store.insert(replace(block(0, 10, unclear=True), inc=-7), 0.1)
    assert made.ask("SELECT count(), countIf(_inc = -7) FROM TABLE") == [(20, 10)]


def test_replacing_table_ends_with_the_last_row_of_each_key(server: Path) -> None:
    made = Made(server)
    schema = {
        "table": made.name,
        "engine": "ReplacingMergeTree",
        "order_by": "ts_ms",
        "settings": {"allow_nullable_key": 1},
    }
    made.store = made.open(schema=schema)
    made.target = made.store.target(SOURCE, None)
    made.prepared()
    assert made.store.ordered
    offsets = np.arange(4)
    rows = pa.table({"ts_ms": pa.array([1, 2, 1, 2]), "n": pa.array([10, 20, 30, 40])})
    given = RowBlock("p", 1, 0, 7, 0, 4, (RowGroup(offsets, rows),), unclear=True)
    for _ in range(2):
        made.store.insert(given, 0.1)
    assert made.ask("SELECT ts_ms, n FROM TABLE FINAL ORDER BY ts_ms") == [(1, 30), (2, 40)]


def test_replacing_table_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="without order_by would merge all rows into one"):
        SPEC.validate({"schema": {"engine": "ReplacingMergeTree"}})


def test_objects_become_tuples_by_default_and_a_missing_one_has_no_members(server: Path) -> None:
    made = Made(server)
    inner = {"name": "at", "type": {"name": "struct", "attrs": {"fields": [{"name": "x", "type": "int32"}]}}}
    order = FieldType("struct", {"fields": [{"name": "id", "type": "int64"}, {"name": "who", "type": "string"}, inner]})
    tagged = FieldType(
        "struct", {"fields": [{"name": "tags", "type": {"name": "array", "attrs": {"element": "string"}}}]}
    )
    source = SourceSchema((SourceField("order", order), SourceField("more", tagged)))
    made.target = made.store.target(source, None)
    made.prepared()
    values = [{"id": 1, "who": "A", "at": {"x": 5}}, None, {"id": 2, "who": None, "at": None}]
    columns = ColumnMap(source, replace(made.target, fields=made.target.fields[:-2]), made.store.kind)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(values, arrow_type(order)), pa.array([{"tags": ["a"]}] * 3, arrow_type(tagged))], ["order", "more"]
    )
    groups, bad = columns.run(rows, pa.array([1, 2, 3], pa.int64()))
    assert bad == []
    made.store.insert(
        RowBlock("p", 1, 0, 7, 0, 3, (RowGroup(groups[0].rows, pa.Table.from_batches([groups[0].columns])),)), 0
    )
    found = made.ask("SELECT order.id, order.who, order.at.x, more.tags FROM TABLE ORDER BY _offset")
    assert found == [(1, "A", 5, ["a"]), (None, None, None, ["a"]), (2, None, None, ["a"])]


def test_ttl_of_the_storage_is_the_tables(server: Path) -> None:
    made = Made(server, ttl="toDateTime(ts_ms / 1000) + INTERVAL 1 YEAR").prepared()
    (text,) = made.ask("SELECT create_table_query FROM system.tables WHERE name = 'TABLE'")[0]
    assert "TTL toDateTime(ts_ms / 1000) + toIntervalYear(1)" in text


def test_table_without_a_format_keeps_blobs(server: Path) -> None:
    made = Made(server)
    made.target = made.store.target(None, None)
    made.prepared()
    rows = pa.table({"ts_ms": pa.array([5]), "payload": pa.array([b"\xff\0x"])})
    made.store.insert(RowBlock("p", 1, 0, 7, 0, 1, (RowGroup(np.arange(1), rows),)), 0)
    assert made.ask("SELECT ts_ms, hex(payload), _offset FROM TABLE") == [(5, "FF0078", 0)]


def test_without_exactly_once_rows_carry_no_marks(server: Path) -> None:
    made = Made(server, exactly_once=False).prepared()
    made.store.insert(block(0, 3, unclear=True), 0)
    assert made.ask("SELECT name FROM system.columns WHERE table = 'TABLE' ORDER BY position") == [("ts_ms",), ("n",)]
    assert made.ask("SELECT count() FROM TABLE") == [(3,)]


def wider(target: TargetSchema) -> TargetSchema:
    source = SourceSchema((*SOURCE.fields, SourceField("note", FieldType("string"))))
    store = ClickHouseTable(ClickHouseConfig(), TablePlace("numbers", Path()))
    return replace(store.target(source, None), attrs=target.attrs)


def test_evolve_adds_the_columns_that_the_table_lacks(server: Path) -> None:
    made = Made(server).prepared()
    made.store.insert(block(0, 3), 0)
    made.target = wider(made.target)
    assert made.store.prepare(made.target) == []
    assert made.ask("SELECT n, note FROM TABLE ORDER BY n") == [(0, None), (10, None), (20, None)]


@pytest.mark.parametrize("policy", ["reject_row", "drop_value"])
def test_other_policies_leave_the_table_as_it_is(server: Path, policy: str) -> None:
    made = Made(server).prepared()
    store = made.open(schema={"table": made.name}, evolve=policy)
    assert store.prepare(wider(made.target)) == ["note"]
    assert len(made.ask("SELECT name FROM system.columns WHERE table = 'TABLE'")) == 4


def test_freeze_refuses_with_the_statement_that_would_do_it(server: Path) -> None:
    made = Made(server).prepared()
    store = made.open(schema={"table": made.name}, evolve="freeze")
    with pytest.raises(ConfigError, match=r"\+ note") as caught:
        store.prepare(wider(made.target))
    assert "ADD COLUMN" in caught.value.hint


def test_server_that_is_not_up_is_said_to_be_away(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="not up"):
        Made(tmp_path).prepared()


def test_connection_is_made_again_after_a_close(server: Path) -> None:
    made = Made(server).prepared()
    made.store.close()
    made.store.insert(block(0, 3), 0)
    assert made.numbers() == tens(0, 3)


def test_table_that_somebody_made_is_given_marks_and_a_memory_for_tokens(server: Path) -> None:
    made = Made(server)
    columns = "n Nullable(Int64), mine String DEFAULT 'x'"
    made.store._client().command(f"CREATE TABLE {made.name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
    store = made.open(schema={"table": made.name, "order_by": "tuple()"})
    made.target = store.target(SOURCE, None)
    made.store = store
    made.prepared()
    for _ in range(2):
        made.store.insert(block(0, 3), 0)
    assert made.ask("SELECT n, mine, _inc, _offset FROM TABLE ORDER BY n") == [
        (0, "x", 7, 0),
        (10, "x", 7, 1),
        (20, "x", 7, 2),
    ]


QUOTE = SourceSchema(
    (
        *(SourceField(name, FieldType("string")) for name in ("symbol", "exchange", "internal_id")),
        *(SourceField(name, FieldType("decimal", {"precision": 18, "scale": 8})) for name in ("bid", "ask")),
        SourceField("volume", FieldType("int64")),
        SourceField("debug_info", FieldType("bytes")),
    )
)
SCRIPTS = Path(__file__).parents[4] / "examples" / "schema-maps"


def test_started_again_a_mapped_table_is_found_the_same(server: Path) -> None:
    made = Made(server)
    schema = {
        "table": made.name,
        "partition_by": "toYYYYMM(toDateTime(ts_ms / 1000))",
        "order_by": "(ts_ms)",
        "ttl": "toDateTime(ts_ms / 1000) + INTERVAL 90 DAY",
    }
    store = made.open(schema=schema)
    script = SCRIPTS / "proto-to-clickhouse.star"
    target = store.target(QUOTE, lambda start: run_file(script, QUOTE, start))
    for _ in range(2):
        assert store.prepare(target) == []
    assert store.differences(target) == []


def test_hostile_names_are_names(server: Path) -> None:
    made = Made(server)
    names = ["we`ird", 'qu"ote', "select", "новый столбец", "back\\slash", "x" * 200]
    table = f"t `{uuid.uuid4().hex[:6]}` \\ 'é"
    store = made.open(schema={"table": table})
    fields = tuple(TargetField(name, FieldType("Int64"), "n") for name in names)
    target = store.target(SOURCE, lambda start: replace(start, fields=fields))
    for _ in range(2):
        store.open(target, store.prepare(target))
    rows = pa.table({name: pa.array([5], pa.int64()) for name in names})
    store.insert(RowBlock("p", 1, 0, 7, 0, 1, (RowGroup(np.arange(1), rows),), unclear=True), 0.1)
    found = store._client().query(f"SELECT * FROM {identifier(table)}")
    assert found.result_rows == [(5, 5, 5, 5, 5, 5, 7, 0)]


def traced(task: Path) -> bool:
    try:
        return b"TracerPid:\t0\n" not in (task / "status").read_bytes()
    except OSError:  # the thread has ended
        return True


@pytest.mark.fault
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills the server at the very call")
def test_server_killed_at_the_rename_of_a_part_costs_no_row(tmp_path: Path) -> None:
    with ensure("clickhouse", tmp_path) as server:
        made = Made(tmp_path).prepared()
        made.store.insert(block(0, 10), 0)
        assert server.process is not None
        kill = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", "trace=rename"]
        kill += ["-e", "inject=rename:signal=KILL", "-p", str(server.process.pid)]
        with subprocess.Popen(kill) as tracer:
            tasks = Path(f"/proc/{server.process.pid}/task")
            wait_until(lambda: all(map(traced, tasks.iterdir())), what="strace at every thread")
            with pytest.raises(Unclear):
                made.store.insert(block(10, 20), 0)
            server.process.wait(60)
            tracer.terminate()
    with ensure("clickhouse", tmp_path):
        made.store.close()
        made.store.insert(block(10, 20), 0)
        assert made.numbers() == tens(0, 10), "the token was kept and the rows were not: the reason to read back"
        made.store.insert(block(10, 20, unclear=True), 0.5)
        assert made.numbers() == tens(0, 20)
