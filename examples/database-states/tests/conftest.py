"""A connection to a database of each test's own; the scripts are named in pytest.ini."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from gauss.clients.dbstates.pytest_plugin import Database


@pytest.fixture
def database(gauss_db: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gauss_db.dsn) as connection:
        yield connection
