"""Postgres errors by what a writer can do about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from gauss.clients.errors import RowError, Unclear
from gauss.model.errors import ConfigError, DiskFull, GaussError, StorageError, Unavailable

_REASONS = {
    "22001": "too_long", "22003": "out_of_range", "22P02": "not_parsed", "22021": "encoding", "23502": "null",
    "23505": "duplicate", "23514": "constraint", "23503": "constraint",
}  # fmt: skip
# Besides values and constraints: what a trigger raises, and values too large for an index or too deep to parse.
_ROW = ("22", "23", "P0001", "54000", "54001")
_CONFIG = ("28", "3D", "3F", "42", "0A", "26", "34", "55006", "428C9")
_TRANSIENT = ("40", "53", "55", "57", "25006", "25P03", "25P04", "58")
_AT_CONNECT = (
    *("password authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied"),
    "permission denied for database",
    *("certificate verify failed", "does not support SSL", "does not match host name", "root certificate file"),
)


def sort_error(error: Exception) -> GaussError:
    """The error as one of `clients/errors.py`, with the message of Postgres."""
    if isinstance(error, GaussError):
        return error
    state = getattr(error, "sqlstate", None) or ""
    diag = error.diag if isinstance(error, psycopg.Error) else None
    sentence = (diag.message_primary if diag else None) or str(error).strip().split("\n")[0] or type(error).__name__
    if diag and diag.message_detail:
        sentence = f"{sentence}: {diag.message_detail}"
    message = f"Postgres: {sentence}"
    if state == "53100" or "No space left on device" in message:
        return DiskFull(message, hint="free some space on Postgres's disk; the write is retried")
    if state.startswith(_CONFIG):
        return ConfigError(message, hint=_hint(state))
    if state.startswith(_ROW):
        column = (diag.column_name if diag else None) or _column(diag.context if diag else None)
        return RowError(message, reason=_REASONS.get(state, "insert"), column=column)
    if state.startswith(_TRANSIENT):
        return Unavailable(message, hint="it is retried")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError):
        if any(words in message for words in _AT_CONNECT):
            return ConfigError(message, hint="check dsn, user, password, sslmode and ca_file in storage_config")
        return Unclear(f"Postgres does not answer: {sentence}", hint="check that the server is up, and its address")
    if isinstance(error, psycopg.DataError):
        return RowError(message)
    return StorageError(message, hint="see the server's log")


def _hint(state: str) -> str:
    if state == "42P01":
        return "create it again with CREATE TABLE, or restart the pipeline, which creates it"
    return "compare the table with `gauss schema`" if state.startswith("42") else "check storage_config"


def _column(context: str | None) -> str:
    """The column in a context such as `COPY t, line 3, column price`; empty if there is none."""
    if not context or ", column " not in context:
        return ""
    return context.split(", column ", 1)[1].split(":", 1)[0].strip().strip('"')


@contextmanager
def sorted_errors() -> Iterator[None]:
    """Converts errors of the driver by `sort_error`."""
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise sort_error(error) from error
