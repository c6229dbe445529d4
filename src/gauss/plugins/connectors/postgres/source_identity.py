"""Whether changes of a table can be captured, and by which columns its rows are identified."""

from __future__ import annotations

from typing import NamedTuple

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.publication import GENERATED_VERSION, ROOT_VERSION, PublishedTable
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import StreamContext, Upsert
from gauss.plugins.connectors.postgres.catalog import VIEWS, Relation

# The replica identity is that of the tables that hold the rows: of a partitioned table, its partitions.
_TABLE = """
WITH RECURSIVE tree AS (
  SELECT %(oid)s::oid AS oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
)
SELECT c.relpersistence::text,
    (SELECT coalesce(array_agg(DISTINCT l.relreplident::text), ARRAY[c.relreplident::text])
     FROM tree t JOIN pg_class l ON l.oid = t.oid WHERE l.relkind = 'r'),
    ARRAY(SELECT a.attname::text FROM pg_index i
          CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
          WHERE i.indrelid = c.oid AND i.indisreplident ORDER BY k.place),
    ARRAY(SELECT l.oid::regclass::text FROM tree t JOIN pg_class l ON l.oid = t.oid
          WHERE l.relkind = 'r' AND l.relreplident = 'd' AND NOT %(key)s::text[] <@ ARRAY(
              SELECT a.attname::text FROM pg_index i
              JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
              WHERE i.indrelid = l.oid AND i.indisprimary)),
    ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attgenerated = 's' AND NOT attisdropped),
    ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attgenerated = 'v' AND NOT attisdropped)
FROM pg_class c WHERE c.oid = %(oid)s::oid
"""
_DEFAULT, _FULL, _INDEX = "d", "f", "i"


class CapturedTable(NamedTuple):
    """A table whose changes can be captured."""

    relation: Relation
    """With the columns that changes have."""
    published: PublishedTable
    identity: tuple[str, ...]
    """The columns that identify a row in changes; empty: all of them (REPLICA IDENTITY FULL)."""


def captured(connection: Connection, relation: Relation, *, projected: bool) -> CapturedTable:
    """How changes of a table are captured; raises ConnectorError if they can't be. `projected`: whether the config
    names its columns."""
    version = connection.info.server_version
    if relation.kind in VIEWS:
        raise ConnectorError.config("NO_CDC", f"{relation.name} is no table: its changes can't be captured")
    if relation.kind == "p" and version < ROOT_VERSION:
        raise ConnectorError.config("NO_CDC", f"{relation.name} is partitioned, which needs Postgres 13 for CDC")
    row = connection.execute(_TABLE, {"oid": relation.oid, "key": list(relation.key)}).fetchone()
    if row is None:
        raise ConnectorError.config("NO_STREAM", f"{relation.name} was dropped just now")
    persistence, identities, index, unkeyed, stored, virtual = row
    if persistence != "p":
        raise ConnectorError.config(
            "NO_CDC", f"{relation.name} is unlogged or temporary: its changes are not in the WAL", hint="SET LOGGED"
        )
    unpublished = {*virtual, *([] if version >= GENERATED_VERSION else stored)}
    names = [column.name for column in relation.columns]
    if projected and (missing := [name for name in names if name in unpublished]):
        raise ConnectorError.config(
            "NOT_PUBLISHED",
            f"{relation.name}: Postgres sends no changes of the generated column {', '.join(missing)}",
            hint="remove it from `columns`",
        )
    kept = relation.projected([name for name in names if name not in unpublished])
    generated = version >= GENERATED_VERSION and bool(stored)
    published = PublishedTable(relation.oid, relation.name.sql, relation.kind == "p", generated)
    identity = _identity(relation, set(identities), tuple(index))
    if unkeyed:  # the server would refuse their updates and deletes as soon as they are published
        raise ConnectorError.config(
            "NO_IDENTITY",
            f"{relation.name} has children without the primary key ({', '.join(relation.key)}): {', '.join(unkeyed)}",
            hint=f"ALTER TABLE {unkeyed[0]} ADD PRIMARY KEY (…), or ALTER TABLE {unkeyed[0]} REPLICA IDENTITY FULL",
        )
    return CapturedTable(kept, published, identity)


def _identity(relation: Relation, identities: set[str], index: tuple[str, ...]) -> tuple[str, ...]:
    if identities == {_FULL}:
        return ()
    if identities == {_INDEX} and index:
        return index
    if identities <= {_DEFAULT, _FULL} and relation.key:
        return relation.key
    found = "no primary key" if _DEFAULT in identities and not relation.key else "a replica identity without one"
    raise ConnectorError.config(
        "NO_IDENTITY",
        f"{relation.name} has {found}: its updates and deletes would not say which row they change",
        hint=f"ALTER TABLE {relation.name.sql} ADD PRIMARY KEY (…), or ALTER TABLE {relation.name.sql}"
        " REPLICA IDENTITY FULL",
    )


def lookup_key(table: CapturedTable) -> tuple[str, ...]:
    """The columns by which a row can be looked up; empty if there are none that are read."""
    names, key = {column.name for column in table.relation.columns}, table.identity or table.relation.key
    return key if names.issuperset(key) else ()


def change_key(table: CapturedTable, stream: StreamContext) -> tuple[str, ...]:
    """The columns that a delete has values of: the key of an upsert, else the primary key or what identifies a row.
    Raises ConnectorError if changes, or the stream, do not have them."""
    relation, names = table.relation, [column.name for column in table.relation.columns]
    if isinstance(stream.write_mode, Upsert):
        key = tuple(stream.write_mode.primary_key)
    else:
        key = table.identity or relation.key or tuple(names)
    if table.identity and not set(key) <= set(table.identity):
        raise ConnectorError.config(
            "BAD_KEY",
            f"{relation.name}: the key ({', '.join(key)}) is not in its deletes: they have"
            f" ({', '.join(table.identity)})",
            hint=f"set key to these columns, or ALTER TABLE {relation.name.sql} REPLICA IDENTITY FULL",
        )
    if missing := [name for name in (*key, *table.identity) if name not in names]:
        raise ConnectorError.config(
            "NO_KEY_COLUMN",
            f"{relation.name}: {', '.join(dict.fromkeys(missing))} identifies a row, but is not read",
            hint="add it to `columns`, and GRANT SELECT on it to the user",
        )
    return key
