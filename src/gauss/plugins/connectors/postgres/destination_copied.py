"""Rows in the binary form of COPY, which a Postgres source has passed on as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.copy_rows import split_rows
from gauss.clients.postgres.ddl import names_list
from gauss.clients.postgres.load import load_copied
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.write import PostgresTarget
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host, Opaque
from gauss.plugins.connectors.postgres.destination_errors import row_error

_ALONE = "_gauss_alone"


@dataclass(frozen=True)
class CopiedRows:
    """Loads such rows into a table; the caller owns the transaction."""

    connection: Connection
    target: PostgresTarget
    names: Sequence[str]
    host: Host

    def load(self, rows: Opaque) -> int:
        """Loads rows and returns how many; those that the table refuses are found by halving, and rejected as text."""
        if rows.kind != self.host.opaque:
            expected = self.host.opaque or "Arrow"
            raise ConnectorError.internal("OTHER_KIND", f"expected rows of {expected}, found {rows.kind}")
        refused = self._load(rows.payload)
        return rows.rows if refused is None else self._halves(rows.payload, list(split_rows(rows.payload)), refused)

    def _load(self, payload: bytes) -> ConnectorError | None:
        """Loads rows; the error if the table refuses one of them."""
        try:
            with self.connection.transaction():  # a savepoint
                load_copied(self.connection, self.target, self.names, payload)
            return None
        except psycopg.Error as error:
            refused = row_error(error)
            if refused is None:
                raise
            return refused

    def _halves(self, payload: bytes, places: list[int], refused: ConnectorError) -> int:
        """Loads the two halves of rows that were refused together; `places`: where the rows start, and the end."""
        count = len(places) - 1
        if count == 1:
            self.host.reject(self._as_text(payload[places[0] : places[1]]), refused)
            return 0
        written, middle = 0, count // 2
        for part in (places[: middle + 1], places[middle:]):
            error = self._load(payload[part[0] : part[-1]])
            written += len(part) - 1 if error is None else self._halves(payload, part, error)
        return written

    def _as_text(self, row: bytes) -> pa.RecordBatch:
        """One row as text, decoded by the server in a table without the constraints of the target."""
        names = names_list(self.names)
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(
                f"CREATE TEMP TABLE {_ALONE} AS SELECT {names} FROM {self.target.name} WITH NO DATA".encode()
            )
            alone = PostgresTarget(f"pg_temp.{_ALONE}", self.target.types)
            load_copied(self.connection, alone, self.names, row)
            columns = ", ".join(f"{identifier(name)}::text" for name in self.names)
            found = self.connection.execute(f"SELECT {columns} FROM pg_temp.{_ALONE}".encode()).fetchone()
        assert found is not None
        return pa.record_batch([pa.array([value], pa.string()) for value in found], names=list(self.names))
