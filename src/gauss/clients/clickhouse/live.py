"""The live table, and its differences from the target schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gauss.clients.clickhouse.ddl import column, engine_of, order_by, table_name
from gauss.clients.clickhouse.errors import sorted_errors
from gauss.clients.clickhouse.quote import identifier
from gauss.clients.clickhouse.types import canonical, parse_type, render_type
from gauss.contracts.evolution import Change, Difference
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_KINDS = {"default": "DEFAULT", "materialized": "MATERIALIZED", "alias": "ALIAS", "ephemeral": "EPHEMERAL"}


@dataclass(frozen=True)
class LiveColumn:
    name: str
    field_type: FieldType
    kind: str
    """DEFAULT, MATERIALIZED, ALIAS, EPHEMERAL or empty."""
    expression: str


@dataclass(frozen=True)
class LiveTable:
    columns: tuple[LiveColumn, ...]
    engine: str
    sorting_key: str
    create: str


def describe(client: Client, table: str, database: str = "") -> LiveTable | None:
    """The live table by its unquoted name; None if it does not exist."""
    where = "database = if({database:String} = '', currentDatabase(), {database:String})"
    parameters = {"database": database, "table": table}
    with sorted_errors():
        tables = client.query(
            "SELECT engine, sorting_key, create_table_query FROM system.tables "
            f"WHERE {where} AND name = {{table:String}}",
            parameters=parameters,
        ).result_rows
        if not tables:
            return None
        columns = client.query(
            "SELECT name, type, default_kind, default_expression FROM system.columns "
            f"WHERE {where} AND table = {{table:String}} ORDER BY position",
            parameters=parameters,
        ).result_rows
    found = tuple(LiveColumn(name, parse_type(kind), default, text) for name, kind, default, text in columns)
    return LiveTable(found, *tables[0])


def differences(client: Client, target: TargetSchema, live: LiveTable) -> list[Difference]:
    """All differences of the table from the target, in the target's order."""
    table = table_name(target)
    by_name = {found.name: found for found in live.columns}
    found: list[Difference] = []
    before = ""
    for field in target.fields:
        line = column(field)
        there = by_name.pop(field.name, None)
        if there is None:
            place = f" AFTER {identifier(before)}" if before else " FIRST"
            add = f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {line}{place}"
            found.append(Difference(Change.ADD, field.name, line.removeprefix(identifier(field.name)).strip(), "", add))
        else:
            modify = f"ALTER TABLE {table} MODIFY COLUMN {line}"
            wanted_type = canonical(field.field_type)
            if wanted_type != canonical(there.field_type):
                shown = render_type(there.field_type)
                found.append(Difference(Change.TYPE, field.name, render_type(field.field_type), shown, modify))
            wanted = _default(client, field)
            if wanted != f"{there.kind} {there.expression}".strip():
                shown = f"{there.kind} {there.expression}".strip() or "no default"
                found.append(Difference(Change.DEFAULT, field.name, wanted or "no default", shown, modify))
        before = field.name
    for left in by_name.values():
        drop = f"ALTER TABLE {table} DROP COLUMN {identifier(left.name)}"
        found.append(Difference(Change.EXTRA, left.name, "", render_type(left.field_type), drop))
    return [*found, *_table_differences(client, target, live)]


def _default(client: Client, field: TargetField) -> str:
    for prop, word in _KINDS.items():
        if prop in field.props:
            return f"{word} {_normal(client, str(field.props[prop]))}"
    return ""


def _table_differences(client: Client, target: TargetSchema, live: LiveTable) -> list[Difference]:
    found = []
    engine = engine_of(target).partition("(")[0].strip()
    if engine != live.engine:
        found.append(Difference(Change.TABLE, "engine", engine, live.engine))
    if "MergeTree" in live.engine:
        wanted = _key(client, order_by(target))
        if wanted != _key(client, live.sorting_key or "tuple()"):
            found.append(Difference(Change.TABLE, "order_by", wanted, live.sorting_key or "tuple()"))
    return found


def _key(client: Client, key: str) -> str:
    """A sorting key without the parentheses that ClickHouse removes."""
    text = _normal(client, f"tuple({key})" if not key.startswith(("(", "tuple(")) else key)
    return text.removeprefix("tuple").removeprefix("(").removesuffix(")")


def _normal(client: Client, expression: str) -> str:
    """An expression as ClickHouse formats it."""
    with sorted_errors():
        text = client.query(
            "SELECT formatQuerySingleLine({text:String})", parameters={"text": f"SELECT {expression}"}
        ).result_rows[0][0]
    return str(text).removeprefix("SELECT ")
