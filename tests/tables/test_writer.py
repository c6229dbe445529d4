"""Writes a range of records to a real Postgres or ClickHouse table: rows, and a rejection for each invalid record."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gauss import registry
from gauss.clients.embedded import ensure
from gauss.contracts.format import FormatSpec
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import RowBlock, RowGroup, TablePlace
from gauss.model.batch import record_batch
from gauss.model.paths import DataDir
from gauss.tables import rows as row_mapping
from gauss.tables.insert import Waits, insert_block
from gauss.tables.mapped_table import MappedTable, map_table
from gauss.tables.rows import Refusal, RowMapper
from gauss.tables.writer import write_blocks

pytestmark = pytest.mark.system

FIELDS = [{"name": "n", "type": "int64"}, {"name": "note", "type": "string"}]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataDir]:
    found = DataDir(tmp_path_factory.mktemp("data"))
    with ensure("postgres", found.server("postgres")), ensure("clickhouse", found.server("clickhouse")):
        yield found


def open_table(
    data_dir: DataDir, storage: str, *, format: str = "json", script: Path | None = None, **config: Any
) -> RowMapper:
    """A new table; `config` is that of its format, with the table's own under `table`."""
    name = f"t{uuid.uuid4().hex[:12]}"
    spec: Any = registry.spec(StorageSpec, storage)
    settings = spec.validate(config.pop("table", {}))
    format_spec = registry.spec(FormatSpec, format)
    format_ = registry.build(format_spec, format_spec.validate(config)) if config else None
    table = map_table(spec, settings, TablePlace(name, data_dir.server(storage)), format_, script)
    lacking = table.store.prepare(table.target)
    table.store.open(table.target, lacking)
    return RowMapper(table, lacking)


def topic(data_dir: DataDir, storage: str, script: str = "", **config: Any) -> tuple[MappedTable, RowMapper]:
    """A new table for FIELDS as JSON; `script` is the list of columns of its schema map."""
    file = data_dir.root / f"{uuid.uuid4().hex}.star"
    if script:
        file.write_text(f"def map_schema(source, target):\n    target['fields'] = {script}\n    return target\n")
    mapper = open_table(data_dir, storage, script=file if script else None, fields=FIELDS, table=config)
    return mapper.table, mapper


def written(found: MappedTable, mapper: RowMapper, records: list[bytes]) -> list[Refusal]:
    mapped = mapper.rows(pa.Table.from_batches([record_batch(0, 1_000, pa.array(records, pa.binary()))]))
    assert mapped is not None
    block = RowBlock(found.name, 1, 0, 7, 0, len(records), mapped.groups)
    return sorted([*mapped.refusals, *insert_block(found.store, block, Waits(0.1))])


def lines(*rows: Any) -> list[bytes]:
    return [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]


def ask(found: MappedTable, query: str) -> list[Any]:
    query = query.replace("TABLE", found.name)
    store: Any = found.store
    if hasattr(store, "_client"):
        return list(store._client().query(query).result_rows)
    return list(store._connection().execute(query.encode()).fetchall())


MAPPED = {
    "postgres": """[
        column("n", "SMALLINT", source = "n", props = {"check": "n <> 13"}),
        column("note", "TEXT", source = "note", props = {"default": "'none'"}),
    ]""",
    "clickhouse": """[
        column("n", "Int16", source = "n"),
        column("note", "String", source = "note", props = {"default": "'none'"}),
    ]""",
}


@pytest.mark.parametrize("storage", ["postgres", "clickhouse"])
def test_rows_go_in_and_each_bad_record_costs_itself(data_dir: DataDir, storage: str) -> None:
    found, mapper = topic(data_dir, storage, MAPPED[storage])
    refused = written(
        found,
        mapper,
        lines({"n": 1, "note": "x"}, b"not json", {"n": 2}, {"n": 70_000, "note": "y"}, {"n": "three"}, {"n": 4}),
    )
    assert ask(found, "SELECT n, note, _offset FROM TABLE ORDER BY n") == [(1, "x", 0), (2, "none", 2), (4, "none", 5)]
    assert [(each.offset, each.stage, each.column) for each in refused] == [
        (1, "decode", ""),
        (3, "map", "n"),
        (4, "decode", ""),
    ]


@pytest.mark.parametrize("storage", ["postgres", "clickhouse"])
def test_range_whose_rows_are_too_large_together_goes_in_by_halves_once(
    data_dir: DataDir, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, mapper = topic(data_dir, storage)
    records = [
        *lines(*({"n": n, "note": "x" * 1000} for n in range(20))),
        b"bad",
        *lines({"n": 21, "note": "y" * 9000}),
    ]
    asked: list[tuple[int, int]] = []
    buried: list[int] = []

    class Inbox:
        def read(self, block: RowBlock) -> pa.Table:
            asked.append((block.start, block.stop))
            data = pa.array(records[block.start : block.stop], pa.binary())
            return pa.Table.from_batches([record_batch(block.start, 1_000, data)])

        def dead_letter(self, block: RowBlock, records: pa.Table, refusals: Sequence[Refusal]) -> None:
            assert len(records) == block.stop - block.start
            buried.extend(each.offset for each in refusals)

    monkeypatch.setattr(row_mapping, "MOST_ROWS_BYTES", 4_000)
    for generation in (1, 2):  # a replay creates the same blocks
        block = RowBlock("t", generation, 0, 7, 0, len(records), unclear=generation > 1)
        write_blocks(mapper, Inbox(), [block], Waits(0.1))
    rows = ask(found, "SELECT n, _offset FROM TABLE ORDER BY n")
    assert rows == [(n, n) for n in range(22) if n != 20]
    assert buried == [20, 20]
    assert len(set(asked)) == len(asked) // 2 > 8


def test_null_into_a_column_that_takes_none_is_refused(data_dir: DataDir) -> None:
    found, mapper = topic(data_dir, "clickhouse", MAPPED["clickhouse"])
    refused = written(found, mapper, lines({"note": "x"}, {"n": 1}))
    assert [(each.offset, each.reason, each.column) for each in refused] == [(0, "null", "n")]
    assert ask(found, "SELECT count() FROM TABLE") == [(1,)]


def test_row_that_only_the_server_refuses_is_found_by_halving_and_again_after_a_replay(data_dir: DataDir) -> None:
    found, mapper = topic(data_dir, "postgres", MAPPED["postgres"])
    records = lines(*({"n": n} for n in range(100)))
    for _ in range(2):
        refused = written(found, mapper, records)
        assert [(each.offset, each.stage, each.reason) for each in refused] == [(13, "insert", "constraint")]
        assert ask(found, "SELECT count(*), count(DISTINCT _offset) FROM TABLE") == [(99, 99)]


def test_row_that_can_not_be_sent_is_found_without_asking_the_server(data_dir: DataDir) -> None:
    found, mapper = topic(
        data_dir,
        "clickhouse",
        """[column("at", "DateTime", source = "n"), column("note", "String", source = "note")]""",
    )
    records = lines(*({"n": -5_000 if n == 42 else n, "note": ""} for n in range(100)))
    refused = written(found, mapper, records)
    assert [(each.offset, each.reason, each.column) for each in refused] == [(42, "out_of_range", "at")]
    assert ask(found, "SELECT count() FROM TABLE") == [(99,)]
    assert ask(found, "SELECT count() FROM system.parts WHERE table = 'TABLE' AND active") == [(1,)]


NARROW, WIDE = (
    """[column("n", "BIGINT", source = "n")]""",
    """[column("n", "BIGINT", source = "n"), column("note", "TEXT", source = "note")]""",
)


@pytest.mark.parametrize(("policy", "kept", "refused"), [("reject_row", [2], [0]), ("drop_value", [1, 2], [])])
def test_values_without_a_column_are_treated_as_the_policy_says(
    data_dir: DataDir, policy: str, kept: list[int], refused: list[int]
) -> None:
    narrow, _ = topic(data_dir, "postgres", NARROW)
    found, mapper = topic(data_dir, "postgres", WIDE, evolve=policy, schema={"table": narrow.name})
    assert mapper.lacking == {"note"}
    given = written(found, mapper, lines({"n": 1, "note": "x"}, {"n": 2}))
    assert [(each.offset, each.reason, each.column) for each in given] == [(at, "no_column", "note") for at in refused]
    assert [n for (n,) in ask(narrow, "SELECT n FROM TABLE ORDER BY n")] == kept


def test_range_without_records_inserts_nothing(data_dir: DataDir) -> None:
    found, mapper = topic(data_dir, "clickhouse", MAPPED["clickhouse"])
    assert written(found, mapper, []) == []
    assert ask(found, "SELECT count() FROM TABLE") == [(0,)]


def test_blob_table_takes_any_bytes(data_dir: DataDir) -> None:
    mapper = open_table(data_dir, "clickhouse")
    found = mapper.table
    assert written(found, mapper, [b"\xff\x00", b""]) == []
    assert ask(found, "SELECT ts_ms, hex(payload), _offset FROM TABLE ORDER BY _offset") == [
        (1_000, "FF00", 0),
        (1_000, "", 1),
    ]


def test_offsets_of_a_block_survive_cutting() -> None:
    offsets = np.array([0, 0, 2, 5])
    block = RowBlock("p", 1, 0, 7, 0, 6, (RowGroup(offsets, pa.table({"n": pa.array([1, 2, 3, 4])}), "note"),))
    cut = block.between(0, 3)
    assert (cut.start, cut.stop, cut.offsets(), cut.groups[0].part) == (0, 3, [0, 2], "note")
    assert block.without([0, 5]).groups[0].rows.to_pydict() == {"n": [3]}


PROTO = """
syntax = "proto3";
package market.data;
message Quote {
  string symbol = 1; double bid = 2; double ask = 3; int64 volume = 4;
  string exchange = 5; string internal_id = 6; bytes debug_info = 7;
}
"""
SCRIPT = Path(__file__).parents[2] / "examples" / "schema-maps" / "proto-to-clickhouse.star"


def test_protobuf_quotes_become_the_rows_of_the_shipped_schema_map(data_dir: DataDir) -> None:
    (data_dir.root / "quote.proto").write_text(PROTO)
    config = {"proto": str(data_dir.root / "quote.proto"), "message": "Quote"}
    mapper = open_table(data_dir, "clickhouse", format="protobuf", script=SCRIPT, **config)
    found = mapper.table
    assert found.format is not None
    good = found.format.encode({"symbol": "BTC", "bid": 1.5, "ask": 2.0, "volume": 7, "exchange": "x"})
    refused = written(found, mapper, [good, b"\xff\xff", b""])
    assert [(each.offset, each.stage) for each in refused] == [(1, "decode")]
    columns = "ts_ms, sym, bid, ask, volume, spread, wrt_ts > '2020-01-01', _inc, _offset"
    assert ask(found, f"SELECT {columns} FROM TABLE ORDER BY _offset") == [
        (1_000, "BTC", 1.5, 2.0, 7, 0.5, 1, 7, 0),
        (1_000, "", 0.0, 0.0, 0, 0.0, 1, 7, 2),  # an absent scalar of proto3 is zero
    ]
