"""The first connection to a server that has just been started."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from gauss.dbstates.runtimes.runtime import DATABASE, START_SECONDS, USER
from gauss.dbstates.runtimes.scram import verifier
from gauss.model.errors import DiskFull, StorageError, Unavailable

POLL_SECONDS = 0.001

_PASSING = ("starting up", "shutting down", "terminating", "recovery", "too many clients", "reserved for")
"""Words by which a server says that it can't be used yet."""

Admin = psycopg.Connection[tuple[Any, ...]]


def connect(socket: Path, port: int) -> Admin:
    """A connection of the superuser over the server's socket. Raises psycopg.Error."""
    options: dict[str, Any] = {"host": str(socket), "port": port, "user": USER, "autocommit": True}
    options |= {"connect_timeout": 5, "application_name": "gauss-engine"}
    try:
        return psycopg.connect(dbname=DATABASE, **options)
    except psycopg.OperationalError as error:
        if f'database "{DATABASE}" does not exist' not in str(error):
            raise
        return psycopg.connect(dbname="template1", **options)  # a script has dropped it


def wait_until_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Polls each millisecond; whether the condition was true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def wait_ready(socket: Path, port: int, password: str, died: Callable[[], str]) -> None:
    """Waits until the server accepts connections, and sets the superuser's password."""
    address = socket / f".s.PGSQL.{port}"
    secret = sql.Literal(verifier(password))  # takes milliseconds, in which the server starts
    deadline = time.monotonic() + START_SECONDS
    while True:
        if why := died():
            raise StorageError(why, hint="its log is among the events of the job")
        if time.monotonic() > deadline:
            raise Unavailable(f"Postgres did not accept connections within {START_SECONDS:.0f} s", hint="try again")
        if address.exists():
            try:
                with connect(socket, port) as connection:
                    name = sql.Identifier(USER)
                    connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, secret))
                    return
            except psycopg.errors.DiskFull as error:
                raise DiskFull(
                    "the disk of the store is full", hint="free space; gauss db rm removes states"
                ) from error
            except psycopg.OperationalError as error:
                if "FATAL:" in str(error) and not any(each in str(error) for each in _PASSING):
                    raise StorageError(
                        f"Postgres refuses the engine: {str(error).rpartition('FATAL:')[2].strip()}",
                        hint="see what the scripts do to roles and databases",
                    ) from error
            except psycopg.Error as error:
                raise StorageError(
                    f"Postgres refuses the engine: {error}", hint="see what the scripts do to roles"
                ) from error
        time.sleep(POLL_SECONDS)
