"""What syncs have committed, in the schema of their tables: a watermark per partition, written in the transaction of
the data, and a fence per stream, which holds the generation of the newest run."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.quote import qualified

WATERMARKS, FENCES = "_gauss_watermarks", "_gauss_fences"
_LOCK = 0x6761757373  # as in `ledger`: two processes may create the tables at once
_CREATE = """
CREATE TABLE IF NOT EXISTS {fences} (
    sync text NOT NULL,
    stream text NOT NULL,
    generation bigint NOT NULL,
    finished bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (sync, stream)
);
CREATE TABLE IF NOT EXISTS {marks} (
    sync text NOT NULL,
    stream text NOT NULL,
    partition text NOT NULL,
    generation bigint NOT NULL,
    id bigint NOT NULL,
    cursor json,
    done boolean NOT NULL,
    columns text[] NOT NULL,
    writer text NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sync, stream, partition)
)
"""
_CLAIM = """
INSERT INTO {fences} AS held (sync, stream, generation) VALUES (%s, %s, %s) ON CONFLICT (sync, stream)
DO UPDATE SET generation = greatest(held.generation, EXCLUDED.generation) RETURNING generation
"""
_RECORD = """
INSERT INTO {marks} AS held (sync, stream, partition, generation, id, cursor, done, columns, writer)
VALUES (%(sync)s, %(stream)s, %(partition)s, %(generation)s, %(id)s, %(cursor)s::json, %(done)s, %(columns)s::text[],
    %(writer)s)
ON CONFLICT (sync, stream, partition) DO UPDATE SET generation = EXCLUDED.generation, id = EXCLUDED.id,
    cursor = EXCLUDED.cursor, done = EXCLUDED.done, columns = EXCLUDED.columns,
    writer = EXCLUDED.writer, written_at = now()
WHERE (held.generation, held.id, held.done, held.writer)
    = (%(held_generation)s::bigint, %(held_id)s::bigint, %(held_done)s::boolean, %(held_writer)s::text)
RETURNING 1
"""
# A lock has the last 32 bits of a generation: it is older if it lies less than half of their range behind.
_END_OLDER = """
SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = %s::bigint::oid
    AND (%s::bigint - l.objid::bigint + 4294967296) %% 4294967296 BETWEEN 1 AND 2147483647
    AND a.datname = current_database() AND a.usename = current_user AND l.pid <> pg_backend_pid()
"""


class Row(NamedTuple):
    """A stored watermark."""

    generation: int
    id: int
    cursor: str | None
    """JSON, as it was given."""
    done: bool
    columns: list[str]
    """What the rows had values for."""
    writer: str
    """Of the instance that wrote it: two attempts at a partition have the same generation."""


class Watermarks:
    """The watermarks of one stream of a sync. The caller owns connection and transaction."""

    def __init__(self, schema: str, sync: str, stream: str) -> None:
        names = {"marks": qualified(WATERMARKS, schema), "fences": qualified(FENCES, schema)}
        # Percent signs of the schema's name are no parameters.
        escaped = {key: name.replace("%", "%%") for key, name in names.items()}
        self._marks, self._fences = escaped["marks"], escaped["fences"]
        self._create = _CREATE.format(**names).encode()
        self._claim, self._record = _CLAIM.format(**escaped).encode(), _RECORD.format(**escaped).encode()
        self._names, self._which = names, (sync, stream)
        digest = hashlib.sha256(f"{len(sync)} {sync}{stream}".encode(errors="surrogatepass")).digest()
        self.short = digest.hex()[:16]
        """A name of the stream for other objects that belong to it."""
        # Locks belong to the whole database: syncs of one name may write to several of its schemas.
        locked = hashlib.sha256(digest + schema.encode(errors="surrogatepass")).digest()
        self._class = int.from_bytes(locked[:4], "big", signed=True)

    def create(self, connection: Connection) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute(self._create)

    def exist(self, connection: Connection) -> bool:
        found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [self._names["marks"]]).fetchone()
        return bool(found and found[0])

    def claim(self, connection: Connection, generation: int) -> int:
        """Raises the fence to a generation and returns the largest one that was ever claimed."""
        row = connection.execute(self._claim, [*self._which, generation]).fetchone()
        assert row is not None
        return int(row[0])

    def enter(self, connection: Connection, generation: int) -> None:
        """Marks the transaction as one of a generation, so that `end_older` finds it."""
        signed = (generation + 2**31) % 2**32 - 2**31
        connection.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", [self._class, signed])

    def end_older(self, connection: Connection, generation: int) -> None:
        """Ends the open transactions of smaller generations, whose locks would stop this one."""
        connection.execute(_END_OLDER, [self._class % 2**32, generation % 2**32])

    def fence(self, connection: Connection, lock: str) -> tuple[int, int] | None:
        """The newest generation and the last one that was finished; None if the stream was never prepared. `lock`:
        `SHARE` or `UPDATE`, until the transaction ends, or nothing."""
        row = connection.execute(
            f"SELECT generation, finished FROM {self._fences} WHERE (sync, stream) = (%s, %s)"
            f"{' FOR ' if lock else ''}{lock}".encode(),
            self._which,
        ).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def finish(self, connection: Connection, generation: int) -> None:
        """Notes that a generation is visible, and forgets the watermarks of earlier ones."""
        connection.execute(
            f"UPDATE {self._fences} SET finished = %s WHERE (sync, stream) = (%s, %s)".encode(),
            [generation, *self._which],
        )
        connection.execute(
            f"DELETE FROM {self._marks} WHERE (sync, stream) = (%s, %s) AND generation < %s".encode(),
            [*self._which, generation],
        )

    def read(self, connection: Connection, partition: str) -> Row | None:
        row = connection.execute(
            f"SELECT generation, id, cursor::text, done, columns, writer FROM {self._marks}"
            " WHERE (sync, stream, partition) = (%s, %s, %s)".encode(),
            [*self._which, partition],
        ).fetchone()
        return None if row is None else Row(*row)

    def columns(self, connection: Connection, generation: int) -> set[str]:
        """What the rows of a run had values for, in all partitions."""
        rows = connection.execute(
            f"SELECT unnest(columns) FROM {self._marks} WHERE (sync, stream) = (%s, %s) AND generation = %s".encode(),
            [*self._which, generation],
        ).fetchall()
        return {name for (name,) in rows}

    def record(self, connection: Connection, partition: str, row: Row, held: Row | None) -> bool:
        """Stores a watermark if the stored one is `held`; returns whether it was."""
        sync, stream = self._which
        given = {"sync": sync, "stream": stream, "partition": partition, **row._asdict()}
        given |= {f"held_{name}": getattr(held, name, None) for name in ("generation", "id", "done", "writer")}
        return connection.execute(self._record, given).fetchone() is not None
