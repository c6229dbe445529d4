"""`[[databases]]`: databases prepared by scripts."""

from __future__ import annotations

from typing import Literal

from gauss.config.section import Name, Section


class PrepareDef(Section):
    """The scripts that make a database."""

    kind: Literal["psql", "migrations", "alembic", "liquibase"] = "psql"
    """The system of scripts, see [database states](../database-states.md)."""
    args: tuple[str, ...] = ()
    """Its arguments, such as `["-f", "schema.sql"]`. Relative paths start at the folder of the config file."""
    image: str = ""
    """Another Postgres: the folder of its programs, or an image of a container. Default: the one that Gauss carries."""


class DatabaseDef(Section):
    """`[[databases]]`: a Postgres database with the content that scripts make."""

    name: Name
    """The name by which `database` of a Postgres topic, a pg-source or a side of a sync refers to it."""
    prepare: PrepareDef
    """The scripts: `{ kind = "psql", args = ["-f", "schema.sql", "-f", "seed.sql"] }`."""
