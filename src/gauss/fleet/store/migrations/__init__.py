"""Numbered changes of the store's tables, applied in order, each in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store.migrations import (
    m0001_pipelines,
    m0002_leases,
    m0003_claims,
    m0004_access,
    m0005_observed,
    m0006_files,
    m0007_letters,
    m0008_takeovers,
    m0009_instances,
)
from gauss.model.errors import ConfigError

MIGRATIONS: tuple[ModuleType, ...] = (
    m0001_pipelines,
    m0002_leases,
    m0003_claims,
    m0004_access,
    m0005_observed,
    m0006_files,
    m0007_letters,
    m0008_takeovers,
    m0009_instances,
)
"""Version N is what the first N of them make. A released one is never changed."""
_LOCK = 0x67617573
"""The key of the advisory lock that lets one process migrate; it is released with its transaction."""
_WORDS = {
    "sqlite": {"id": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB"},
    "postgresql": {"id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytes": "BYTEA"},
}


def migrate(database: Database, migrations: Sequence[ModuleType] = MIGRATIONS) -> int:
    """Brings a store to the newest version and returns the version that it had. Processes that start at the same time
    wait for each other."""
    found = None
    for number, migration in enumerate(migrations, 1):
        with database.transaction() as connection:
            version = _version(connection)
            found = version if found is None else found
            if version > len(migrations):
                raise ConfigError(
                    f"the store has version {version}, and this gauss knows versions up to {len(migrations)}",
                    hint="update gauss on this machine",
                )
            if version < number:
                _apply(connection, number, migration)
    return found or 0


def _version(connection: sa.Connection) -> int:
    if connection.dialect.name == "postgresql":  # SQLite's transactions are exclusive
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    connection.execute(sa.text("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"))
    return int(connection.execute(sa.text("SELECT COALESCE(MAX(version), 0) FROM schema_version")).scalar_one())


def _apply(connection: sa.Connection, number: int, migration: ModuleType) -> None:
    for statement in migration.STATEMENTS:
        connection.execute(sa.text(statement.format(**_WORDS[connection.dialect.name])))
    connection.execute(sa.text("INSERT INTO schema_version VALUES (:number)"), {"number": number})
