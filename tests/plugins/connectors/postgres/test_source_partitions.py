"""Parts of a table are complete, disjoint and of one snapshot under concurrent writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import connect
from gauss.contracts.connector.connector import OpaqueSource, PartitionedSource
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from helpers.waiting import wait_until

Sql = Callable[[str], list[Any]]
SMALL = {"partition_bytes": 8_192}


@contextmanager
def writer(endpoint: Endpoint, *statements: str) -> Iterator[Callable[[], int]]:
    """Runs statements again and again; yields the number of rounds so far."""
    stop, rounds = threading.Event(), [0]

    def work() -> None:
        with connect(endpoint, autocommit=True) as connection:
            while not stop.is_set():
                for statement in statements:
                    connection.execute(statement.encode())
                rounds[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield lambda: rounds[0]
    finally:
        stop.set()
        thread.join()


def planned(source: Any, stream: Any, count: int, **config: Any) -> tuple[Any, list[Any]]:
    """The instance that holds the snapshot, and the parts."""
    made = source.make(source.start(stream), **{**SMALL, **config})
    return made, made.partitions(stream, count)


def test_parts_are_consistent_under_concurrent_writes(
    source: Any, schema: str, run_sql: Sql, postgres: Endpoint
) -> None:
    run_sql("CREATE TABLE t (id serial PRIMARY KEY, amount bigint, note text)")
    run_sql("INSERT INTO t (amount, note) SELECT i, repeat('x', 50) FROM generate_series(1, 5000) i")
    table = f"{schema}.t"
    move = f"UPDATE {table} SET amount = amount + 1, note = note || 'y' WHERE id % 10 = 1 AND id <= 5000"
    back = f"UPDATE {table} SET amount = amount - 1 WHERE id % 10 = 2 AND id <= 5000"
    # Each round keeps the sum in one transaction: a moment in its middle would show another.
    both = f"BEGIN; {move}; {back}; COMMIT"
    more = (
        f"INSERT INTO {table} (amount, note) VALUES (0, 'new'); DELETE FROM {table} WHERE note = 'new' AND id % 3 = 0"
    )
    with writer(postgres, both, more) as rounds:
        wait_until(lambda: rounds() > 0)
        stream = source.stream(table)
        holder, parts = planned(source, stream, 4)
        before = rounds()
        found = []
        for part in parts:
            found.append(source.read(stream, partition=part).table)
            now = rounds()
            wait_until(lambda now=now: rounds() > now)  # type: ignore[misc]
        assert rounds() > before + 2
    holder.close()
    ids = [number for table_ in found for number in table_["id"].to_pylist()]
    amounts = [number for table_ in found for number in table_["amount"].to_pylist()]
    assert len(parts) == 4 and all(table_.num_rows for table_ in found)
    assert len(ids) == len(set(ids)) and set(range(1, 5001)) <= set(ids)
    assert sum(amounts) == sum(range(1, 5001))


def test_parts_contain_exactly_the_rows_of_the_snapshot(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t AS SELECT i AS id, md5(i::text) AS v FROM generate_series(1, 6000) i")
    digest = "SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM t"
    (before,) = run_sql(digest)
    stream = source.stream(f"{schema}.t")
    holder, parts = planned(source, stream, 3)
    run_sql("UPDATE t SET v = 'changed'; DELETE FROM t WHERE id < 100; INSERT INTO t VALUES (7000, 'late')")
    rows = sorted(
        (row["id"], row["v"]) for part in parts for row in source.read(stream, partition=part).table.to_pylist()
    )
    run_sql("CREATE TABLE copy (id int, v text)")
    values = ", ".join(f"({number}, '{text}')" for number, text in rows)
    run_sql(f"INSERT INTO copy VALUES {values}")
    assert run_sql(digest.replace("FROM t", "FROM copy").replace("t::text", "copy::text")) == [before]
    holder.close()


def test_partitioned_table_is_split_across_its_partitions(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (id int, v text) PARTITION BY RANGE (id)")
    run_sql("CREATE TABLE a PARTITION OF t FOR VALUES FROM (0) TO (1000)")
    run_sql("CREATE TABLE b PARTITION OF t FOR VALUES FROM (1000) TO (100000)")
    run_sql("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i")
    stream = source.stream(f"{schema}.t")
    holder, parts = planned(source, stream, 3)
    ids = [number for part in parts for number in source.read(stream, partition=part).table["id"].to_pylist()]
    assert len(parts) == 3 and sorted(ids) == list(range(1, 5001))
    holder.close()


def test_view_small_table_and_incremental_stream_are_not_split(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t AS SELECT i AS id, repeat('x', 100) AS v FROM generate_series(1, 3000) i")
    run_sql("CREATE VIEW seen AS SELECT * FROM t; CREATE TABLE small (id int); CREATE MATERIALIZED VIEW m AS TABLE t")
    for name in ("seen", "small", "m"):
        assert planned(source, source.stream(f"{schema}.{name}"), 4)[1] == [None], name
    assert planned(source, source.stream(f"{schema}.t", "id"), 4)[1] == [None]
    assert planned(source, source.stream(f"{schema}.t"), 1)[1] == [None]
    assert planned(source, source.stream(f"{schema}.t"), 4, partition_bytes="16MiB")[1] == [None]


def test_part_with_an_expired_snapshot_is_a_transient_error(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t AS SELECT i AS id, repeat('x', 100) AS v FROM generate_series(1, 3000) i")
    stream = source.stream(f"{schema}.t")
    holder, parts = planned(source, stream, 2)
    holder.close()
    holder.close()
    with pytest.raises(ConnectorError) as caught:
        source.read(stream, partition=parts[0])
    assert (caught.value.category, caught.value.code) == (ErrorCategory.TRANSIENT_DB, "SNAPSHOT_GONE")


def test_table_cannot_be_rewritten_while_its_parts_are_read(
    source: Any, schema: str, run_sql: Sql, postgres: Endpoint
) -> None:
    run_sql("CREATE TABLE t AS SELECT i AS id, repeat('x', 100) AS v FROM generate_series(1, 3000) i")
    holder, parts = planned(source, source.stream(f"{schema}.t"), 2)
    assert len(parts) == 2
    with connect(postgres, autocommit=True) as other:
        other.execute("SET lock_timeout = '50ms'")
        with pytest.raises(Exception, match="lock timeout"):
            other.execute(f"VACUUM FULL {schema}.t".encode())
        holder.close()
        other.execute("SET lock_timeout = '10s'")
        other.execute(f"VACUUM FULL {schema}.t".encode())


def test_source_has_the_capabilities_of_its_contract(source: Any) -> None:
    made = source.make(source.start(source.stream("public.t")))
    assert isinstance(made, PartitionedSource) and isinstance(made, OpaqueSource)
