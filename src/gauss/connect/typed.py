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
    except ConfigError as error:
        raise ConnectorError.config("CONFIG", error.message, hint=error.hint) from error
    except Unavailable as error:
        raise ConnectorError.transient_network("UNAVAILABLE", error.message, hint=error.hint) from error
    except GaussError as error:
        make = ConnectorError.transient_db if error.retryable else ConnectorError.internal
        raise make(error.code.upper(), error.message, hint=error.hint) from error
    except Exception as error:
        log.debug("a connector raised", exc_info=True)
        raise ConnectorError.internal("UNEXPECTED", f"{type(error).__name__}: {error}") from error
