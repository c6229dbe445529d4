"""Whether ClickHouse would make a table, found out without making it."""

from __future__ import annotations

import re
from dataclasses import replace

from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.write import execute
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.model.errors import ConfigError, GaussError, Unavailable

_NAME = r"`(?:[^`\\]|\\.)*`"
_START = re.compile(rf"CREATE TABLE (?:IF NOT EXISTS )?(?:{_NAME}\.)?({_NAME})(?= *\n? *\()")
_NOT_TEMPORARY = re.compile(r"ENGINE = (Replicated|Shared|Distributed|Buffer)")


def try_statement(config: ClickHouseConfig, statement: str) -> None:
    """Sends a CREATE TABLE statement as one for a temporary table, which ends with the query: keys, TTL and engine are
    checked as for a lasting one. Raises ConfigError. What can't be tried is taken for good: engines that temporary
    tables can't have, and a user without the right."""
    temporary, made = _START.subn(r"CREATE TEMPORARY TABLE \1", statement, count=1)
    if not made or _NOT_TEMPORARY.search(statement):
        return
    client = connect(replace(config.address(), database="default"))
    try:
        execute(client, [temporary])
    except Unavailable:
        raise
    except GaussError as error:
        if "ACCESS_DENIED" in error.message:
            return
        hint = "change the sorting key, the partition key, the TTL, the engine or a type"
        raise ConfigError(f"the table can't be made: {error.message}", hint=hint) from None
    finally:
        client.close()
