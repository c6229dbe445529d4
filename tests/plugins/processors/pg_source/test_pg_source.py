"""A source on a real Postgres: passes, cursors, failures, and its position."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import EdgeStatus
from gauss.contracts.outside import PullContext
from gauss.contracts.plugin import PluginConfig
from gauss.model.errors import ConfigError
from gauss.plugins.formats.pg_binary.codec import PgBinaryFormat
from gauss.plugins.formats.pg_binary.live_schema import PgSelection, describe
from gauss.plugins.formats.pg_binary.spec import SPEC as FORMAT
from gauss.plugins.formats.pg_binary.spec import PgBinaryConfig
from gauss.plugins.processors.pg_source import copy_stream
from gauss.plugins.processors.pg_source.edge import PgSource
from gauss.plugins.processors.pg_source.spec import SPEC, PgSourceConfig
from helpers.waiting import wait_until


def _context(config: PluginConfig, directory: Path, publish: Any, **given: Any) -> PullContext:
    context = PullContext("pg", config, ("rows",), directory, None, None, publish, lambda: True, EdgeStatus())
    return replace(context, **given)


class Pulled:
    """A source, what it has published, and the position that a restart would find."""

    def __init__(self, directory: Path, position: Any = None, cut_off_after: int = 1 << 30, **config: Any) -> None:
        """After `cut_off_after` blocks the engine accepts no more."""
        self.chunks: list[Chunk] = []
        self.positions: list[dict[str, Any]] = []
        self.status = EdgeStatus()
        self._cut_off_after = cut_off_after
        checked = SPEC.validate(config)
        assert isinstance(checked, PgSourceConfig)
        self.config = checked
        self.edge = PgSource(_context(checked, directory, self._publish, position=position, status=self.status))
        self.edge.start()

    def _publish(self, chunks: Mapping[str, Chunk], position: Any, _cancel: threading.Event) -> None:
        if len(self.positions) >= self._cut_off_after:
            raise OSError("killed here")
        self.chunks += chunks.values()
        self.positions.append(position)

    def rows(self) -> list[dict[str, Any]]:
        told = FORMAT.validate({**SPEC.tells(self.config)})
        assert isinstance(told, PgBinaryConfig)
        format_ = PgBinaryFormat(told)
        return [format_.decode(data.as_py()) for chunk in self.chunks for data in chunk.data()]


@pytest.fixture
def started(postgres: Endpoint, empty_dir: Path) -> Iterator[Any]:
    made: list[Pulled] = []

    def start(position: Any = None, **config: Any) -> Pulled:
        made.append(Pulled(empty_dir, position, dsn=postgres.url, **config))
        return made[-1]

    yield start
    for each in made:
        each.edge.close()


def test_one_pass_reads_every_row_and_is_done_for_good(started: Any, connection: Connection) -> None:
    connection.execute("CREATE TABLE once AS SELECT i AS id, 'n' || i AS name FROM generate_series(1, 25000) i")
    first = started(table="once")
    wait_until(lambda: first.status.state == "done", 30)
    assert sorted(row["id"] for row in first.rows()) == list(range(1, 25001))
    assert len(first.chunks) > 5
    again = started(first.positions[-1], table="once")
    wait_until(lambda: again.status.state == "done")
    assert not again.chunks
    old = started(json.dumps(first.positions[-1]), table="once")  # as earlier versions committed it
    wait_until(lambda: old.status.state == "done")
    assert not old.chunks
    other = started(first.positions[-1], query="SELECT id FROM once WHERE id < 3")
    wait_until(lambda: other.status.state == "done")
    assert [row["id"] for row in other.rows()] == [1, 2]


def test_a_cut_off_pass_with_a_cursor_goes_on_behind_the_last_kept_row(started: Any, connection: Connection) -> None:
    # Ten rows have the same value, so that a block ends between them.
    connection.execute(
        'CREATE TABLE "odd ""name" AS SELECT i AS id, i / 10 AS "the key" FROM generate_series(1, 20000) i'
    )
    first = started(table='odd "name', cursor_field="the key", cut_off_after=2)
    wait_until(lambda: first.status.state in ("failed", "done"))
    first.edge.close()
    assert 0 < first.status.records < 20000, "it was cut off"
    second = started(first.positions[-1], table='odd "name', cursor_field="the key")
    wait_until(lambda: second.status.state == "done", 30)
    assert [row["id"] for row in first.rows() + second.rows()] == list(range(1, 20001))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int8", ["-5", "7"]),
        ("text", ["a'b\\", "b"]),
        ("numeric", ["1.50", "12345678901234567890.123"]),
        ("numeric(9,2)", ["1.50", "2.25"]),
        ("timestamptz", ["2024-01-01 00:00:00.000001+00", "2024-01-01 00:00:00.000002+00"]),
        ("timestamp(3)", ["2024-01-01 00:00:00.001", "2024-01-01 00:00:00.002"]),
        ("date", ["2024-01-01", "2024-01-02"]),
        ("uuid", ["00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"]),
    ],
)
def test_a_repeated_read_takes_only_rows_beyond_the_last_cursor_value(
    started: Any, connection: Connection, kind: str, values: list[str]
) -> None:
    name = "c_" + "".join(filter(str.isalnum, kind))
    connection.execute(f"CREATE TABLE {name} (at {kind}, n int)".encode())
    connection.execute(f"INSERT INTO {name} VALUES (%s, 1), (NULL, 0)".encode(), [values[0]])
    source = started(table=name, cursor_field="at", every="50ms")
    wait_until(lambda: source.status.records == 1)
    connection.execute(f"INSERT INTO {name} VALUES (%s, 2)".encode(), [values[1]])
    wait_until(lambda: source.status.records == 2)
    passes = source.positions[-1]["passes"]
    wait_until(lambda: source.positions[-1]["passes"] > passes + 2)
    assert [row["n"] for row in source.rows()] == [1, 2], "a row without a value is not read, and none is read twice"


def test_every_without_a_cursor_reads_all_rows_again(started: Any, connection: Connection) -> None:
    connection.execute("CREATE TABLE again AS SELECT 1 AS id")
    source = started(table="again", every="20ms")
    wait_until(lambda: source.status.records >= 3)


def test_a_missing_table_fails_with_the_reason_and_is_read_once_it_is_there(
    started: Any, connection: Connection, postgres: Endpoint
) -> None:
    source = started(table="later")
    wait_until(lambda: source.status.state == "failed")
    assert 'no table "later"' in source.status.detail
    assert postgres.password not in source.status.detail
    connection.execute("CREATE TABLE later AS SELECT 1 AS id")
    wait_until(lambda: source.status.state == "done", 30)


def test_a_server_that_is_down_is_waited_for_and_no_secret_is_shown(empty_dir: Path) -> None:
    source = Pulled(empty_dir, dsn="postgresql://me:hushhush@127.0.0.1:9/db", table="t")
    wait_until(lambda: source.status.state == "waiting")
    assert "does not answer" in source.status.detail
    assert "hushhush" not in source.status.detail
    source.edge.close()
    embedded = Pulled(empty_dir, table="t")
    wait_until(lambda: embedded.status.state == "waiting")
    assert "embedded Postgres is not up" in embedded.status.detail
    embedded.edge.close()


def test_a_broken_query_and_a_cursor_that_can_not_be_one_are_told(started: Any, connection: Connection) -> None:
    connection.execute("CREATE TABLE plain AS SELECT 1 AS id, 1.5::float8 AS price, '{}'::json AS j")
    cases = [
        ({"query": "SELECT nothing FROM plain"}, "nothing"),
        ({"query": "SELECT 1 / (id - 1) AS x FROM plain"}, "division by zero"),
        ({"query": "SELECT id, id FROM plain"}, "two columns"),
        ({"query": "SELECT '1.2.3.4'::inet AS ip"}, "column ip has the type inet"),
        ({"table": "plain", "cursor_field": "pid"}, "there is no column pid"),
        ({"table": "plain", "cursor_field": "price"}, "float8"),
    ]
    for config, words in cases:
        source = started(**config)
        wait_until(lambda told=source.status, words=words: told.state == "failed" and words in told.detail)  # type: ignore[misc]


def test_machine_code_and_python_gather_the_same_rows(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = "CASE WHEN i % 97 = 0 THEN 300000 ELSE i % 50 END"
    rows = f"SELECT i AS id, repeat('x', {sizes}) AS t FROM generate_series(1, 6000) i ORDER BY i"
    found: list[pa.Array] = []
    for worth in (1 << 40, 0):
        monkeypatch.setattr(copy_stream, "WORTH_COMPILING", worth)
        blocks = [block.array() for block in copy_stream.copy_rows(connection, rows, threading.Event())]
        found.append(pa.concat_arrays(blocks))
    assert found[0].equals(found[1])
    assert len(found[0]) == 6000
    assert not list(copy_stream.copy_rows(connection, "SELECT 1 WHERE false", threading.Event()))


def test_the_live_table_gives_postgres_types_nullability_and_origin(connection: Connection, empty_dir: Path) -> None:
    connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN price AS numeric(18,8)")
    connection.execute(
        "CREATE TABLE kinds (id int8 PRIMARY KEY, bid price NOT NULL, any_number numeric, wide numeric(60,2),"
        " symbol text, code varchar(8), tags text[], sums numeric(9,2)[], ids int8[],"
        " at timestamptz(3), m mood, raw bytea)"
    )
    found = describe(connection, PgSelection(PgSourceConfig(table="kinds"), empty_dir, "kinds", None, None))
    assert [(field.name, field.field_type.name, field.field_type.attrs) for field in found.fields] == [
        ("id", "int8", {"bits": 64}),
        ("bid", "numeric", {"precision": 18, "scale": 8}),
        ("any_number", "numeric", {}),
        ("wide", "numeric", {}),
        ("symbol", "text", {}),
        ("code", "varchar", {"length": 8}),
        ("tags", "array", {"element": "text"}),
        ("sums", "array", {"element": {"name": "numeric", "attrs": {"precision": 9, "scale": 2}}}),
        ("ids", "array", {"element": {"name": "int8", "attrs": {"bits": 64}}}),
        ("at", "timestamptz", {"precision": 3}),
        ("m", "text", {}),
        ("raw", "bytea", {}),
    ]
    assert found.attrs == {
        "database": "postgres",
        "schema": "public",
        "table": "kinds",
        "not_null": ["id", "bid"],
        "key": ["id"],
    }


def test_columns_are_kept_for_a_run_and_a_changed_type_stops_the_source(
    connection: Connection, postgres: Endpoint, tmp_path: Path
) -> None:
    connection.execute("CREATE TABLE changing AS SELECT 1 AS id, 2 AS n")
    config: dict[str, Any] = {"dsn": postgres.url, "table": "changing", "schema_dir": tmp_path}
    kept = PgBinaryFormat(PgBinaryConfig(**config)).schema()
    connection.execute("ALTER TABLE changing ALTER COLUMN n TYPE text")
    assert PgBinaryFormat(PgBinaryConfig(**config)).schema() == kept
    source = SPEC.validate({"dsn": postgres.url, "table": "changing"})
    status = EdgeStatus()
    edge = PgSource(_context(source, tmp_path, lambda *_: None, schema_dir=tmp_path, status=status))
    edge.start()
    wait_until(lambda: status.state == "failed")
    assert "column n has changed" in status.detail
    edge.close()


def test_a_format_that_nothing_tells_its_columns_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="neither its fields nor a table"):
        PgBinaryFormat(PgBinaryConfig()).schema()
