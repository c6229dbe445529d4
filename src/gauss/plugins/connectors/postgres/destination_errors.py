"""Errors of writing: rows that a table refuses, transactions whose end is unknown, and runs that were replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from gauss.clients.errors import RowError
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.errors import sort_error
from gauss.contracts.connector.errors import BackoffClass, CommitState, ConnectorError, ErrorCategory
from gauss.model.errors import DiskFull, GaussError
from gauss.plugins.connectors.postgres.source_errors import connector_error

_PERMISSION = (
    "GRANT CREATE and USAGE on the schema, and INSERT, UPDATE, DELETE and SELECT on an existing table, to the user"
)

_CHANGED = ("PG_42P01", "PG_42703", "PG_42804")
"""Codes of a table or column that is gone, or has another type."""


def row_error(error: Exception) -> ConnectorError | None:
    """The data error of a row that can't be written; None if the error has another cause."""
    sorted_ = error if isinstance(error, GaussError) else sort_error(error)
    if not isinstance(sorted_, RowError):
        return None
    details = {"column": sorted_.column, "reason": sorted_.reason}
    return ConnectorError.data(sorted_.reason.upper(), sorted_.message, details=details, hint=sorted_.hint)


def destination_error(error: Exception) -> ConnectorError:
    """An error of the driver or of the clients by its category."""
    if isinstance(error, ConnectorError):
        return error
    if (found := row_error(error)) is not None:
        return found
    made = connector_error(error)
    if made.code in _CHANGED:
        hint = "start the sync again, which follows schema_evolution in policies"
        return ConnectorError.schema(made.code, made.message, hint=hint)
    if made.category is ErrorCategory.PERMISSION:
        made.hint = _PERMISSION
    full = sort_error(error)
    if isinstance(full, DiskFull):
        made = ConnectorError.transient_db("DISK_FULL", full.message, backoff_class=BackoffClass.SLOW, hint=full.hint)
    return made


@contextmanager
def destination_errors() -> Iterator[None]:
    """Converts errors by `destination_error`."""
    try:
        yield
    except (psycopg.Error, GaussError, OSError) as error:
        raise destination_error(error) from error


def commit(connection: Connection) -> None:
    """Commits the transaction. If the connection breaks meanwhile, the error says that the outcome is unknown."""
    try:
        done = connection.execute("COMMIT").statusmessage
    except (psycopg.Error, OSError) as error:
        if not connection.closed:
            raise destination_error(error) from error
        raise ConnectorError.transient_db(
            "COMMIT_UNKNOWN",
            f"the answer to COMMIT was lost: {sort_error(error).message}",
            commit_state=CommitState.AFTER_COMMIT_UNKNOWN,
            hint="ask the watermark whether the transaction took place, then retry",
        ) from error
    if done != "COMMIT":
        raise ConnectorError.internal("NOT_COMMITTED", f"the server answered {done} to COMMIT")
