"""Writes to a real Postgres."""

from __future__ import annotations

import datetime
import threading
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.endpoint import Endpoint
from gauss.clients.errors import RowError
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.ledger import Mark, claim
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.types import parse_type
from gauss.clients.postgres.write import PostgresTarget, write
from gauss.model.errors import ConfigError, Fenced, ProtocolError
from helpers.cases import cases

UTC = datetime.UTC


def make(connection: Connection, table: str, *key: str, **columns: str) -> PostgresTarget:
    lines = [f"{identifier(name)} {kind}" for name, kind in columns.items()]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(map(identifier, key))})")
    connection.execute(f"CREATE TABLE {identifier(table)} ({', '.join(lines)})".encode())
    return PostgresTarget(
        identifier(table), {name: parse_type(kind.split(" default")[0]) for name, kind in columns.items()}, key
    )


def rows_of(connection: Connection, table: PostgresTarget, order: str = "1") -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT * FROM {table.name} ORDER BY {order}".encode()).fetchall()


CASES: list[tuple[str, pa.DataType, list[Any], list[Any] | None]] = [
    ("smallint", pa.int16(), [-32768, 32767, None], [-32768, 32767, None]),
    ("integer", pa.int32(), [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    ("integer", pa.int64(), [7], [7]),
    ("bigint", pa.int64(), [-(2**63), 2**63 - 1, None], [-(2**63), 2**63 - 1, None]),
    ("bigint", pa.uint64(), [5], [5]),
    ("bigint", pa.decimal128(20, 0), [Decimal(5)], [5]),
    ("numeric(20,0)", pa.uint64(), [2**64 - 1], [Decimal(2**64 - 1)]),
    ("real", pa.float32(), [1.5, None], [1.5, None]),
    ("double precision", pa.float64(), [0.1, float("inf"), -0.0], [0.1, float("inf"), -0.0]),
    (
        "numeric(38,10)",
        pa.decimal128(38, 10),
        [Decimal("9999999999999999999999999999.9999999999"), Decimal("-0.0000000001"), Decimal(0), None],
        [Decimal("9999999999999999999999999999.9999999999"), Decimal("-0.0000000001"), Decimal(0), None],
    ),
    ("numeric", pa.decimal128(18, 8), [Decimal("1.00000001")], [Decimal("1.00000001")]),
    ("numeric(60,20)", pa.decimal256(60, 20), [Decimal("1" * 40 + ".5")], [Decimal("1" * 40 + ".5")]),
    ("numeric", pa.string(), ["123456789012345678901234567890123456789012.5"], [Decimal("1234567890" * 4 + "12.5")]),
    ("boolean", pa.bool_(), [True, False, None], [True, False, None]),
    ("text", pa.string(), ["", "naïve ☃ 😀", 'a"b\\c\n\t', None], ["", "naïve ☃ 😀", 'a"b\\c\n\t', None]),
    ("text", pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"], ["a", "b", "a"]),
    ("text", pa.int64(), [5], ["5"]),
    ("varchar(3)", pa.large_string(), ["abc"], ["abc"]),
    ("char(3)", pa.string(), ["a"], ["a  "]),
    ("bytea", pa.binary(), [b"\x00\xff", b"", None], [b"\x00\xff", b"", None]),
    (
        "date",
        pa.date32(),
        [datetime.date(1, 1, 1), datetime.date(2038, 1, 19)],
        [datetime.date(1, 1, 1), datetime.date(2038, 1, 19)],
    ),
    ("time", pa.time64("us"), [datetime.time(23, 59, 59, 999999)], [datetime.time(23, 59, 59, 999999)]),
    (
        "timestamptz",
        pa.timestamp("us", tz="UTC"),
        [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None],
        [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None],
    ),
    ("timestamptz", pa.timestamp("ms", tz="Europe/Paris"), [1], [datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)]),
    ("timestamp(3) with time zone", pa.timestamp("s"), [86400], [datetime.datetime(1970, 1, 2, tzinfo=UTC)]),
    ("timestamp", pa.timestamp("ns"), [1_999], [datetime.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (
        "uuid",
        pa.string(),
        ["0123e4567-e89b-12d3-a456-426614174000"[1:]],
        [uuid.UUID("123e4567-e89b-12d3-a456-426614174000")],
    ),
    ("uuid", pa.binary(16), [b"\x01" * 16, None], [uuid.UUID(bytes=b"\x01" * 16), None]),
    ("json", pa.string(), ['{"a": [1]}'], [{"a": [1]}]),
    ("jsonb", pa.string(), ['{"a": [1]}', None], [{"a": [1]}, None]),
    ("interval", pa.duration("ms"), [1500], [datetime.timedelta(seconds=1.5)]),
    ("inet", pa.string(), ["10.0.0.1"], None),
    ("bigint[]", pa.list_(pa.int64()), [[1, None], [], None], [[1, None], [], None]),
    ("integer[]", pa.list_(pa.int64()), [[1]], [[1]]),
    ("text[]", pa.list_(pa.string()), [['a"b', "{,}", "", None, "NULL"]], [['a"b', "{,}", "", None, "NULL"]]),
    ("double precision[]", pa.list_(pa.float64()), [[0.5]], [[0.5]]),
    ("integer[][]", pa.list_(pa.list_(pa.int32())), [[[1, 2], [3, None]]], [[[1, 2], [3, None]]]),
    ("numeric(10,2)[]", pa.list_(pa.decimal128(10, 2)), [[Decimal("1.25")], None], [[Decimal("1.25")], None]),
    ("text[]", pa.list_(pa.list_(pa.string())), [[['a"\\b', "c"]]], [[['a"\\b', "c"]]]),
    ("timestamptz[]", pa.list_(pa.timestamp("us", tz="UTC")), [[0]], [[datetime.datetime(1970, 1, 1, tzinfo=UTC)]]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_values_of_each_type_are_written_unchanged(
    connection: Connection, table: str, case: tuple[str, pa.DataType, list[Any], list[Any] | None]
) -> None:
    kind, arrow, values, expected = case
    made = make(connection, table, n="integer", v=kind)
    rows = pa.table({"n": pa.array(range(len(values)), pa.int32()), "v": pa.array(values, arrow)})
    assert write(connection, made, rows) == len(values)
    found = rows_of(connection, made)
    assert len(found) == len(values)
    if expected is not None:
        assert [row[1] for row in found] == expected


@settings(max_examples=cases(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1) | st.none(),
            st.text(st.characters(exclude_characters="\0", codec="utf-8")) | st.none(),
            st.decimals(-(10**20), 10**20, places=8) | st.none(),
            st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)) | st.none(),
            st.floats(allow_nan=False) | st.none(),
            st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")) | st.none()) | st.none(),
        ),
        max_size=20,
    )
)
def test_any_rows_read_back_equal_the_written_ones(connection: Connection, values: list[tuple[Any, ...]]) -> None:
    kinds = {
        "a": (pa.int64(), "bigint"),
        "b": (pa.string(), "text"),
        "c": (pa.decimal128(38, 8), "numeric"),
        "d": (pa.timestamp("us"), "timestamp"),
        "e": (pa.float64(), "double precision"),
        "f": (pa.list_(pa.string()), "text[]"),
    }
    with connection.transaction(force_rollback=True):
        made = make(connection, "anything", n="integer", **{name: kind for name, (_, kind) in kinds.items()})
        columns = {
            name: pa.array([value[place] for value in values], arrow)
            for place, (name, (arrow, _)) in enumerate(kinds.items())
        }
        write(connection, made, pa.table({"n": pa.array(range(len(values)), pa.int32()), **columns}))
        assert [row[1:] for row in rows_of(connection, made)] == values


def test_missing_columns_get_their_default(connection: Connection, table: str) -> None:
    made = make(connection, table, a="bigint", b="text default 'x'")
    write(connection, made, pa.table({"a": [1]}))
    assert rows_of(connection, made) == [(1, "x")]


def test_upsert_replaces_by_key_and_the_last_of_a_batch_wins(connection: Connection, table: str) -> None:
    made = make(connection, table, "k", "j", k="text", j="bigint", v="numeric(10,2)", ip="inet")

    def batch(*rows: tuple[str, int, str]) -> pa.Table:
        columns = list(zip(*rows, strict=True))
        prices = pa.array([Decimal(price) for price in columns[2]], pa.decimal128(10, 2))
        return pa.table({"k": columns[0], "j": columns[1], "v": prices, "ip": ["10.0.0.1"] * len(rows)})

    write(connection, made, batch(("a", 1, "1"), ("b", 1, "2"), ("a", 1, "3")))
    write(connection, made, batch(("b", 1, "4"), ("c", 1, "5"), ("c", 1, "6"), ("a", 2, "7")))
    found = [row[:3] for row in rows_of(connection, made, "1, 2")]
    assert found == [("a", 1, Decimal(3)), ("a", 2, Decimal(7)), ("b", 1, Decimal(4)), ("c", 1, Decimal(6))]


def test_upsert_of_keys_alone_keeps_existing_rows(connection: Connection, table: str) -> None:
    made = make(connection, table, "k", k="text")
    for _ in range(2):
        write(connection, made, pa.table({"k": ["a", "a", "b"]}))
    assert rows_of(connection, made) == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        ("varchar(3)", pa.array(["ok", "too long"]), "too_long"),
        ("text", pa.array(["a\0b"]), "encoding"),
        ("bigint not null", pa.array([1, None]), "null"),
        ("bigint", pa.array([2**63], pa.uint64()), "convert"),
        ("inet", pa.array(["not an address"]), "not_parsed"),
        ("jsonb", pa.array(["{"]), "not_parsed"),
        ("bigint check (v > 5)", pa.array([1]), "constraint"),
        ("bigint primary key", pa.array([1, 1]), "duplicate"),
    ],
)
def test_value_that_the_table_refuses_is_a_row_error(
    connection: Connection, table: str, kind: str, values: pa.Array, reason: str
) -> None:
    connection.execute(f"CREATE TABLE {identifier(table)} (v {kind})".encode())
    bare = kind.split(" not", maxsplit=1)[0].split(" check", maxsplit=1)[0].split(" primary", maxsplit=1)[0]
    made = PostgresTarget(identifier(table), {"v": parse_type(bare)})
    with pytest.raises(RowError) as caught:
        write(connection, made, pa.table({"v": values}))
    assert caught.value.reason == reason
    assert rows_of(connection, made) == []


def test_dropped_table_is_a_config_error_with_a_hint(connection: Connection, table: str) -> None:
    with pytest.raises(ConfigError, match="does not exist") as caught:
        write(connection, PostgresTarget(identifier(table), {"v": parse_type("bigint")}), pa.table({"v": [1]}))
    assert "CREATE TABLE" in caught.value.hint


@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize("kind", ["double precision", "timestamptz", "integer", "text"])
def test_column_of_another_type_is_a_config_error(
    connection: Connection, table: str, key: tuple[str, ...], kind: str
) -> None:
    made = make(connection, table, *key, k="bigint", v="bigint")
    connection.execute(f"ALTER TABLE {made.name} DROP COLUMN v, ADD COLUMN v {kind}".encode())
    with pytest.raises(ConfigError, match=r"v is .* instead of BIGINT") as caught:
        write(connection, made, pa.table({"k": [1], "v": [7]}))
    assert "gauss schema" in caught.value.hint
    assert rows_of(connection, made) == []


def mark(table: str, start: int, stop: int, generation: int = 1, **more: int) -> Mark:
    return Mark(f"p-{table}", generation, more.pop("epoch", 0), 1, start, stop, **more)


def offsets(start: int, stop: int) -> pa.Table:
    return pa.table({"_offset": pa.array(range(start, stop), pa.int64())})


def test_range_is_written_once(connection: Connection, table: str) -> None:
    made = make(connection, table, _offset="bigint")
    assert write(connection, made, offsets(0, 5), mark(table, 0, 5)) == 5
    assert write(connection, made, offsets(0, 5), mark(table, 0, 5)) == 0
    assert write(connection, made, offsets(5, 9), mark(table, 5, 9)) == 4
    assert [row[0] for row in rows_of(connection, made)] == list(range(9))


def test_range_with_committed_parts_writes_only_the_missing_rows(connection: Connection, table: str) -> None:
    made = make(connection, table, _offset="bigint")
    write(connection, made, offsets(0, 4), mark(table, 0, 4))
    write(connection, made, offsets(6, 8), mark(table, 6, 8))
    assert write(connection, made, offsets(0, 8), mark(table, 0, 8)) == 2
    assert [row[0] for row in rows_of(connection, made)] == list(range(8))
    with pytest.raises(ProtocolError):
        write(
            connection, PostgresTarget(made.name, {"x": parse_type("bigint")}), pa.table({"x": [1]}), mark(table, 3, 9)
        )


def test_lower_generation_is_fenced_and_writes_nothing(connection: Connection, table: str) -> None:
    made = make(connection, table, _offset="bigint")
    claim(connection, f"p-{table}", 7)
    with pytest.raises(Fenced):
        write(connection, made, offsets(0, 5), mark(table, 0, 5, generation=6))
    with pytest.raises(Fenced):
        claim(connection, f"p-{table}", 6)
    write(connection, made, offsets(0, 5), mark(table, 0, 5, generation=8))
    with pytest.raises(Fenced):
        write(connection, made, offsets(5, 6), mark(table, 5, 6, generation=7))
    assert len(rows_of(connection, made)) == 5


def test_claim_waits_for_the_transaction_of_a_fenced_writer(
    connection: Connection, postgres: Endpoint, table: str
) -> None:
    made = make(connection, table, _offset="bigint")
    claim(connection, f"p-{table}", 1)
    claimed = threading.Event()

    def take() -> None:
        with connect(postgres, autocommit=True) as other:
            claim(other, f"p-{table}", 2)
            claimed.set()

    thread = threading.Thread(target=take)
    with connection.transaction():
        write(connection, made, offsets(0, 5), mark(table, 0, 5))
        thread.start()
        assert not claimed.wait(0.3)
    thread.join(60)
    assert claimed.is_set()
    with pytest.raises(Fenced):
        write(connection, made, offsets(5, 6), mark(table, 5, 6))


def test_settled_ranges_are_removed_from_the_ledger(connection: Connection, table: str) -> None:
    made = make(connection, table, _offset="bigint")
    for start in range(0, 50, 5):
        write(connection, made, offsets(start, start + 5), mark(table, start, start + 5, settled=start))
    left = connection.execute("SELECT count(*) FROM _gauss_ledger WHERE processor = %s", [f"p-{table}"]).fetchone()
    assert left == (1,)


def test_failed_write_records_no_range(connection: Connection, table: str) -> None:
    made = make(connection, table, _offset="bigint", v="varchar(3)")
    bad = offsets(0, 2).append_column("v", pa.array(["ok", "too long"]))
    with pytest.raises(RowError):
        write(connection, made, bad, mark(table, 0, 2))
    good = offsets(0, 2).append_column("v", pa.array(["ok", "now"]))
    assert write(connection, made, good, mark(table, 0, 2)) == 2
