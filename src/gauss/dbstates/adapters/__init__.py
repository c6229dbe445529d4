"""Systems of scripts, by the kind that a preparation names."""

from __future__ import annotations

from gauss.dbstates.adapters.alembic import Alembic
from gauss.dbstates.adapters.liquibase import Liquibase
from gauss.dbstates.adapters.migrations import Migrations
from gauss.dbstates.adapters.psql import Psql
from gauss.dbstates.planning.plan import Adapter
from gauss.model.errors import ConfigError

KINDS = ("psql", "migrations", "alembic", "liquibase")


def adapter(kind: str, psql: str = "psql") -> Adapter:
    """The adapter of a kind; `psql` is the path of the program."""
    found: dict[str, Adapter] = {
        "psql": Psql(psql),
        "migrations": Migrations(psql),
        "alembic": Alembic(),
        "liquibase": Liquibase(),
    }
    if kind not in found:
        raise ConfigError(f"expected {', '.join(KINDS[:-1])} or {KINDS[-1]} as kind, found {kind!r}")
    return found[kind]
