"""Rules for the names of the schemas and tables of a destination."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic_core import PydanticCustomError

from gauss.contracts.connector.errors import ConnectorError
from gauss.model.errors import ConfigError

RESERVED = "_gauss_"
"""How the names of the connectors' own tables begin."""


def check_names(schema: str | None, tables: Iterable[str], identifier: Callable[[str], str]) -> None:
    """Checks the names in a config. `identifier` quotes a name, or raises ConfigError if the system can't have it."""
    for key, name in [*([("schema", schema)] if schema is not None else []), *(("tables", each) for each in tables)]:
        try:
            identifier(name)
        except ConfigError as error:
            raise PydanticCustomError("name", "{message}", {"message": error.message, "key": key}) from None
        if key == "tables" and name.startswith(RESERVED):
            raise PydanticCustomError("name", f"names with {RESERVED} are the connector's own", {"key": key})


def refuse_reserved(table: str, stream: str) -> None:
    """Raises ConnectorError if a stream would be written to one of the connectors' own tables."""
    if table.startswith(RESERVED):
        raise ConnectorError.config(
            "RESERVED_NAME",
            f"stream {stream}: names with {RESERVED} are the connector's own",
            hint="name another table in tables",
        )
