"""Quoting of names in SQL for Postgres."""

from __future__ import annotations

from gauss.model.errors import ConfigError

NAME_BYTES = 63


def identifier(name: str) -> str:
    """A quoted column, table or schema name; ConfigError for one that Postgres would truncate."""
    length = len(name.encode(errors="surrogatepass"))
    if not name or "\0" in name or length > NAME_BYTES:
        shown = name if len(name) <= 40 else f"{name[:40]}…"
        raise ConfigError(
            f"a name in Postgres has 1 to {NAME_BYTES} bytes and no NUL, found {shown!r} with {length}",
            hint="rename the column or table in the schema map",
        )
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def qualified(table: str, schema: str = "") -> str:
    """ "schema"."table", or the table alone."""
    return f"{identifier(schema)}.{identifier(table)}" if schema else identifier(table)
