"""Change data capture: every type equal to a full refresh, positions, large transactions, sizes of batches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.replication import lsn_number, lsn_text, replication_name
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.host import Batch
from gauss.contracts.connector.lifecycle import Feature, JsonConfig, OpenContext
from gauss.contracts.connector.stream import OPERATION, StreamContext
from gauss.plugins.connectors.postgres import source_cdc
from helpers.postgres_types import BAD, CASES, MOMENTS
from helpers.waiting import wait_until

Sql = Callable[[str], list[Any]]


def started(source: Any, stream: str, **more: Any) -> Any:
    """The cursor behind the snapshot of a stream."""
    return source.read(source.changes(stream, **more)).cursor


def changed(source: Any, stream: str, last: Any, **more: Any) -> Any:
    return source.read(source.changes(stream, last, **more))


def test_source_has_the_cdc_feature(source: Any, schema: str) -> None:
    made = source.make(source.start(source.changes(f"{schema}.t")))
    assert made.open(OpenContext(JsonConfig(source.config), "source-postgres", "1")).features == [Feature.CDC]


def test_every_type_equals_its_full_refresh(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TYPE mood AS ENUM ('ok', 'sad'); CREATE DOMAIN positive AS int CHECK (value > 0)")
    run_sql("CREATE DOMAIN price AS numeric(10,2); CREATE TYPE pair AS (a int, b text); CREATE DOMAIN host AS inet")
    more = {
        "box[]": "ARRAY['(1,1),(0,0)', NULL]::box[]",
        "host": "'::1'",
        "host[]": "'{::1/64,10.0.0.1}'",
        "text[] ": """ARRAY['a b', 'NULL', '{', E'x"\\\\', NULL, '']""",
        "timestamptz[]": "ARRAY['2020-01-01Z', NULL]::timestamptz[]",
        "money ": "1234567.5",
        "float4 ": "1.17549435e-38",
    }
    cases = {**{kind: value for kind, (value, _, _) in CASES.items()}, **more}
    for kind, values in MOMENTS.items():
        cases |= {f"{kind}{' ' * (number + 1)}": f"'{value}'" for number, value in enumerate(values)}
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(cases))
    run_sql(f"CREATE TABLE t (id int PRIMARY KEY, {columns}, x xml)")
    begun = started(source, f"{schema}.t")
    run_sql(f"INSERT INTO t VALUES (1, {', '.join(cases.values())}, NULL)")
    run_sql("INSERT INTO t (id) VALUES (2)")
    expected = source.read(f"{schema}.t").table
    found = changed(source, f"{schema}.t", begun).table
    assert found[OPERATION].to_pylist() == ["insert", "insert"]
    found = found.drop_columns([OPERATION])
    for name in expected.schema.names:
        assert found.schema.field(name).type == expected.schema.field(name).type
        assert found[name].combine_chunks() == expected[name].combine_chunks(), name


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case[0]} {case[1]}")
def test_value_without_an_arrow_value_is_rejected_alone(
    source: Any, schema: str, run_sql: Sql, case: tuple[str, str, str | None]
) -> None:
    kind, value, _ = case
    run_sql(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})")
    begun = started(source, f"{schema}.t")
    run_sql(f"INSERT INTO t VALUES (1, NULL), (2, {value}), (3, NULL)")
    found = changed(source, f"{schema}.t", begun)
    assert found.table["id"].to_pylist() == [1, 3]
    ((_, rows, error),) = found.seen.letters
    assert error.category is ErrorCategory.DATA and '"v"' in error.message
    assert rows["id"].to_pylist() == ["2"] and rows[OPERATION].to_pylist() == ["insert"]


def test_generated_columns_equal_those_of_the_table(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql(
        "CREATE TABLE t (id int PRIMARY KEY, s int GENERATED ALWAYS AS (id * 2) STORED, v int GENERATED ALWAYS AS (1))"
    )
    begun = started(source, f"{schema}.t")
    run_sql("INSERT INTO t VALUES (1)")
    assert changed(source, f"{schema}.t", begun).table.to_pylist() == [{"id": 1, "s": 2, OPERATION: "insert"}]


def test_run_skips_changes_that_were_emitted_but_not_confirmed(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY)")
    begun = started(source, f"{schema}.t")
    run_sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    first = changed(source, f"{schema}.t", begun)
    run_sql("INSERT INTO t VALUES (3)")
    again = changed(source, f"{schema}.t", begun)
    assert [row["id"] for row in again.table.to_pylist()] == [1, 2, 3]
    assert changed(source, f"{schema}.t", first.cursor).table["id"].to_pylist() == [3]


def test_transactions_are_read_in_commit_order(source: Any, schema: str, run_sql: Sql, postgres: Endpoint) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY)")
    begun = started(source, f"{schema}.t")
    with connect(postgres) as slow:
        slow.execute(f"INSERT INTO {schema}.t VALUES (1)".encode())
        run_sql("INSERT INTO t VALUES (2)")
        first = changed(source, f"{schema}.t", begun)
        slow.commit()
    assert first.table["id"].to_pylist() == [2]
    assert changed(source, f"{schema}.t", first.cursor).table["id"].to_pylist() == [1]


def test_hostile_names_are_captured(source: Any, connection: Connection, schema: str) -> None:
    names = ["we\"ird.tab'le; DROP", 'c%s"ol', "ключ{}", "_ op", "\\x"]
    table, key, *columns = ['"{}"'.format(name.replace('"', '""')) for name in names]
    connection.execute(
        f"CREATE TABLE {schema}.{table} ({key} int PRIMARY KEY, {', '.join(f'{c} text' for c in columns)})".encode()
    )
    connection.execute(f"ALTER TABLE {schema}.{table} ALTER COLUMN {columns[0]} SET STORAGE EXTERNAL".encode())
    stream = f"{schema}.{table}"
    begun = started(source, stream)
    connection.execute(f"INSERT INTO {schema}.{table} ({key}, {columns[0]}) VALUES (1, repeat('x', 9000))".encode())
    connection.execute(f"UPDATE {schema}.{table} SET {columns[1]} = 'a'; DELETE FROM {schema}.{table}".encode())
    found = changed(source, stream, begun).table
    assert found[OPERATION].to_pylist() == ["insert", "update", "delete"]
    assert found[names[1]].to_pylist() == [1, 1, 1] and found[names[3]].to_pylist() == [None, "a", None]


@pytest.mark.parametrize("sync", ["p", 'Ünïcode "sync"', "x" * 300])
def test_slot_names_are_valid_and_unique(sync: str) -> None:
    made = {replication_name(*each) for each in (("d", sync, "s.t"), ("d", f"{sync}_s", "t"), ("e", sync, "s.t"))}
    assert len(made) == 3
    for name in made:
        assert len(name) <= 63 and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")


@pytest.mark.parametrize("text", ["0/0", "0/16B3748", "FF/FFFFFFFF"])
def test_lsn_is_formatted_like_in_postgres(text: str) -> None:
    assert lsn_text(lsn_number(text)) == text


@pytest.mark.parametrize("text", ["", "16B3748", "0/", "0/XYZ", "0/123456789"])
def test_invalid_lsn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position"):
        lsn_number(text)


def test_large_transaction_is_read_in_bounded_memory(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    begun = started(source, f"{schema}.t")
    run_sql("INSERT INTO t SELECT n, repeat(md5(n::text), 16) FROM generate_series(1, 200000) n")  # 100 MB
    growth = 0
    for _ in range(2):  # the first loads machine code
        Path("/proc/self/clear_refs").write_text("5")
        before = peak_bytes()
        rows, largest = consumed(source, source.changes(f"{schema}.t", begun, max_inflight_batches=2))
        assert rows == 200_000 and largest <= 8 << 20
        growth = peak_bytes() - before
    assert growth < 80 << 20


def consumed(source: Any, stream: StreamContext) -> tuple[int, int]:
    """Reads a stream whose batches are thrown away; returns how many rows it has, and its largest batch."""
    run = source.start(stream)
    made, sizes, rows = source.make(run), [0], [0]

    def consume() -> None:
        while (item := run.channel.get()) is not None:
            if isinstance(item, Batch):
                assert isinstance(item.rows, pa.RecordBatch)
                rows.append(item.rows.num_rows)
                sizes.append(item.rows.nbytes)

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        made.run_read(stream)
    finally:
        run.channel.end()
        consumer.join()
    return sum(rows), max(sizes)


def peak_bytes() -> int:
    """The largest resident memory since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) << 10


def test_batches_of_changes_stay_within_the_limit(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
    begun = started(source, f"{schema}.t", max_batch_bytes=20_000)
    run_sql("INSERT INTO t SELECT n, repeat('x', n % 300) FROM generate_series(1, 3000) n")
    run_sql("INSERT INTO t VALUES (0, repeat('y', 30000))")
    found = changed(source, f"{schema}.t", begun, max_batch_bytes=20_000)
    assert max(batch.nbytes for batch in found.batches) <= 20_000
    assert found.table["id"].to_pylist() == list(range(1, 3001))
    ((_, rows, error),) = found.seen.letters
    assert rows["id"].to_pylist() == ["0"] and error.code == "RECORD_TOO_LARGE"


def test_long_backlog_is_read_in_several_peeks(
    source: Any, schema: str, run_sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_cdc, "PEEK_CHANGES", 10)
    monkeypatch.setattr(source_cdc, "COMMIT_WAIT_S", 0.0)  # nobody commits here
    run_sql("CREATE TABLE t (id int PRIMARY KEY)")
    begun = started(source, f"{schema}.t")
    for number in range(12):
        run_sql(f"INSERT INTO t VALUES ({number})")
    found = changed(source, f"{schema}.t", begun)
    assert found.table["id"].to_pylist() == list(range(12))


def test_slot_dropped_during_a_run_is_an_error(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY)")
    begun = started(source, f"{schema}.t")
    run_sql("INSERT INTO t VALUES (1)")
    stream = source.changes(f"{schema}.t", begun)
    made = source.make(source.start(stream))
    seen = []

    def dropped(connection: Connection, _: Any) -> None:
        seen.append(run_sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"))
        connection.close()

    made._watch = lambda connection: (
        dropped(connect(source.config["dsn"], autocommit=True), connection) if connection and not seen else None
    )
    with pytest.raises(ConnectorError) as caught:
        made.run_read(stream)
    assert caught.value.code == "SLOT_GONE" and "state reset p" in caught.value.hint and seen


def test_column_added_during_a_run_is_a_schema_error(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY)")
    begun = started(source, f"{schema}.t")
    run_sql("INSERT INTO t VALUES (1)")
    stream = source.changes(f"{schema}.t", begun)
    made = source.make(source.start(stream))
    altered: list[Any] = []

    def alter(connection: Connection | None) -> None:
        if connection is not None and not altered:
            altered.append(run_sql("ALTER TABLE t ADD COLUMN v int"))

    made._watch = alter
    with pytest.raises(ConnectorError) as caught:
        made.run_read(stream)
    assert caught.value.code == "SCHEMA_CHANGED" and caught.value.category is ErrorCategory.SCHEMA
    assert changed(source, f"{schema}.t", begun).table.to_pylist() == [{"id": 1, "v": None, OPERATION: "insert"}]


def test_run_that_waits_for_other_transactions_can_be_cancelled(
    source: Any, schema: str, run_sql: Sql, postgres: Endpoint
) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY)")
    stream = source.changes(f"{schema}.t")
    run = source.start(stream)
    made = source.make(run)
    with connect(postgres) as other:
        other.execute(f"INSERT INTO {schema}.t VALUES (1)".encode())
        reading = threading.Thread(target=made.run_read, args=(stream,))
        reading.start()
        wait_until(
            lambda: run_sql(
                "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%' AND state = 'active'"
            )
        )
        run.cancel.set()
        made.interrupt()
        reading.join(30)
        assert not reading.is_alive()
    assert run.emitted == 0


def test_value_from_before_a_type_change_that_fits_is_read(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int PRIMARY KEY, a date, b int, c timestamp, d varchar(9))")
    begun = started(source, f"{schema}.t")
    run_sql("INSERT INTO t VALUES (1, '2020-01-01', 5, '2020-01-01 12:00', '7')")
    run_sql(
        "ALTER TABLE t ALTER a TYPE timestamp, ALTER b TYPE numeric(9,2), ALTER c TYPE date, ALTER d TYPE int USING 7"
    )
    assert changed(source, f"{schema}.t", begun).table.drop_columns([OPERATION]) == source.read(f"{schema}.t").table


@pytest.mark.parametrize(
    "change",
    [
        ("int", "1", "bool USING v <> 0"),
        ("text", "abcdef", "bytea USING v::bytea"),
        ("text", "abc", "bytea USING v::bytea"),
        ("text", "a,b", "text[] USING string_to_array(v, ',')"),
        ("text", "noon", "time USING '12:00'"),
        ("text", "today", "timestamp USING now()"),
        ("timestamp", "2020-01-01 12:00", "timestamptz"),
        ("timestamptz", "2020-01-01 12:00Z", "timestamp"),
        ("numeric", "12.5", "money USING v::money"),
        ("text", "12 pounds", "int USING 12"),
    ],
)
def test_value_from_before_a_type_change_that_does_not_fit_is_rejected(
    source: Any, schema: str, run_sql: Sql, change: tuple[str, str, str]
) -> None:
    before, value, after = change
    run_sql(f"CREATE TABLE t (id int PRIMARY KEY, v {before})")
    begun = started(source, f"{schema}.t")
    run_sql(f"INSERT INTO t VALUES (1, '{value}'); ALTER TABLE t ALTER COLUMN v TYPE {after}; INSERT INTO t VALUES (2)")
    run_sql("INSERT INTO t SELECT 3, v FROM t WHERE id = 1")
    expected = source.read(f"{schema}.t").table["v"].to_pylist()
    found = changed(source, f"{schema}.t", begun)
    assert found.table["id"].to_pylist() == [2, 3] and found.table["v"].to_pylist() == expected[1:]
    ((_, rows, error),) = found.seen.letters
    assert rows["id"].to_pylist() == ["1"] and error.category is ErrorCategory.DATA
