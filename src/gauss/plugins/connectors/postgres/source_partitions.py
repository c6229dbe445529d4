"""Parts of a table that several connections read at one snapshot: ranges of its pages (`ctid`)."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg.errors
import psycopg.sql

from gauss.clients.postgres.connect import Connection
from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.postgres.catalog import VIEWS, Relation

TID_RANGE_VERSION = 140_000
"""Older servers read the whole table for every range."""
# Of the table, or of its partitions and children; their ranges of pages are the same.
_PAGES = """
WITH RECURSIVE tree AS (
  SELECT %s::oid AS oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
)
SELECT coalesce(sum(pages), 0)::bigint, coalesce(max(pages), 0)::bigint, bool_and(is_heap) FROM (
  SELECT CASE WHEN c.relkind = 'r' THEN pg_relation_size(c.oid) / current_setting('block_size')::bigint ELSE 0 END
           AS pages,
         c.relkind = 'p' OR coalesce(a.amname = 'heap', false) AS is_heap
  FROM tree t JOIN pg_class c ON c.oid = t.oid LEFT JOIN pg_am a ON a.oid = c.relam
) AS sizes
"""


class Part(msgspec.Struct, frozen=True):
    """Pages `first` up to `stop`, excluding it, of a table at a snapshot."""

    snapshot: str
    first: int
    stop: int | None
    """None: to the end."""

    @property
    def where(self) -> str:
        parts = [f"ctid >= '({self.first},0)'::tid"] if self.first else []
        parts += [f"ctid < '({self.stop},0)'::tid"] if self.stop is not None else []
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    @classmethod
    def from_json(cls, value: Any) -> Part:
        """A part that `plan_parts` has returned; raises ConnectorError."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ConnectorError.internal("BAD_PARTITION", f"this is no part of a table: {error}") from error


def plan_parts(connection: Connection, relation: Relation, count: int, part_bytes: int) -> list[Any]:
    """About `count` parts as JSON, at a snapshot that lives as long as the transaction of this connection. `[None]` if
    the relation can't be divided, or is too small."""
    if count < 2 or relation.kind in VIEWS or connection.info.server_version < TID_RANGE_VERSION:
        return [None]
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    # Holds a lock to the end: a VACUUM FULL or CLUSTER would move rows between pages while they are read.
    columns = ", ".join(column.sql for column in relation.columns)
    connection.execute(f"SELECT {columns} FROM {relation.name.sql} LIMIT 0".encode())
    found = connection.execute(_PAGES, [relation.oid]).fetchone()
    assert found is not None
    pages, longest, is_heap = found
    size = connection.execute("SELECT current_setting('block_size')::bigint").fetchone()
    count = min(count, longest, pages * (size[0] if size else 8192) // part_bytes)
    if not is_heap or count < 2:
        connection.execute("ROLLBACK")
        return [None]
    exported = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert exported is not None
    bounds = [longest * number // count for number in range(count)]
    ends = [*bounds[1:], None]
    return [msgspec.to_builtins(Part(exported[0], first, stop)) for first, stop in zip(bounds, ends, strict=True)]


def begin_part(connection: Connection, part: Part) -> None:
    """Begins a transaction at the snapshot of a part; raises ConnectorError if it is gone."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        name = psycopg.sql.Literal(part.snapshot).as_string(connection)
        connection.execute(f"SET TRANSACTION SNAPSHOT {name}".encode())
    except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue) as error:
        raise ConnectorError.transient_db(
            "SNAPSHOT_GONE",
            f'the snapshot "{part.snapshot}" of this part is gone: the connection that exported it has ended',
            hint="plan the parts of the stream again",
        ) from error
