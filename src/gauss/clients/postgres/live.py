"""The live table, and its differences from the target schema."""

from __future__ import annotations

from dataclasses import dataclass

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.ddl import column, key_of, names_list, table_name
from gauss.clients.postgres.errors import sorted_errors
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.types import parse_type
from gauss.contracts.evolution import Change, Difference
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetSchema

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated <> '',
       coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
       coalesce(array_position(i.indkey::int2[], a.attnum), -1)
FROM pg_attribute a
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_WANTED = "_gauss_wanted"


@dataclass(frozen=True)
class LiveColumn:
    name: str
    type_text: str
    not_null: bool
    generated: bool
    expression: str
    """The default, or the expression of a generated column."""

    @property
    def field_type(self) -> FieldType:
        return parse_type(self.type_text)

    @property
    def default(self) -> str:
        if not self.expression:
            return ""
        return f"GENERATED ALWAYS AS ({self.expression}) STORED" if self.generated else f"DEFAULT {self.expression}"


@dataclass(frozen=True)
class LiveTable:
    columns: tuple[LiveColumn, ...]
    key: tuple[str, ...]


def describe(connection: Connection, table: str) -> LiveTable | None:
    """The live table by its quoted name; None if it does not exist."""
    with sorted_errors():
        rows = connection.execute(_COLUMNS, [table]).fetchall()
    if not rows:
        return None
    key = sorted((place, name) for name, *_, place in rows if place >= 0)
    return LiveTable(tuple(LiveColumn(*row[:5]) for row in rows), tuple(name for _, name in key))


def differences(connection: Connection, target: TargetSchema, live: LiveTable) -> list[Difference]:
    """All differences of the table from the target, in the target's order."""
    table, wanted = table_name(target), _as_postgres_writes(connection, target)
    there = {found.name: found for found in live.columns}
    found: list[Difference] = []
    for field in target.fields:
        line, name = column(field), identifier(field.name)
        is_now, shall = there.pop(field.name, None), wanted[field.name]
        if is_now is None:
            add = f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {line}"
            found.append(Difference(Change.ADD, field.name, line.removeprefix(name).strip(), "", add))
            continue
        if shall.type_text != is_now.type_text:
            alter = f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {shall.type_text}"
            found.append(Difference(Change.TYPE, field.name, shall.type_text, is_now.type_text, alter))
        if shall.default != is_now.default:
            alter = _default_statement(f"ALTER TABLE {table}", name, line, shall, is_now)
            found.append(
                Difference(Change.DEFAULT, field.name, shall.default or "no default", is_now.default or "none", alter)
            )
        if shall.not_null and not is_now.not_null:
            alter = f"ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL"
            found.append(Difference(Change.TYPE, field.name, "NOT NULL", "nullable", alter))
    for left in there.values():
        drop = f"ALTER TABLE {table} DROP COLUMN {identifier(left.name)}"
        found.append(Difference(Change.EXTRA, left.name, "", left.type_text, drop))
    key = key_of(target)
    if key and set(key) != set(live.key):
        alter = f"ALTER TABLE {table} ADD PRIMARY KEY ({names_list(key)})" if not live.key else ""
        found.append(Difference(Change.TABLE, "key", ", ".join(key), ", ".join(live.key) or "none", alter))
    return found


def _default_statement(alter: str, name: str, line: str, shall: LiveColumn, is_now: LiveColumn) -> str:
    if shall.generated or is_now.generated:
        return f"{alter} DROP COLUMN {name}, ADD COLUMN {line}"
    change = f"SET DEFAULT {shall.expression}" if shall.expression else "DROP DEFAULT"
    return f"{alter} ALTER COLUMN {name} {change}"


def _as_postgres_writes(connection: Connection, target: TargetSchema) -> dict[str, LiveColumn]:
    """The target columns as Postgres describes them, from a temporary table that is rolled back."""
    lines = [column(field) for field in target.fields]
    if key := key_of(target):
        lines.append(f"PRIMARY KEY ({names_list(key)})")
    with sorted_errors(), connection.transaction(force_rollback=True):
        connection.execute(f"CREATE TEMP TABLE {_WANTED} ({', '.join(lines)})".encode())
        made = describe(connection, f"pg_temp.{_WANTED}")
    return {found.name: found for found in made.columns} if made else {}
