"""Whatever a connector raises, as a ConnectorError."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from gauss.contracts.connector.errors import ConnectorError
from gauss.model.errors import ConfigError, GaussError, Unavailable

log = logging.getLogger("gauss.connect")
T = TypeVar("T")


def typed(call: Callable[[], T]) -> T:
    """The result of a call into a connector; whatever it raises becomes a ConnectorError."""
    try:
        return call()
    except ConnectorError:
        raise
    except Exception as error:
        raise typed_error(error) from error


def typed_error(error: Exception) -> ConnectorError:
    """An exception as a ConnectorError."""
    match error:
        case ConnectorError():
            return error
        case ConfigError():
            return ConnectorError.config("CONFIG", error.message, hint=error.hint)
        case Unavailable():
            return ConnectorError.transient_network("UNAVAILABLE", error.message, hint=error.hint)
        case GaussError():
            make = ConnectorError.transient_db if error.retryable else ConnectorError.internal
            return make(error.code.upper(), error.message, hint=error.hint)
        case _:
            log.debug("a connector raised", exc_info=error)
            return ConnectorError.internal("UNEXPECTED", f"{type(error).__name__}: {error}")
