"""From one Postgres table to another, as Arrow and as binary COPY: the same types and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.contracts.connector.stream import Replace
from helpers.destinations import FULL
from helpers.postgres_destination import DestinationFixture

VALUES = {
    "smallint": ["-32768", "32767"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "real": ["NaN", "1.5", "-Infinity"],
    "double precision": ["NaN", "0.1", "Infinity", "5e-324"],
    "boolean": ["t", "f"],
    "text": ["", "naïve ☃ 😀", 'a"b\\c'],
    "character varying(20)": ["x"],
    "character(3)": ["a"],
    "bytea": ["\\x00ff", ""],
    "date": ["0001-01-01", "0044-03-15 BC", "9999-12-31"],
    "time without time zone": ["23:59:59.999999"],
    "time with time zone": ["23:59:59+02"],
    "timestamp without time zone": ["0001-01-01 00:00:00", "2024-02-29 12:00:00.000001"],
    "timestamp with time zone": ["0044-03-15 12:00:00+00 BC", "2024-02-29 12:00:00.000001+02"],
    "interval": ["1 mon -2 days +00:00:00.000003", "-1 year"],
    "uuid": ["00000000-0000-0000-0000-000000000000"],
    "json": ['{"a":  1}'],
    "jsonb": ['{"a": [1, null]}'],
    "numeric": ["0.000000", "123456789012345678901234567890123456789012345678901234567890.5"],
    "numeric(10,2)": ["-0.05"],
    "numeric(60,20)": ["1234567890123456789012345678901234567890.5"],
    "money": ["12.34"],
    "inet": ["10.0.0.1/8"],
    "bit(3)": ["101"],
    "bit varying(5)": ["1"],
    "tsvector": ["''a'':1"],
    "int4range": ["[1,5)", "empty"],
    "point": ["(1,2)"],
    "integer[]": ["{1,NULL}", "{}"],
    "text[]": ['{"a\\"b",NULL,"NULL",""}'],
    "character varying(9)[]": ["{a,b}"],
    "numeric(10,2)[]": ["{1.25}"],
    "uuid[]": ["{00000000-0000-0000-0000-000000000000}"],
    "timestamp with time zone[]": ['{"2024-02-29 12:00:00+00"}'],
}


SETTINGS = (
    *("search_path=", "DateStyle=SQL,DMY", "TimeZone=Asia/Kolkata", "IntervalStyle=sql_standard", "array_nulls=off"),
    *("bytea_output=escape", "extra_float_digits=-5", "client_encoding=LATIN1", "quote_all_identifiers=on"),
    *("standard_conforming_strings=off", "default_transaction_isolation=serializable"),
)
"""Settings that a user may have, and that change how values and types are read or written."""


@pytest.fixture
def destination(postgres: Endpoint, schema: str) -> Iterator[DestinationFixture]:
    made = DestinationFixture(postgres, schema, tables={f"{schema}.origin": "t"})
    yield made
    made.close()


@pytest.fixture
def origin(schema: str, run_sql: Callable[[str], list[Any]]) -> str:
    """A table with a column of every type, and a row without values."""
    lines = ", ".join(f"c{place} {kind}" for place, kind in enumerate(VALUES))
    run_sql(f"CREATE TABLE origin (n bigint, {lines}); INSERT INTO origin (n) VALUES (0)")
    for row in range(max(map(len, VALUES.values()))):
        given = {place: (kind, values[row]) for place, (kind, values) in enumerate(VALUES.items()) if row < len(values)}
        columns = ", ".join(f"c{place}" for place in given)
        texts = ", ".join(f"'{text}'::{kind}" for kind, text in given.values())
        run_sql(f"INSERT INTO origin (n, {columns}) VALUES ({row + 1}, {texts})")
    return f"{schema}.origin"


def same(connection: Connection, schema: str) -> None:
    """Both tables have the same columns and rows."""
    shown = [
        connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [f"{schema}.{name}"],
        ).fetchall()
        for name in ("t", "origin")
    ]
    assert shown[0] == shown[1]
    for column, kind in shown[0]:
        found = [
            connection.execute(f"SELECT n, {column}::text FROM {schema}.{name} ORDER BY 1".encode()).fetchall()
            for name in ("t", "origin")
        ]
        assert found[0] == found[1], kind


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_table_copied_as_arrow_has_equal_types_and_values(
    destination: DestinationFixture, connection: Connection, source: Any, origin: str, load: str
) -> None:
    read = source.read(origin)
    assert not read.seen.letters
    stream = destination.stream(FULL, Replace(), origin)
    done = destination.write(read.batches, stream, load=load)
    assert not done.seen.letters
    same(connection, destination.schema)


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_session_settings_of_the_user_do_not_change_values(
    destination: DestinationFixture, connection: Connection, source: Any, origin: str, load: str
) -> None:
    dsn = f"{destination.config['dsn']}?options={quote(' '.join(f'-c {setting}' for setting in SETTINGS))}"
    read = source.read(origin, config={"dsn": dsn})
    done = destination.write(read.batches, destination.stream(FULL, Replace(), origin), load=load, dsn=dsn)
    assert not read.seen.letters and not done.seen.letters
    same(connection, destination.schema)


def test_table_copied_as_binary_copy_is_equal(
    destination: DestinationFixture, connection: Connection, schema: str, source: Any, origin: str
) -> None:
    money = list(VALUES).index("money")  # what its bytes mean depends on the locale of a server
    connection.execute(f"ALTER TABLE {origin} DROP COLUMN c{money}".encode())
    stream = destination.stream(FULL, Replace(), origin)
    wanted = source.read(origin).batches[0].schema
    run, _ = destination.start(stream)
    made = destination.open(run)
    destination.prepare(made, stream, wanted)
    kind = made.opaque_kind(stream, wanted)
    reader = source.make(source.start(source.stream(origin)))
    assert kind == reader.opaque_kind(source.stream(origin)) != ""
    reader.close()
    made.close()
    read = source.read(origin, opaque=kind)
    destination.write(read.opaque, stream, opaque=kind, schema=wanted)
    same(connection, schema)
