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
def test_a_state_says_what_can_be_done(error: Exception, kind: type[GaussError]) -> None:
    found = sort_error(error)
    assert type(found) is kind and found.hint
    assert found.retryable == (kind in (Unavailable, Unclear, DiskFull))


def test_a_value_that_is_too_large_for_an_index_is_an_error_of_its_row() -> None:
    assert isinstance(sort_error(psycopg.errors.ProgramLimitExceeded("x")), RowError)


def test_a_server_that_is_down_is_unavailable(postgres: Endpoint) -> None:
    with pytest.raises(Unavailable) as caught:
        connect(dataclasses.replace(postgres, port=free_port()))
    assert not isinstance(caught.value, Unclear)


def test_a_wrong_password_is_a_config_error_that_does_not_tell_it(postgres: Endpoint) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(dataclasses.replace(postgres, password="wrong-secret"))
    assert "wrong-secret" not in str(caught.value) and "password" in caught.value.hint


def test_a_backend_that_is_ended_in_mid_write_is_tried_again(postgres: Endpoint, connection: Connection) -> None:
    with connect(postgres) as other:
        row = other.execute("SELECT pg_backend_pid()").fetchone()
        assert row
        connection.execute("SELECT pg_terminate_backend(%s)", [row[0]])
        with pytest.raises(Unavailable):
            write(other, PostgresTarget("t", {"a": parse_type("bigint")}), pa.table({"a": [1]}))
