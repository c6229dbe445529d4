"""Writes one partition of a stream.

Appended rows go to a staging table until the source's next mark. Then an entry of the log names the staging table and
the cursor behind its rows: that entry is the commit. Publishing the rows and dropping the staging table follow. A kill

- before the entry leaves a staging table that nobody names: the next run drops it and reads its rows again;
- after the entry leaves a staging table that the log names: the next run publishes what is not yet published
  (`clients/clickhouse/publish.py`) before it reads on from the entry's cursor.

So no kill loses or doubles a row. A full refresh commits one staging table per partition, which `finish` publishes.
Upserts need no staging table: a row that is written again has a larger version, and replaces itself.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.clients.clickhouse.arrow_columns import sendable, unsafe_columns
from gauss.clients.clickhouse.publish import plan_publishing, publish
from gauss.clients.clickhouse.quote import qualified
from gauss.clients.clickhouse.stages import TargetTable, count_rows, create_stage, create_twin, drop_tables
from gauss.clients.clickhouse.sync_log import Entry, EntryKind, Publishing, SyncState
from gauss.clients.clickhouse.write import ClickHouseTarget, insert
from gauss.clients.errors import RowError
from gauss.contracts.connector.commits import Commits
from gauss.contracts.connector.connector import partition_key
from gauss.contracts.connector.errors import FENCED, ConnectorError
from gauss.contracts.connector.host import Batch, Host, LogLevel, Mark
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.progress import WriteSummary
from gauss.contracts.connector.stream import OPERATION
from gauss.plugins.connectors.clickhouse.destination_errors import (
    check_run,
    committed,
    committing,
    destination_errors,
    row_error,
)
from gauss.plugins.connectors.clickhouse.destination_table import StreamTable, written_types
from gauss.plugins.connectors.clickhouse.destination_versions import keyed_rows, versioned, without_values

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


class Writer:
    """Writes until the source has ended. A full refresh commits at its end, other modes at every mark."""

    def __init__(self, client: Client, host: Host, table: StreamTable, connect_secs: float) -> None:
        self._client, self._host, self._table = client, host, table
        self._partition = partition_key(host.partition)
        self._state = SyncState()
        self._stage = ""
        self._staged = 0
        self._target: TargetTable | None = None
        self._types: ClickHouseTarget | None = None
        self._checked: pa.Schema | None = None
        self._done_by_other = False
        self._commits = Commits(host, table.stream.stream_name, connect_secs)

    def run(self) -> WriteSummary:
        with destination_errors():
            self._start()
            self._commits.run(self._write, self._commit, at_end=self._table.is_staged)
            self._commits.check_end()
        return self._commits.end()

    def _start(self) -> None:
        """Looks whether this run, and this partition, is still to be written."""
        log, generation = self._table.log, self._host.generation
        if log.exists(self._client):
            log.replay(self._client, self._state)
        check_run(self._table.stream.stream_name, generation, self._state.generation)
        self._done_by_other = self._is_done()

    def _is_done(self) -> bool:
        """Whether the partition of a full refresh was written by another attempt of this run."""
        head = self._state.heads.get(self._partition)
        return bool(self._table.is_staged and head and head.done and self._state.is_current(head))

    def _begin(self) -> ClickHouseTarget:
        """Where rows go: a staging table, which is created, or the table itself."""
        if self._types is not None:
            return self._types
        found = self._table.live(self._client)
        types = written_types(found)
        target = TargetTable(self._table.database, self._table.name, list(types))
        name = self._table.sql
        if not self._table.key:
            self._stage, self._staged = self._table.new_stage(self._host.generation), 0
            create = create_twin if self._table.replaces else create_stage
            create(self._client, target, self._stage)
            name = qualified(self._stage, self._table.database)
        self._target, self._types = target, ClickHouseTarget(name, types)
        return self._types

    def _write(self, batch: Batch) -> None:
        started, rows = time.monotonic(), batch.rows
        if self._done_by_other:
            return
        assert isinstance(rows, pa.RecordBatch)
        size = rows.nbytes
        target = self._begin()
        self._check(rows.schema, target)
        if not self._table.key:
            written = self._load(rows, target, batch.id)
        else:
            rows = keyed_rows(rows, self._table.key, self._host)
            parts = without_values(rows, self._table.key)
            replaced = rows.num_rows - sum(part.num_rows for part in parts)
            written = replaced + sum(self._load(part, target, batch.id) for part in parts)
        self._staged += written
        self._commits.wrote(written, size, started)

    def _check(self, schema: pa.Schema, target: ClickHouseTarget) -> None:
        """Raises ConnectorError if rows of a schema can't be written to the table."""
        if schema == self._checked:
            return
        own = {OPERATION} if self._table.key else set()
        if unknown := [name for name in schema.names if name not in target.types and name not in own]:
            raise ConnectorError.schema(
                "NO_COLUMN",
                f"the table {self._table.sql} has no column {', '.join(unknown)}",
                hint="start the sync again, which follows schema_evolution in policies",
            )
        known = pa.schema([each for each in schema if each.name in target.types])
        if unsafe := unsafe_columns(known, target.types):
            raise ConnectorError.schema(
                "SILENT_NULL",
                f"the table {self._table.sql}: ClickHouse would store null for a text that is no value of column"
                f" {', '.join(unsafe)}",
                hint="make the column String, or not Nullable",
            )
        self._checked = schema

    def _load(self, rows: pa.RecordBatch, target: ClickHouseTarget, batch: int) -> int:
        """Inserts rows; those that the table refuses are found by halving, and rejected one by one."""
        if not rows.num_rows:
            return 0
        try:
            sent = versioned(rows, self._state.number, batch) if self._table.key else rows
            insert(self._client, target, sendable(sent, target.types), token=uuid.uuid4().hex)
            return int(rows.num_rows)
        except RowError as error:
            if rows.num_rows == 1:
                self._host.reject(rows, row_error(error))
                return 0
        middle = rows.num_rows // 2
        return self._load(rows.slice(0, middle), target, batch) + self._load(rows.slice(middle), target, batch)

    def _commit(self, mark: Mark) -> None:
        if self._done_by_other:
            return
        client, table, stage = self._client, self._table, self._stage
        publishing = self._publishing()
        head = self._state.heads.get(self._partition)
        entry = Entry(
            EntryKind.STAGE if table.is_staged else EntryKind.COMMIT,
            self._host.generation,
            self._partition,
            mark.id,
            None if mark.cursor is None else encode(mark.cursor).decode(),
            mark.final,
            head.block if head is not None else 0,
            publishing,
        )
        with committing():
            counts = table.log.append(client, entry, self._state)
        self._stage, self._staged, self._types = "", 0, None
        if not counts:
            self._taken(stage)
        elif publishing.stages and not table.is_staged:
            assert self._target is not None
            with committed():
                publish(client, self._target, publishing)

    def _publishing(self) -> Publishing:
        """What the staging table holds; raises ConnectorError if it is not what was written to it."""
        if not self._stage:
            return Publishing()
        found = count_rows(self._client, self._table.database, [self._stage])
        if found != self._staged:
            raise ConnectorError.transient_db(
                "INCOMPLETE_STAGE",
                f"the staging table {self._stage} has {found} rows, expected {self._staged}",
                hint="the rows are read and written again",
            )
        if self._table.is_staged:
            return Publishing([self._stage], self._staged)
        assert self._target is not None
        return plan_publishing(self._client, self._target, [self._stage], self._staged)

    def _taken(self, stage: str) -> None:
        """Another attempt at this partition has committed: if it has written all of it, this one has nothing to do."""
        if stage:
            drop_tables(self._client, self._table.database, [stage])
        generation, name = self._host.generation, self._table.stream.stream_name
        check_run(name, generation, self._state.generation)
        if self._is_done():
            self._done_by_other = True
            self._commits.discard()
            self._host.log(LogLevel.INFO, "another attempt has written this partition already")
            return
        raise ConnectorError.internal(
            FENCED,
            f"another attempt at stream {name} has committed meanwhile",
            hint="this attempt must stop; the other one continues",
        )
