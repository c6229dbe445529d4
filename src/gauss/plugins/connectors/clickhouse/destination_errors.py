"""Errors of writing by category."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gauss.clients.clickhouse.errors import error_code
from gauss.clients.errors import RowError, Unclear
from gauss.contracts.connector.errors import BackoffClass, CommitState, ConnectorError, fenced
from gauss.model.errors import ConfigError, DiskFull, GaussError, Unavailable

_AUTH = frozenset({192, 193, 194, 516})
_PERMISSION = frozenset({164, 291, 497})
_SCHEMA = frozenset({8, 10, 15, 16, 20, 36, 44, 47, 50, 57, 60, 62, 122, 524, 579})
"""Codes of tables and columns that are gone, have another type, or can't be changed as asked."""
_GRANTS = "GRANT SELECT, INSERT, ALTER, CREATE, DROP and TRUNCATE on the database to the user"


def row_error(error: RowError) -> ConnectorError:
    """The data error of a row that can't be written."""
    details = {"column": error.column, "reason": error.reason}
    return ConnectorError.data(error.reason.upper(), error.message, details=details, hint=error.hint)


def destination_error(error: GaussError) -> ConnectorError:
    """An error of the client by its category."""
    if isinstance(error, ConnectorError):
        return error
    code = error_code(error.__cause__) if error.__cause__ is not None else None
    name = f"CH_{code}" if code is not None else error.code.upper()
    if isinstance(error, RowError):
        return row_error(error)
    if isinstance(error, DiskFull):
        return ConnectorError.transient_db("DISK_FULL", error.message, backoff_class=BackoffClass.SLOW, hint=error.hint)
    if isinstance(error, Unavailable):
        own = code is not None or isinstance(error, Unclear)
        make = ConnectorError.transient_db if own else ConnectorError.transient_network
        return make(name, error.message, hint=error.hint)
    if code in _AUTH:
        return ConnectorError.auth(name, error.message, hint="check user and password in the destination's settings")
    if code in _PERMISSION:
        return ConnectorError.permission(name, error.message, hint=_GRANTS)
    if code in _SCHEMA:
        hint = "start the sync again, which follows schema_evolution in policies"
        return ConnectorError.schema(name, error.message, hint=hint)
    if isinstance(error, ConfigError):
        return ConnectorError.config(name, error.message, hint=error.hint)
    make = ConnectorError.transient_db if error.retryable else ConnectorError.internal
    return make(name, error.message, hint=error.hint)


@contextmanager
def destination_errors() -> Iterator[None]:
    """Converts errors by `destination_error`."""
    try:
        yield
    except GaussError as error:
        raise destination_error(error) from error


@contextmanager
def committing() -> Iterator[None]:
    """For the step that decides: if its answer is lost, the error says that the outcome is unknown."""
    try:
        yield
    except Unclear as error:
        raise ConnectorError.transient_db(
            "COMMIT_UNKNOWN",
            f"the answer to a commit was lost: {error.message}",
            commit_state=CommitState.AFTER_COMMIT_UNKNOWN,
            hint="ask the watermark whether the commit took place, then retry",
        ) from error


@contextmanager
def committed() -> Iterator[None]:
    """For what follows that step: an error is no reason to write the rows again, since the next run completes it."""
    try:
        yield
    except GaussError as error:
        made = destination_error(error)
        made.commit_state = CommitState.AFTER_COMMIT_CONFIRMED
        raise made from error


def check_run(stream: str, generation: int, newest: int) -> None:
    """Raises ConnectorError unless a run is the newest one that was prepared."""
    if newest < generation:
        raise ConnectorError.internal("NOT_PREPARED", f"stream {stream} was not prepared before it is written")
    if newest > generation:
        raise fenced(stream, generation, newest)
