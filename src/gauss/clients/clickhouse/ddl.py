"""CREATE TABLE from a target schema."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from gauss.clients.clickhouse.known import TYPES, engine_fault, is_type
from gauss.clients.clickhouse.quote import identifier, literal, qualified
from gauss.clients.clickhouse.types import render_type, split_arguments
from gauss.clients.sql_names import check_columns
from gauss.config.validate import did_you_mean
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema, as_field_type
from gauss.model.errors import ConfigError
from gauss.model.names import is_internal

DEDUPLICATION_WINDOW = 10_000
"""Number of blocks whose deduplication tokens a table remembers, which makes retries of inserts safe."""
TABLE_NAME_BYTES = 206
_PATTERN = frozenset("*?{}")
_ATTRS = {
    "database", "table", "engine", "engine_params", "order_by", "partition_by", "primary_key", "sample_by", "ttl",
    "settings", "comment",
}  # fmt: skip
_PROPS = {"default", "materialized", "alias", "ephemeral", "codec", "ttl", "comment"}
_VALUES = ("default", "materialized", "alias", "ephemeral")
_CLAUSES = ("order_by", "partition_by", "primary_key", "sample_by", "ttl")


def table_name(target: TargetSchema) -> str:
    """The quoted name of a target's table."""
    table = target.attrs.get("table")
    if not isinstance(table, str) or not table:
        raise ConfigError("the schema names no table", hint='write schema = { table = "quotes", … }')
    if length := _too_long(table):
        raise ConfigError(
            f"a table name in ClickHouse has at most {TABLE_NAME_BYTES} bytes as a file name, found {length}",
            hint="write a shorter name into schema = { table = … }",
        )
    if _PATTERN.intersection(table):
        raise ConfigError(
            f"the embedded ClickHouse would treat the table name {table!r} as a file pattern",
            hint=f"remove the characters {' '.join(sorted(_PATTERN))}",
        )
    return qualified(table, str(target.attrs.get("database") or ""))


def _too_long(table: str) -> int:
    """The length of the table's file name (most characters take three bytes) if it is too long, else 0. The server
    would retry forever."""
    length = len(quote(table, safe=""))
    return length if length > TABLE_NAME_BYTES else 0


def engine_of(target: TargetSchema) -> str:
    """The engine with its parameters: `ReplacingMergeTree(version)`."""
    engine = str(target.attrs.get("engine") or "MergeTree").strip()
    params = target.attrs.get("engine_params")
    if "(" in engine:
        return engine
    return f"{engine}({', '.join(map(str, params or ()))})"


def create_table(target: TargetSchema) -> str:
    """The statement that creates a target's table."""
    if unknown := set(target.attrs) - _ATTRS:
        raise _unknown("schema", unknown, _ATTRS)
    if not target.fields:
        raise ConfigError("the schema has no columns", hint="fill target.fields in map_schema")
    names = [field.name for field in target.fields]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"columns named twice: {', '.join(sorted(twice))}", hint="rename one in the schema map")
    if fault := engine_fault(engine_of(target)):
        raise ConfigError(f"engine: {fault}")
    _check_names(target, names)
    columns = ",\n".join(f"    {column(field)}" for field in target.fields)
    head = f"CREATE TABLE IF NOT EXISTS {table_name(target)}"
    return "\n".join([f"{head}\n(\n{columns}\n)", f"ENGINE = {engine_of(target)}", *_clauses(target)])


def _check_names(target: TargetSchema, names: list[str]) -> None:
    """Checks that every name in a clause or column expression is a column of this table."""
    for clause in _CLAUSES:
        asked = target.attrs.get(clause)
        for part in [asked] if isinstance(asked, str) else asked or ():
            if str(part) not in names:
                check_columns(clause, str(part), names)
    for field in target.fields:
        for word in (word for word in (*_VALUES, "ttl") if field.props.get(word)):
            check_columns(f"column {field.name}: {word}", str(field.props[word]), names)


def _check_type(field: str, kind: FieldType) -> None:
    if not is_type(kind.name):
        raise ConfigError(
            f'column {field}: ClickHouse has no type "{kind.name}"',
            hint=did_you_mean(kind.name, TYPES) or "write for example String, Int64, Decimal64",
        )
    for word in ("inner", "element", "key", "value"):
        if word in kind.attrs:
            _check_type(field, as_field_type(kind.attrs[word]))


def column(field: TargetField) -> str:
    """The definition of a column: name, type, default, codec, TTL, comment."""
    if unknown := set(field.props) - _PROPS:
        raise _unknown(f"column {field.name}", unknown, _PROPS)
    given = [word for word in _VALUES if word in field.props]
    if len(given) > 1:
        raise ConfigError(f"column {field.name} can't be {' and '.join(given)}", hint="keep one of them")
    _check_type(field.name, field.field_type)
    parts = [identifier(field.name), render_type(field.field_type)]
    parts += [f"{word.upper()} {field.props[word]}" for word in given]
    if field.props.get("comment"):
        parts.append(f"COMMENT {literal(str(field.props['comment']))}")
    if field.props.get("codec"):
        parts.append(f"CODEC({field.props['codec']})")
    if field.props.get("ttl"):
        parts.append(f"TTL {field.props['ttl']}")
    return " ".join(parts)


def order_by(target: TargetSchema) -> str:
    """The sorting key: the configured one, else `ts_ms`, else none."""
    if asked := target.attrs.get("order_by"):
        return _key(target, asked)
    engine = engine_of(target)
    if any(word in engine for word in ("Replacing", "Summing", "Aggregating", "Collapsing")):
        raise ConfigError(
            f"{engine} without order_by would merge all rows into one",
            hint=f"name the columns that make a row unique, for example order_by = {_example_key(target)}",
        )
    return identifier("ts_ms") if any(field.name == "ts_ms" for field in target.fields) else "tuple()"


def _example_key(target: TargetSchema) -> str:
    """An example key of two columns that the records fill, text before times."""
    filled = [field for field in target.fields if field.source and not is_internal(field.name)]
    filled.sort(key=lambda field: "String" not in render_type(field.field_type))
    return json.dumps([field.name for field in filled[:2]])


def _key(target: TargetSchema, asked: Any) -> str:
    """A key as SQL: text is SQL already; in a list, names of columns are quoted."""
    if isinstance(asked, str):
        return f"({asked})" if len(split_arguments(asked)) > 1 else asked
    names = {field.name for field in target.fields}
    return f"({', '.join(identifier(item) if item in names else str(item) for item in asked)})"


def _clauses(target: TargetSchema) -> list[str]:
    attrs, merge_tree = target.attrs, "MergeTree" in engine_of(target)
    clauses = []
    if attrs.get("partition_by"):
        clauses.append(f"PARTITION BY {_key(target, attrs['partition_by'])}")
    if attrs.get("primary_key"):
        clauses.append(f"PRIMARY KEY {_key(target, attrs['primary_key'])}")
    if merge_tree:
        clauses.append(f"ORDER BY {order_by(target)}")
    if attrs.get("sample_by"):
        clauses.append(f"SAMPLE BY {_key(target, attrs['sample_by'])}")
    if attrs.get("ttl"):
        clauses.append(f"TTL {attrs['ttl']}")
    settings = dict(attrs.get("settings") or {})
    if merge_tree and "Replicated" not in engine_of(target):
        settings.setdefault("non_replicated_deduplication_window", DEDUPLICATION_WINDOW)
    if settings:
        clauses.append("SETTINGS " + ", ".join(f"{name} = {_value(value)}" for name, value in settings.items()))
    if attrs.get("comment"):
        clauses.append(f"COMMENT {literal(str(attrs['comment']))}")
    return clauses


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, int | float) else literal(str(value))


def _unknown(where: str, unknown: set[str], known: set[str]) -> ConfigError:
    return ConfigError(
        f"{where}: ClickHouse has no {', '.join(sorted(unknown))}", hint=f"it takes {', '.join(sorted(known))}"
    )
