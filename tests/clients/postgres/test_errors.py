from __future__ import annotations

import dataclasses

import psycopg
import pyarrow as pa
import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.errors import RowError, Unclear
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.errors import sort_error
from gauss.clients.postgres.types import parse_type
from gauss.clients.postgres.write import PostgresTarget, write
from gauss.model.errors import ConfigError, DiskFull, GaussError, StorageError, Unavailable
from helpers.run import free_port


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.DiskFull("x"), DiskFull),
        (psycopg.errors.SerializationFailure("x"), Unavailable),
        (psycopg.errors.DeadlockDetected("x"), Unavailable),
        (psycopg.errors.TooManyConnections("x"), Unavailable),
        (psycopg.errors.AdminShutdown("x"), Unavailable),
        (psycopg.errors.LockNotAvailable("x"), Unavailable),
        (psycopg.errors.IdleInTransactionSessionTimeout("x"), Unavailable),
        (psycopg.errors.UndefinedColumn("x"), ConfigError),
        (psycopg.errors.InsufficientPrivilege("x"), ConfigError),
        (psycopg.errors.InternalError_("x"), StorageError),
        (psycopg.OperationalError("the connection is lost"), Unclear),
    ],
)
def test_sqlstate_decides_class_and_hint(error: Exception, kind: type[GaussError]) -> None:
    found = sort_error(error)
    assert type(found) is kind and found.hint
    assert found.retryable == (kind in (Unavailable, Unclear, DiskFull))


def test_value_too_large_for_an_index_is_a_row_error() -> None:
    assert isinstance(sort_error(psycopg.errors.ProgramLimitExceeded("x")), RowError)


def test_stopped_server_is_unavailable(postgres: Endpoint) -> None:
    with pytest.raises(Unavailable) as caught:
        connect(dataclasses.replace(postgres, port=free_port()))
    assert not isinstance(caught.value, Unclear)


def test_wrong_password_is_a_config_error_without_the_password(postgres: Endpoint) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(dataclasses.replace(postgres, password="wrong-secret"))
    assert "wrong-secret" not in str(caught.value) and "password" in caught.value.hint


def test_write_whose_backend_was_terminated_is_retryable(postgres: Endpoint, connection: Connection) -> None:
    with connect(postgres) as other:
        row = other.execute("SELECT pg_backend_pid()").fetchone()
        assert row
        connection.execute("SELECT pg_terminate_backend(%s)", [row[0]])
        with pytest.raises(Unavailable):
            write(other, PostgresTarget("t", {"a": parse_type("bigint")}), pa.table({"a": [1]}))
