"""Puts a loaded table in the place of another: with its name, indexes, keys, owner, privileges and comment."""

from __future__ import annotations

from typing import NamedTuple

import psycopg
from psycopg import sql

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.quote import identifier, qualified

# What a new table would not have, and what dropping the old one would take away without an error.
_SIMPLE = """
SELECT c.relkind = 'r' AND NOT c.relispartition AND NOT c.relrowsecurity AND c.reloptions IS NULL
    AND c.relreplident = 'd' AND c.reltablespace = 0 AND c.relpersistence = 'p' AND pg_has_role(c.relowner, 'USAGE')
    AND c.reloftype = 0
    AND c.relam = (SELECT oid FROM pg_am WHERE amname = current_setting('default_table_access_method'))
    AND NOT EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
            AND (attoptions IS NOT NULL OR coalesce(attstattarget, -1) <> -1))
    AND NOT EXISTS (
        SELECT FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid WHERE x.indrelid = c.oid
            AND (x.indisclustered OR i.reltablespace <> 0 OR obj_description(i.oid, 'pg_class') IS NOT NULL))
    AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal)
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid
        AND (contype NOT IN ('p', 'u', 'c', 'n') OR conexclop IS NOT NULL))
    AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid)
    AND NOT EXISTS (SELECT FROM pg_publication_rel WHERE prrelid = c.oid)
    AND NOT EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhrelid, inhparent))
    AND NOT EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid)
    AND NOT EXISTS (
        SELECT FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
        WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid)
FROM pg_class c WHERE c.oid = to_regclass(%s)
"""
_INDEXES = """
SELECT i.relname, x.indisunique, substr(pg_get_indexdef(i.oid), length(p.prefix) + 1),
    starts_with(pg_get_indexdef(i.oid), p.prefix), coalesce(k.contype::text, ''), coalesce(k.conname, ''),
    coalesce(k.condeferrable, false), coalesce(k.condeferred, false)
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
LEFT JOIN pg_constraint k ON k.conindid = i.oid AND k.contype IN ('p', 'u')
CROSS JOIN LATERAL (SELECT format(
    'CREATE %%sINDEX %%I ON %%I.%%I', CASE WHEN x.indisunique THEN 'UNIQUE ' END, i.relname, n.nspname, t.relname
)) AS p (prefix)
WHERE x.indrelid = to_regclass(%s) AND x.indisvalid ORDER BY i.relname
"""
_GRANTS = """
SELECT a.privilege_type, g.rolname, a.is_grantable, NULL::name
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee
WHERE c.oid = to_regclass(%(table)s) AND a.grantee <> c.relowner
UNION ALL
SELECT a.privilege_type, g.rolname, a.is_grantable, o.attname
FROM pg_attribute o JOIN pg_class c ON c.oid = o.attrelid CROSS JOIN LATERAL aclexplode(o.attacl) a
LEFT JOIN pg_roles g ON g.oid = a.grantee
WHERE c.oid = to_regclass(%(table)s) AND a.grantee <> c.relowner AND NOT o.attisdropped
"""
_GRANTEES = """
SELECT DISTINCT g.rolname
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee
WHERE c.oid = to_regclass(%s) AND a.grantee <> c.relowner
"""
_OWNER = """
SELECT pg_get_userbyid(relowner), obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)
"""


class _Index(NamedTuple):
    name: str
    unique: bool
    tail: str
    """The definition behind the table's name."""
    readable: bool
    contype: str
    constraint: str
    deferrable: bool
    deferred: bool


def can_swap(connection: Connection, table: str) -> bool:
    """Whether a table can be replaced by another one without losing triggers, policies and the like. What depends on it
    (views, foreign keys) is found by the drop."""
    found = connection.execute(_SIMPLE, [table]).fetchone()
    return bool(found and found[0]) and all(index.readable for index in _indexes(connection, table))


def swap(connection: Connection, schema: str, table: str, stage: str) -> bool:
    """Replaces a table by a loaded one of the same schema, in the caller's transaction. False: something depends on the
    table, and nothing was changed."""
    old, new = qualified(table, schema), qualified(stage, schema)
    indexes = _indexes(connection, old)
    try:
        with connection.transaction():
            names = [f"{stage}_{number}" for number in range(len(indexes))]
            for index, name in zip(indexes, names, strict=True):
                unique = "UNIQUE " if index.unique else ""
                _run(connection, f"CREATE {unique}INDEX {identifier(name)} ON {new}{index.tail}")
            _grant(connection, old, new)
            _run(connection, f"DROP TABLE {old}")
            _run(connection, f"ALTER TABLE {new} RENAME TO {identifier(table)}")
            for index, name in zip(indexes, names, strict=True):
                _run(connection, _named(index, name, old, schema))
    except psycopg.errors.DependentObjectsStillExist:
        return False
    return True


def _indexes(connection: Connection, table: str) -> list[_Index]:
    return [_Index(*row) for row in connection.execute(_INDEXES, [table]).fetchall()]


def _named(index: _Index, name: str, table: str, schema: str) -> str:
    """The statement that gives an index its old name and its constraint."""
    if not index.contype:
        return f"ALTER INDEX {qualified(name, schema)} RENAME TO {identifier(index.name)}"
    kind = "PRIMARY KEY" if index.contype == "p" else "UNIQUE"
    later = " DEFERRABLE" if index.deferrable else ""
    later += " INITIALLY DEFERRED" if index.deferred else ""
    constraint = identifier(index.constraint)
    return f"ALTER TABLE {table} ADD CONSTRAINT {constraint} {kind} USING INDEX {identifier(name)}{later}"


def _grant(connection: Connection, old: str, new: str) -> None:
    """Copies owner, privileges and comment."""
    # A new table has the default privileges of its schema, which the old one may not have.
    for (role,) in connection.execute(_GRANTEES, [new]).fetchall():
        _run(connection, f"REVOKE ALL ON {new} FROM {_grantee(role)}")
    for privilege, role, grantable, column in connection.execute(_GRANTS, {"table": old}).fetchall():
        columns = f" ({identifier(column)})" if column else ""
        option = " WITH GRANT OPTION" if grantable else ""
        _run(connection, f"GRANT {privilege}{columns} ON {new} TO {_grantee(role)}{option}")
    found = connection.execute(_OWNER, [old]).fetchone()
    assert found is not None
    owner, comment = found
    if comment is not None:
        _run(connection, f"COMMENT ON TABLE {new} IS {sql.Literal(comment).as_string(connection)}")
    _run(connection, f"ALTER TABLE {new} OWNER TO {identifier(owner)}")


def _grantee(role: str | None) -> str:
    return identifier(role) if role else "PUBLIC"


def _run(connection: Connection, statement: str) -> None:
    connection.execute(statement.encode())
