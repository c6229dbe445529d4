"""Errors of Postgres by the categories of the connector protocol.

| SQLSTATE | category |
|---|---|
| 28 | auth |
| 42501 | permission |
| 22, 23 | data |
| 40, 53, 55, 57, 58, 25006 (read-only), 25P03 and 25P04 (timeouts), and a lost snapshot | transient_db |
| other 42, 3D, 3F, 0A | config |
| none: the connection failed | transient_network; auth and config by the text of the server |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from gauss.clients.postgres.errors import sort_error
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.model.errors import ConfigError, GaussError, Unavailable

_CATEGORIES = (
    ("28", ErrorCategory.AUTH),
    ("42501", ErrorCategory.PERMISSION),
    ("22", ErrorCategory.DATA),
    ("23", ErrorCategory.DATA),
    ("40", ErrorCategory.TRANSIENT_DB),
    ("53", ErrorCategory.TRANSIENT_DB),
    ("55", ErrorCategory.TRANSIENT_DB),
    ("57", ErrorCategory.TRANSIENT_DB),
    ("58", ErrorCategory.TRANSIENT_DB),
    ("25006", ErrorCategory.TRANSIENT_DB),
    ("25P03", ErrorCategory.TRANSIENT_DB),
    ("25P04", ErrorCategory.TRANSIENT_DB),
    ("08", ErrorCategory.TRANSIENT_NETWORK),
    ("42", ErrorCategory.CONFIG),
    ("3D", ErrorCategory.CONFIG),
    ("3F", ErrorCategory.CONFIG),
    ("0A", ErrorCategory.CONFIG),
)
_HINTS = {
    ErrorCategory.AUTH: "check user and password, and pg_hba.conf of the server",
    ErrorCategory.PERMISSION: "GRANT SELECT on the table, USAGE on its schema and CONNECT on its database to the user",
    ErrorCategory.CONFIG: "check the database, the stream and its columns",
    ErrorCategory.TRANSIENT_NETWORK: "check that the server is up, and its address",
}
# A connection that is refused has no SQLSTATE.
_AT_CONNECT = (
    (("password authentication failed", "no pg_hba.conf entry", "no password supplied"), ErrorCategory.AUTH),
    (("to start WAL sender", "must be superuser or replication role"), ErrorCategory.PERMISSION),
    (("permission denied for database",), ErrorCategory.PERMISSION),
    (("authentication failed", "is not permitted to log in"), ErrorCategory.AUTH),
    (("too many", "starting up", "shutting down", "recovery mode", "connection slots"), ErrorCategory.TRANSIENT_DB),
    (("certificate", "does not support SSL", "does not match host name"), ErrorCategory.CONFIG),
)  # fmt: skip


def connector_error(error: Exception) -> ConnectorError:
    """An error of the driver, or what the clients have made of one, by its category."""
    if isinstance(error, ConnectorError):
        return error
    found = _of_driver(error)
    if found is None:
        if isinstance(error, ConfigError):
            return ConnectorError.config("CONFIG", error.message, hint=error.hint)
        if isinstance(error, Unavailable):
            return ConnectorError.transient_network("UNAVAILABLE", error.message, hint=error.hint)
        message = error.message if isinstance(error, GaussError) else f"{type(error).__name__}: {error}"
        return ConnectorError.internal("UNEXPECTED", message)
    state, message = found.sqlstate or "", sort_error(found).message
    category = _category(state, message) if isinstance(found, psycopg.Error) else ErrorCategory.INTERNAL
    return ConnectorError(category, _code(state, category), message, hint=_HINTS.get(category, ""))


def _of_driver(error: BaseException | None) -> psycopg.Error | None:
    while error is not None and not isinstance(error, psycopg.Error):
        error = error.__cause__
    return error


def _category(state: str, message: str) -> ErrorCategory:
    if state:
        return next((found for begin, found in _CATEGORIES if state.startswith(begin)), ErrorCategory.INTERNAL)
    for texts, category in _AT_CONNECT:
        if any(text in message for text in texts):
            return category
    if "does not exist" in message:
        return ErrorCategory.AUTH if "role " in message else ErrorCategory.CONFIG
    return ErrorCategory.TRANSIENT_NETWORK


def _code(state: str, category: ErrorCategory) -> str:
    if state:
        return f"PG_{state}"
    return {
        ErrorCategory.AUTH: "AUTH_FAILED",
        ErrorCategory.CONFIG: "CONNECTION_REFUSED",
        ErrorCategory.TRANSIENT_DB: "SERVER_BUSY",
    }.get(category, "CONNECTION_FAILED")


@contextmanager
def connector_errors() -> Iterator[None]:
    """Converts errors of Postgres and of its clients by `connector_error`."""
    try:
        yield
    except (psycopg.Error, GaussError, OSError) as error:
        raise connector_error(error) from error
