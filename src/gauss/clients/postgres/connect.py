"""Connections to Postgres, the embedded one or any other."""

from __future__ import annotations

from typing import Any

import psycopg
import psycopg.conninfo

from gauss.clients.endpoint import Endpoint
from gauss.clients.errors import Unclear
from gauss.clients.postgres.errors import sorted_errors
from gauss.clients.postgres.server import UNREADABLE
from gauss.model.errors import ConfigError, Unavailable

Connection = psycopg.Connection[tuple[Any, ...]]
# The last two are settings of servers from 14 and 17 on.
NO_TIME_LIMITS = """
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN (
    'statement_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')
"""
"""Lifts the time limits of a user or server from a session whose transactions last as long as there are rows."""


def connect(address: str | Endpoint, *, connect_seconds: int = 10, autocommit: bool = False) -> Connection:
    """A connection named `gauss` that notices within a minute that the server is gone."""
    if isinstance(address, str):
        try:
            psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.ProgrammingError:  # its text contains a part of the DSN
            raise ConfigError("Postgres: the dsn can't be read", hint=UNREADABLE) from None
    try:
        with sorted_errors():
            return psycopg.connect(
                address.url if isinstance(address, Endpoint) else address,
                autocommit=autocommit,
                connect_timeout=connect_seconds,
                application_name="gauss",
                keepalives_idle=20,
                keepalives_interval=10,
                keepalives_count=3,
                tcp_user_timeout=60_000,
            )
    except Unclear as error:  # without a connection nothing can have been written
        raise Unavailable(error.message, hint=error.hint) from error
