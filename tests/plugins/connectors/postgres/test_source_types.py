"""Full refresh: every type with a null row, edge values, rows that can't be read, sizes of batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.postgres.arrow_columns import TYPE_KEY
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.host import Mark
from gauss.contracts.connector.stream import StreamContext, StreamPolicies
from helpers.postgres_types import BAD, CASES, MOMENTS

NUMBERS = {"date": "at - DATE '1970-01-01'", "timestamp": "extract(epoch FROM at) * 1000000"}


def test_every_type_is_read_with_its_nulls(source: Any, schema: str, run_sql: Callable[[str], list[Any]]) -> None:
    run_sql("CREATE TYPE mood AS ENUM ('ok', 'sad'); CREATE DOMAIN positive AS int CHECK (value > 0)")
    run_sql("CREATE DOMAIN price AS numeric(10,2); CREATE TYPE pair AS (a int, b text)")
    run_sql(f"CREATE TABLE t ({', '.join(f'c{number} {kind}' for number, kind in enumerate(CASES))}, x xml)")
    run_sql(f"INSERT INTO t VALUES ({', '.join(value for value, _, _ in CASES.values())}, NULL)")
    run_sql("INSERT INTO t DEFAULT VALUES")
    found = source.read(f"{schema}.t")
    (batch,) = found.batches
    batch.validate(full=True)
    for number, (kind, (_, arrow, value)) in enumerate(CASES.items()):
        assert batch.schema.field(number).type == arrow, kind
        made = batch.column(number).to_pylist()
        assert made[1] is None, kind
        if value is not None:
            assert made[0] == value, kind
    assert batch.column("x").to_pylist() == [None, None]
    assert batch.schema.field("c19").metadata[TYPE_KEY] == b"bytea"
    assert found.summary.records_read == 2 and not found.seen.letters


@pytest.mark.parametrize("kind", MOMENTS)
def test_timestamps_far_from_now_are_exact(
    source: Any, schema: str, run_sql: Callable[[str], list[Any]], kind: str
) -> None:
    run_sql(f"CREATE TABLE t (n serial, at {kind})")
    values = ", ".join(f"('{text}')" for text in MOMENTS[kind])
    run_sql(f"INSERT INTO t (at) VALUES {values}, (NULL)")
    expected = [row[0] for row in run_sql(f"SELECT {NUMBERS[kind.removesuffix('tz')]} FROM t ORDER BY n")]
    found = source.read(f"{schema}.t").table["at"]
    assert found.cast(pa.int32() if kind == "date" else pa.int64()).to_pylist() == expected


def test_nan_and_null_floats_are_distinct(source: Any, schema: str, run_sql: Callable[[str], list[Any]]) -> None:
    run_sql("CREATE TABLE t (f float8); INSERT INTO t VALUES ('NaN'), (NULL), ('infinity')")
    values = source.read(f"{schema}.t").table["f"]
    assert values.null_count == 1
    nan, null, infinite = values.to_pylist()
    assert math.isnan(nan) and null is None and infinite == math.inf


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case[0]} {case[1]}")
def test_value_without_an_arrow_value_is_rejected_alone(
    source: Any, schema: str, run_sql: Callable[[str], list[Any]], case: tuple[str, str, str | None]
) -> None:
    kind, value, shown = case
    run_sql(f"CREATE TABLE t (id int, v {kind}, tail text); INSERT INTO t VALUES (1, NULL, 'a'), (2, {value}, 'b')")
    run_sql("INSERT INTO t VALUES (3, NULL, 'c')")
    found = source.read(f"{schema}.t")
    assert found.table["id"].to_pylist() == [1, 3]
    assert found.table["tail"].to_pylist() == ["a", "c"]
    ((_, rows, error),) = found.seen.letters
    assert error.category is ErrorCategory.DATA and '"v"' in error.message
    (row,) = rows.to_pylist()
    assert (row["id"], row["tail"]) == (2, "b")
    if shown is not None:
        assert row["v"] == shown and shown in error.message


def test_bad_value_fails_the_stream_by_default(source: Any, schema: str, run_sql: Callable[[str], list[Any]]) -> None:
    run_sql("CREATE TABLE t (v date); INSERT INTO t VALUES ('infinity')")
    asked = source.stream(f"{schema}.t")
    strict = StreamContext(asked.stream_name, asked.schema, asked.sync_mode, None, asked.limits, StreamPolicies())
    with pytest.raises(ConnectorError) as caught:
        source.read(strict)
    assert caught.value.code == "NO_ARROW_VALUE"


def test_empty_table_has_a_final_checkpoint(source: Any, schema: str, run_sql: Callable[[str], list[Any]]) -> None:
    run_sql("CREATE TABLE t (id int)")
    found = source.read(f"{schema}.t")
    assert found.items == [Mark(0, None, final=False)]
    assert found.summary.checkpoint_count == 1


def test_batches_stay_within_the_limit_and_lose_no_rows(
    source: Any, schema: str, run_sql: Callable[[str], list[Any]]
) -> None:
    run_sql("CREATE TABLE t AS SELECT i AS id, repeat('x', i % 300) AS v FROM generate_series(1, 9000) i")
    found = source.read(f"{schema}.t", max_batch_bytes=20_000)
    assert max(batch.nbytes for batch in found.batches) <= 20_000
    assert sorted(found.table["id"].to_pylist()) == list(range(1, 9001))
    assert found.summary.batches_emitted == len(found.batches) > 50


def test_row_above_the_limit_is_rejected_alone(source: Any, schema: str, run_sql: Callable[[str], list[Any]]) -> None:
    large = "repeat('x', CASE i WHEN 2 THEN 5000000 ELSE 5 END)"
    run_sql(f"CREATE TABLE t AS SELECT i AS id, {large} AS v FROM generate_series(1, 3) i")
    found = source.read(f"{schema}.t")
    assert found.table["id"].to_pylist() == [1, 3]
    ((_, rows, error),) = found.seen.letters
    assert rows["id"].to_pylist() == [2] and error.code == "RECORD_TOO_LARGE"
