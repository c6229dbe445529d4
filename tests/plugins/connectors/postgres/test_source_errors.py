"""Error categories, secrets in messages, cancellation, and whole runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.connect.attempt import Attempt, Side
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, WriteSummary
from gauss.contracts.connector.stream import StreamContext
from gauss.plugins.connectors.postgres.source import PostgresSource
from gauss.plugins.connectors.postgres.source_errors import connector_error
from gauss.plugins.connectors.postgres.source_spec import SPEC
from helpers.waiting import wait_until

Sql = Callable[[str], list[Any]]


def caught(source: Any, stream: str, **config: Any) -> ConnectorError:
    with pytest.raises(ConnectorError) as found:
        source.read(stream, config=config)
    return found.value


def test_refused_connection_has_a_category(source: Any, postgres: Endpoint) -> None:
    place = f"{postgres.host}:{postgres.port}"
    password = quote(postgres.password, safe="")
    cases = {
        f"postgresql://{postgres.user}:hunter2@{place}/postgres": ErrorCategory.AUTH,
        f"postgresql://nobody:hunter2@{place}/postgres": ErrorCategory.AUTH,
        f"postgresql://{postgres.user}:{password}@{place}/hunter2db": ErrorCategory.CONFIG,
        "postgresql://u:hunter2@127.0.0.1:1/db": ErrorCategory.TRANSIENT_NETWORK,
    }
    for dsn, category in cases.items():
        error = caught(source, "public.t", dsn=dsn)
        assert error.category is category, error.message
        assert "hunter2@" not in error.message and postgres.password not in error.message
        assert error.retryable == (category is ErrorCategory.TRANSIENT_NETWORK)


def test_missing_connect_privilege_is_a_permission_error(
    source: Any, connection: Connection, schema: str, postgres: Endpoint
) -> None:
    connection.execute(f"CREATE DATABASE {schema}".encode())
    connection.execute(f"REVOKE CONNECT ON DATABASE {schema} FROM PUBLIC".encode())
    connection.execute(f"CREATE ROLE u_{schema} LOGIN PASSWORD 'pw'".encode())
    try:
        error = caught(source, "public.t", dsn=f"postgresql://u_{schema}:pw@{postgres.host}:{postgres.port}/{schema}")
        assert error.category is ErrorCategory.PERMISSION and "CONNECT" in error.hint
    finally:
        connection.execute(f"DROP ROLE u_{schema}".encode())
        connection.execute(f"DROP DATABASE {schema}".encode())


def test_error_of_an_invalid_config_contains_no_secret(source: Any) -> None:
    for dsn in ("postgresql://u:hunt@er2@h/db", "hunter2", "host=x password='hunter2"):
        made = PostgresSource(source.make(source.start(source.stream("public.t")))._host)
        with pytest.raises(ConnectorError) as found:
            made.open(OpenContext(JsonConfig({"dsn": dsn, "colums": {}}), "source-postgres", "1"))
            made.discover()
        assert found.value.category is ErrorCategory.CONFIG
        assert "hunter2" not in str(found.value) and "er2" not in str(found.value)


@pytest.mark.parametrize("setting", ["statement_timeout", "transaction_timeout"])
def test_time_limits_of_the_user_do_not_end_a_read(source: Any, schema: str, run_sql: Sql, setting: str) -> None:
    run_sql("CREATE VIEW v AS SELECT i, pg_sleep(0.1)::text AS x FROM generate_series(1, 4) i")
    dsn = f"{source.config['dsn']}?options=-c%20{setting}%3D250"
    assert source.read(f"{schema}.v", config={"dsn": dsn}).summary.records_read == 4


def test_unknown_table_is_a_config_error(source: Any, schema: str) -> None:
    error = caught(source, f"{schema}.gone")
    assert error.category is ErrorCategory.CONFIG and f"{schema}.gone" in error.message


def test_table_without_permission_is_a_permission_error(
    source: Any, schema: str, run_sql: Sql, postgres: Endpoint
) -> None:
    user = f"u_{schema}"
    run_sql(
        "CREATE TABLE t (id int, secret text); CREATE VIEW v AS SELECT id / 0 AS x FROM t; INSERT INTO t VALUES (1)"
    )
    run_sql(f"CREATE ROLE {user} LOGIN PASSWORD 'pw'; GRANT USAGE ON SCHEMA {schema} TO {user}")
    try:
        dsn = f"postgresql://{user}:pw@{postgres.host}:{postgres.port}/{postgres.database}"
        assert caught(source, f"{schema}.t", dsn=dsn).category is ErrorCategory.PERMISSION
        run_sql(f"GRANT SELECT (id) ON t TO {user}")
        assert source.read(f"{schema}.t", config={"dsn": dsn}).table.to_pylist() == [{"id": 1}]
    finally:
        run_sql(f"DROP OWNED BY {user}; DROP ROLE {user}")


def test_failing_expression_is_a_data_error(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE VIEW v AS SELECT 1 / (i - 3) AS x FROM generate_series(1, 5) i")
    assert caught(source, f"{schema}.v").category is ErrorCategory.DATA


@pytest.mark.parametrize(
    ("raised", "category"),
    [
        (psycopg.errors.DeadlockDetected("x"), ErrorCategory.TRANSIENT_DB),
        (psycopg.errors.TooManyConnections("x"), ErrorCategory.TRANSIENT_DB),
        (psycopg.errors.AdminShutdown("x"), ErrorCategory.TRANSIENT_DB),
        (psycopg.errors.LockNotAvailable("x"), ErrorCategory.TRANSIENT_DB),
        (psycopg.errors.InvalidPassword("x"), ErrorCategory.AUTH),
        (psycopg.errors.InsufficientPrivilege("x"), ErrorCategory.PERMISSION),
        (psycopg.errors.UndefinedColumn("x"), ErrorCategory.CONFIG),
        (psycopg.errors.NumericValueOutOfRange("x"), ErrorCategory.DATA),
        (psycopg.errors.NotNullViolation("x"), ErrorCategory.DATA),
        (psycopg.OperationalError("server closed the connection"), ErrorCategory.TRANSIENT_NETWORK),
        (psycopg.errors.ReadOnlySqlTransaction("x"), ErrorCategory.TRANSIENT_DB),
        (psycopg.errors.IdleInTransactionSessionTimeout("x"), ErrorCategory.TRANSIENT_DB),
        (psycopg.errors.InternalError_("x"), ErrorCategory.INTERNAL),
    ],
)
def test_sqlstate_decides_the_category(raised: psycopg.Error, category: ErrorCategory) -> None:
    assert connector_error(raised).category is category


def test_server_that_stops_is_a_transient_error(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE VIEW v AS SELECT i, pg_sleep(0.01)::text AS x FROM generate_series(1, 5000) i")
    stream = source.stream(f"{schema}.v")
    made = source.make(source.start(stream))
    errors: list[Exception] = []
    thread = threading.Thread(target=lambda: errors.append(_raised(lambda: made.run_read(stream))))
    thread.start()
    wait_until(lambda: made._reading is not None)
    pid = made._reading.info.backend_pid
    wait_until(
        lambda: run_sql(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'") == [(1,)]
    )
    run_sql(f"SELECT pg_terminate_backend({pid})")
    thread.join(20)
    (error,) = errors
    assert isinstance(error, ConnectorError)
    assert error.category in (ErrorCategory.TRANSIENT_DB, ErrorCategory.TRANSIENT_NETWORK)


def _raised(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    return AssertionError("nothing was raised")


def test_interrupt_cancels_the_query_on_the_server(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE VIEW v AS SELECT pg_sleep(600)::text AS x")
    stream = source.stream(f"{schema}.v")
    made = source.make(source.start(stream))
    errors: list[Exception] = []
    thread = threading.Thread(target=lambda: errors.append(_raised(lambda: made.run_read(stream))))
    thread.start()
    running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%" + schema + "%' AND state = 'active'"
    wait_until(lambda: run_sql(running) == [(1,)])
    began = time.monotonic()
    made.interrupt()
    thread.join(20)
    assert time.monotonic() - began < 10
    (error,) = errors
    assert isinstance(error, ConnectorError) and error.code == "CANCELLED"
    wait_until(lambda: run_sql(running) == [(0,)])
    made.close()


def test_cancelled_run_ends_between_batches(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE VIEW v AS SELECT i, pg_sleep(0.001)::text AS x FROM generate_series(1, 600000) i")
    stream = source.stream(f"{schema}.v")
    run = source.start(stream)
    made = source.make(run)
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(made.run_read(stream)))
    thread.start()
    wait_until(lambda: made._reading is not None)
    run.drain()
    thread.join(20)
    assert done and done[0].records_read < 600_000


class Collecting:
    """Commits at every mark."""

    def __init__(self, host: Any) -> None:
        self._host = host
        self.rows, self.final = 0, False

    def open(self, _: OpenContext) -> OpenInfo:
        return OpenInfo()

    def run_write(self, stream: StreamContext) -> WriteSummary:
        while (item := self._host.next_delivery()) is not None:
            if hasattr(item, "rows"):
                self.rows += item.rows.num_rows
            else:
                self.final = item.final
                self._host.checkpoint(Checkpoint(item.id, CheckpointKind.DEST, stream.stream_name))
        return WriteSummary(self.rows)

    def close(self) -> None:
        pass


def test_complete_run_ends_with_a_final_mark(source: Any, schema: str, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 9000) i; ALTER TABLE t ADD PRIMARY KEY (id)")
    stream = source.stream(f"{schema}.t", "id", max_batch_bytes=8_000, max_inflight_batches=2)
    run = source.start(stream)
    written: list[Collecting] = []

    def collecting(host: Any) -> Collecting:
        written.append(Collecting(host))
        return written[0]

    config = JsonConfig({**source.config, "checkpoint": {"rows": 1000}})
    outcome = Attempt(
        run,
        Side(PostgresSource, "source-postgres", SPEC.version, config),
        Side(collecting, "collecting", "1", JsonConfig({})),
    )()
    assert outcome.error is None and outcome.read is not None
    assert (written[0].rows, written[0].final, outcome.read.records_read) == (9000, True, 9000)
    assert run.observer.safe[-1].cursor_value.value == 9000
    assert {each.name for each in run.observer.metrics} >= {"records", "bytes", "batches", "checkpoints", "decode_ms"}
