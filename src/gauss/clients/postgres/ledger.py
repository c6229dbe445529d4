"""The ledger in Postgres: the offset ranges that processors have written and their current generations. It is updated
in the same transactions as the data."""

from __future__ import annotations

from dataclasses import dataclass

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.errors import sorted_errors
from gauss.model.errors import Fenced

_CREATE = """
CREATE TABLE IF NOT EXISTS _gauss_writers (
    processor text PRIMARY KEY,
    generation bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS _gauss_ledger (
    processor text NOT NULL,
    inc bigint NOT NULL,
    start bigint NOT NULL,
    stop bigint NOT NULL,
    generation bigint NOT NULL,
    epoch bigint NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (processor, inc, start, stop)
)
"""
_LOCK = 0x6761757373  # a number that only Gauss uses: two processes may create the tables at once


@dataclass(frozen=True)
class Mark:
    """The range that a transaction writes: offsets [start, stop) of an incarnation, by a generation of a processor."""

    processor: str
    generation: int
    epoch: int
    inc: int
    start: int
    stop: int
    settled: int = 0
    """Offsets below it are committed at the engine, so the ledger may drop them."""


def prepare(connection: Connection) -> None:
    """Creates the ledger's tables in the connection's schema."""
    with sorted_errors(), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute(_CREATE)


def claim(connection: Connection, processor: str, generation: int) -> None:
    """Fences all lower generations; waits for their running transactions."""
    with sorted_errors(), connection.transaction():
        _claim(connection, processor, generation)


def _claim(connection: Connection, processor: str, generation: int) -> None:
    row = connection.execute(
        "INSERT INTO _gauss_writers AS held VALUES (%s, %s) ON CONFLICT (processor) "
        "DO UPDATE SET generation = greatest(held.generation, EXCLUDED.generation) RETURNING generation",
        [processor, generation],
    ).fetchone()
    if row and row[0] > generation:
        raise Fenced(f"generation {generation} of {processor} was replaced by {row[0]}", hint="this writer must stop")


def admit(connection: Connection, mark: Mark) -> list[tuple[int, int]]:
    """The parts of a mark's range that are already written; raises Fenced if a newer generation exists."""
    row = connection.execute(
        "SELECT generation FROM _gauss_writers WHERE processor = %s FOR SHARE", [mark.processor]
    ).fetchone()
    if row is None or row[0] != mark.generation:
        _claim(connection, mark.processor, mark.generation)
    found = connection.execute(
        "SELECT start, stop FROM _gauss_ledger WHERE processor = %s AND inc = %s AND start < %s AND stop > %s",
        [mark.processor, mark.inc, mark.stop, mark.start],
    ).fetchall()
    return [(start, stop) for start, stop in found]


def forget(connection: Connection, mark: Mark) -> None:
    """Deletes the entries of a mark's range; the rows of the table decide instead."""
    connection.execute(
        "DELETE FROM _gauss_ledger WHERE processor = %s AND inc = %s AND start < %s AND stop > %s",
        [mark.processor, mark.inc, mark.stop, mark.start],
    )


def record(connection: Connection, mark: Mark) -> None:
    """Records the range and deletes settled entries."""
    connection.execute(
        "INSERT INTO _gauss_ledger (processor, inc, start, stop, generation, epoch) VALUES (%s, %s, %s, %s, %s, %s) "
        "ON CONFLICT DO NOTHING",
        [mark.processor, mark.inc, mark.start, mark.stop, mark.generation, mark.epoch],
    )
    if mark.settled:
        connection.execute(
            "DELETE FROM _gauss_ledger WHERE processor = %s AND inc = %s AND stop <= %s",
            [mark.processor, mark.inc, min(mark.settled, mark.start)],
        )
