"""Writes one partition of a stream: batches into a transaction, which is committed with its watermark at marks."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.errors import RowError
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.delete import delete_rows
from gauss.clients.postgres.load import Load, load
from gauss.clients.postgres.quote import qualified
from gauss.clients.postgres.watermarks import Row
from gauss.clients.postgres.write import PostgresTarget
from gauss.contracts.connector.commits import Commits
from gauss.contracts.connector.connector import partition_key
from gauss.contracts.connector.errors import FENCED, ConnectorError, fenced
from gauss.contracts.connector.host import Batch, Host, LogLevel, Mark, Opaque
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.progress import WriteSummary
from gauss.contracts.connector.stream import OPERATION, SyncMode
from gauss.plugins.connectors.postgres.catalog import COPY_KIND
from gauss.plugins.connectors.postgres.destination_changes import last_changes
from gauss.plugins.connectors.postgres.destination_copied import CopiedRows
from gauss.plugins.connectors.postgres.destination_errors import commit, destination_errors, row_error
from gauss.plugins.connectors.postgres.destination_table import StreamTable


class Writer:
    """Writes until the source has ended. A full refresh is one transaction into the staging table; other modes commit
    at every mark."""

    def __init__(self, connection: Connection, host: Host, table: StreamTable, how: Load, connect_secs: float) -> None:
        self._connection, self._host, self._table, self._how = connection, host, table, how
        self._partition = partition_key(host.partition)
        self._id = uuid.uuid4().hex
        self._target: PostgresTarget | None = None
        self._columns: dict[str, None] = {}
        self._held: Row | None = None
        self._done_by_other = self._starts_anew = False
        self._commits = Commits(host, table.stream.stream_name, connect_secs)

    def run(self) -> WriteSummary:
        with destination_errors():
            self._start()
            self._commits.run(self._write, self._commit, at_end=self._table.is_staged)
            self._end()
        return self._commits.end()

    def _start(self) -> None:
        """Looks whether this run, and this partition, is still to be written."""
        marks, generation = self._table.marks, self._host.generation
        if not marks.exist(self._connection):
            raise self._unprepared()
        self._check_fence("")
        self._held = marks.read(self._connection, self._partition)
        held = self._held
        self._done_by_other = bool(held and held.done and held.generation == generation and self._table.is_staged)
        self._starts_anew = held is not None and self._is_first_of_changes()

    def _is_first_of_changes(self) -> bool:
        """Whether a CDC stream without a cursor is kept by key: its first transaction is a whole snapshot."""
        stream = self._table.stream
        started = stream.cursor_info is not None and stream.cursor_info.last_value is not None
        return bool(self._table.key) and stream.sync_mode is SyncMode.CDC and not started

    def _check_fence(self, lock: str) -> None:
        """Raises ConnectorError if a newer run has begun. With a lock, none can begin before the transaction ends."""
        fence = self._table.marks.fence(self._connection, lock)
        if fence is None:
            raise self._unprepared()
        if fence[0] > self._host.generation:
            raise fenced(self._table.stream.stream_name, self._host.generation, fence[0])

    def _unprepared(self) -> ConnectorError:
        return ConnectorError.internal(
            "NOT_PREPARED", f"stream {self._table.stream.stream_name} was not prepared before it is written"
        )

    def _begin(self) -> PostgresTarget:
        """Begins a transaction, unless there is one, and locks the table so that its columns stay as they are."""
        if self._target is not None:
            return self._target
        generation = self._host.generation
        # Constraints that are checked at COMMIT could not be attributed to a row.
        self._connection.execute("BEGIN; SET CONSTRAINTS ALL IMMEDIATE")
        self._table.marks.enter(self._connection, generation)
        self._connection.execute(f"LOCK TABLE {self._table.sql} IN ROW EXCLUSIVE MODE".encode())
        if self._starts_anew:
            # Deletes since the last cursor are not in the snapshot.
            self._connection.execute(f"DELETE FROM {self._table.sql}".encode())
            self._starts_anew = False
        found = self._table.live(self._connection)
        types = {each.name: each.field_type for each in found.columns if not each.generated}
        staged = self._table.is_staged
        name = qualified(self._table.stage(generation), self._table.schema) if staged else self._table.sql
        self._target = PostgresTarget(name, types, () if staged else self._table.key)
        return self._target

    def _write(self, batch: Batch) -> None:
        rows, started = batch.rows, time.monotonic()
        if self._done_by_other:
            return
        target = self._begin()
        if isinstance(rows, Opaque):
            names = [name for name, _ in json.loads(rows.kind.removeprefix(COPY_KIND))]
            written = CopiedRows(self._connection, target, names, self._host).load(rows)
            size = len(rows.payload)
        else:
            applied = OPERATION in rows.schema.names and bool(target.key)
            names = self._known(rows.drop_columns([OPERATION]) if applied else rows, target)
            kept = self._with_key(rows)
            written = self._change(kept, target) if applied else self._load(kept, target)
            size = rows.nbytes
        self._columns |= dict.fromkeys(names)
        self._commits.wrote(written, size, started)

    def _known(self, rows: pa.RecordBatch, target: PostgresTarget) -> list[str]:
        names: list[str] = rows.schema.names
        if unknown := [name for name in names if name not in target.types]:
            raise ConnectorError.schema(
                "NO_COLUMN",
                f"the table {self._table.sql} has no column {', '.join(unknown)}",
                hint="start the sync again, which follows schema_evolution in policies",
            )
        return names

    def _with_key(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that have a key; the others would be written again by every run."""
        for name in self._table.key:
            if name not in rows.schema.names:
                raise ConnectorError.schema("NO_KEY", f"the rows have no column {name}, which belongs to the key")
            if not rows.column(name).null_count:
                continue
            missing = pc.is_null(rows.column(name))
            details = {"column": name, "reason": "null"}
            error = ConnectorError.data("NULL", f"column {name}: null, but it belongs to the key", details=details)
            for place in pc.indices_nonzero(missing).to_pylist():
                self._host.reject(rows.slice(place, 1), error)
            rows = rows.filter(pc.invert(missing))
        return rows

    def _change(self, rows: pa.RecordBatch, target: PostgresTarget) -> int:
        """Applies changes; returns how many, those that a later one has replaced included."""
        if not rows.num_rows:
            return 0
        last = last_changes(rows, target.key, target.types)
        replaced = int(rows.num_rows - last.deleted.num_rows - last.written.num_rows)
        gone = self._halved(last.deleted, lambda keys: delete_rows(self._connection, target, keys, self._how))
        return replaced + gone + self._load(last.written, target)

    def _load(self, rows: pa.RecordBatch, target: PostgresTarget) -> int:
        return self._halved(rows, lambda part: load(self._connection, target, part, self._how))

    def _halved(self, rows: pa.RecordBatch, write: Callable[[pa.RecordBatch], None]) -> int:
        """Writes rows; those that the table refuses are found by halving, and rejected one by one."""
        if not rows.num_rows:
            return 0
        try:
            with self._connection.transaction():  # a savepoint
                write(rows)
            return int(rows.num_rows)
        except (psycopg.Error, RowError) as error:
            refused = row_error(error)
            if refused is None:
                raise
        if rows.num_rows == 1:
            self._host.reject(rows, refused)
            return 0
        middle = rows.num_rows // 2
        return self._halved(rows.slice(0, middle), write) + self._halved(rows.slice(middle), write)

    def _commit(self, mark: Mark) -> None:
        if self._done_by_other:
            return
        connection, marks, generation = self._connection, self._table.marks, self._host.generation
        self._begin()
        self._check_fence("SHARE")
        cursor = None if mark.cursor is None else encode(mark.cursor).decode()
        row = Row(generation, mark.id, cursor, mark.final, list(self._columns), self._id)
        self._target = None
        if not marks.record(connection, self._partition, row, self._held):
            connection.execute("ROLLBACK")
            self._taken(marks.read(connection, self._partition))
            return
        commit(connection)
        self._held = row

    def _taken(self, found: Row | None) -> None:
        """Another attempt at this partition has committed: if it has written all of it, this one has nothing to do."""
        if found and found.done and found.generation == self._host.generation and self._table.is_staged:
            self._done_by_other = True
            self._commits.discard()
            self._host.log(LogLevel.INFO, "another attempt has written this partition already")
            return
        newest = found.generation if found else 0
        if newest > self._host.generation:
            raise fenced(self._table.stream.stream_name, self._host.generation, newest)
        raise ConnectorError.internal(
            FENCED,
            f"another attempt at stream {self._table.stream.stream_name} has committed meanwhile",
            hint="this attempt must stop; the other one continues",
        )

    def _end(self) -> None:
        """Handles rows behind the last mark."""
        if self._target is None:
            return
        self._connection.execute("ROLLBACK")
        self._target = None
        self._commits.check_end()
