"""Quoting of names and values in SQL for ClickHouse."""

from __future__ import annotations

from gauss.model.errors import ConfigError


def identifier(name: str) -> str:
    """A quoted column, table or database name."""
    if not name or "\0" in name:
        raise ConfigError(
            f"a name in ClickHouse has at least one character and no NUL byte, found {name!r}",
            hint="rename the column or table in the schema map",
        )
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def qualified(table: str, database: str = "") -> str:
    """`database`.`table`, or the table alone."""
    return f"{identifier(database)}.{identifier(table)}" if database else identifier(table)


def literal(text: str) -> str:
    """A quoted string."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"'{escaped}'"
