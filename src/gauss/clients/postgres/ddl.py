"""CREATE TABLE from a target schema."""

from __future__ import annotations

from collections.abc import Sequence

from gauss.clients.postgres.quote import identifier, qualified
from gauss.clients.postgres.types import render_type
from gauss.clients.sql_names import check_columns
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.errors import ConfigError

_ATTRS = {"schema", "table", "key", "partition_by", "unlogged", "with"}
_PROPS = {"default", "generated", "materialized", "not_null", "unique", "check", "collate"}
COMPUTED = ("generated", "materialized")
"""Properties of a computed column: the names of Postgres and ClickHouse, equivalent here."""


def table_name(target: TargetSchema) -> str:
    """The quoted name of a target's table."""
    table = target.attrs.get("table")
    if not isinstance(table, str) or not table:
        raise ConfigError("the schema names no table", hint='write schema = { table = "orders", … }')
    return qualified(table, str(target.attrs.get("schema") or ""))


def key_of(target: TargetSchema) -> tuple[str, ...]:
    """The columns by which rows are upserted; empty if rows are only inserted."""
    asked = target.attrs.get("key") or ()
    key = (asked,) if isinstance(asked, str) else tuple(asked)
    if missing := [name for name in key if name not in {field.name for field in target.fields}]:
        raise ConfigError(
            f"key: the table has no column {', '.join(missing)}",
            hint=f"its columns are {', '.join(field.name for field in target.fields)}",
        )
    return key


def create_table(target: TargetSchema) -> str:
    """The statement that creates a target's table."""
    if unknown := set(target.attrs) - _ATTRS:
        raise _unknown("schema", unknown, _ATTRS)
    if not target.fields:
        raise ConfigError("the schema has no columns", hint="fill target.fields in map_schema")
    names = [field.name for field in target.fields]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"columns named twice: {', '.join(sorted(twice))}", hint="rename one in the schema map")
    _check_names(target, names)
    kind = "UNLOGGED TABLE" if target.attrs.get("unlogged") else "TABLE"
    text = f"CREATE {kind} IF NOT EXISTS {table_name(target)} (\n{_lines(target)}\n)"
    if target.attrs.get("partition_by"):
        text += f"\nPARTITION BY {target.attrs['partition_by']}"
    if options := target.attrs.get("with"):
        text += "\nWITH (" + ", ".join(f"{name} = {value}" for name, value in options.items()) + ")"
    return text


def _check_names(target: TargetSchema, names: list[str]) -> None:
    """Checks that every name in an expression is a column of this table."""
    if asked := target.attrs.get("partition_by"):
        check_columns("partition_by", str(asked), names, folds=True)
    for field in target.fields:
        for word in (word for word in (*COMPUTED, "check") if field.props.get(word)):
            check_columns(f"column {field.name}: {word}", str(field.props[word]), names, folds=True)


def _lines(target: TargetSchema) -> str:
    lines = [column(field) for field in target.fields]
    if key := key_of(target):
        lines.append(f"PRIMARY KEY ({names_list(key)})")
    return ",\n".join(f"    {line}" for line in lines)


def column(field: TargetField) -> str:
    """The definition of a column: name, type and constraints."""
    if unknown := set(field.props) - _PROPS:
        raise _unknown(f"column {field.name}", unknown, _PROPS)
    given = [word for word in ("default", *COMPUTED) if word in field.props]
    if len(given) > 1:
        raise ConfigError(f"column {field.name} can't be {' and '.join(given)}", hint="keep one of them")
    parts = [identifier(field.name), render_type(field.field_type)]
    if collate := field.props.get("collate"):
        parts.append(f"COLLATE {identifier(str(collate))}")
    if "default" in field.props:
        parts.append(f"DEFAULT {field.props['default']}")
    parts += [f"GENERATED ALWAYS AS ({field.props[word]}) STORED" for word in COMPUTED if word in field.props]
    if field.props.get("not_null"):
        parts.append("NOT NULL")
    if field.props.get("unique"):
        parts.append("UNIQUE")
    if check := field.props.get("check"):
        parts.append(f"CHECK ({check})")
    return " ".join(parts)


def names_list(names: Sequence[str]) -> str:
    """Quoted names separated by commas."""
    return ", ".join(map(identifier, names))


def _unknown(where: str, unknown: set[str], known: set[str]) -> ConfigError:
    return ConfigError(
        f"{where}: Postgres has no {', '.join(sorted(unknown))}", hint=f"it takes {', '.join(sorted(known))}"
    )
