"""Publications of one table each, for logical replication."""

from __future__ import annotations

from typing import NamedTuple

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.quote import identifier

ROOT_VERSION, GENERATED_VERSION = 130_000, 180_000
"""The first servers that publish partitioned tables, and stored generated columns."""
_FOUND = """
WITH RECURSIVE tree AS (
  SELECT %(oid)s::oid AS oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
)
SELECT coalesce(r.oid, 0)::bigint,
    r.oid IS NOT NULL AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
    AND to_jsonb(r) ->> 'prqual' IS NULL AND to_jsonb(r) ->> 'prattrs' IS NULL
    AND (NOT %(root)s OR to_jsonb(p) ->> 'pubviaroot' = 'false')
    AND (NOT %(generated)s OR to_jsonb(p) ->> 'pubgencols' = 's')
    AND (%(root)s OR NOT EXISTS (
        SELECT FROM tree t JOIN pg_class c ON c.oid = t.oid AND c.relkind = 'r' AND c.relpersistence = 'p'
        WHERE NOT EXISTS (SELECT FROM pg_publication_rel o WHERE o.prpubid = p.oid AND o.prrelid = t.oid)))
    AND NOT EXISTS (
        SELECT FROM pg_publication_rel o WHERE o.prpubid = p.oid AND o.prrelid NOT IN (SELECT oid FROM tree))
FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = %(oid)s::oid
WHERE p.pubname = %(name)s
"""


class PublishedTable(NamedTuple):
    """A table that is to be published whole."""

    oid: int
    sql: str
    """The quoted name."""
    partitioned: bool
    generated: bool
    """Whether it has stored generated columns that the server can publish."""


class Publication(NamedTuple):
    """A publication that exists."""

    entry: int
    """The oid of the table's entry: another one if the publication, the table or its entry was made anew. 0: the
    publication does not have the table."""
    fits: bool
    """Whether it publishes all changes of the table and of its children, and nothing else."""


def find_publication(connection: Connection, name: str, table: PublishedTable) -> Publication | None:
    given = {"oid": table.oid, "root": table.partitioned, "generated": table.generated, "name": name}
    row = connection.execute(_FOUND, given).fetchone()
    return None if row is None else Publication(int(row[0]), bool(row[1]))


def publication_ddl(name: str, table: PublishedTable) -> str:
    """The statement that creates the publication."""
    options = ["publish = 'insert, update, delete, truncate'"]
    # In the name of the root, a TRUNCATE of a single partition would not be sent.
    options += ["publish_via_partition_root = false"] if table.partitioned else []
    options += ["publish_generated_columns = stored"] if table.generated else []
    return f"CREATE PUBLICATION {identifier(name)} FOR TABLE {table.sql} WITH ({', '.join(options)})"


def make_publication(connection: Connection, name: str, table: PublishedTable) -> None:
    """Creates the publication, in the place of one that exists."""
    with connection.transaction():
        connection.execute(f"DROP PUBLICATION IF EXISTS {identifier(name)}".encode())
        connection.execute(publication_ddl(name, table).encode())
