"""Change data capture by logical replication: a snapshot of the table, then its changes.

The first run creates a slot, which exports a snapshot, and reads the table at it. Its only checkpoint is at the end: a
snapshot lives as long as its connection, so that an unfinished one can't be resumed without a gap or duplicates. The
next run then drops the slot and starts again; a destination that commits at checkpoints has kept nothing of it.

Every run then peeks at the changes up to the end of the WAL at its start (or at the end of the snapshot), and never
confirms more than the destination has committed: the cursor that it starts from, and those of its own checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.replication import connect_replication, create_slot, peek_query, wal_end
from gauss.contracts.connector.emitter import Emitter
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.stream import Operation, StreamContext
from gauss.plugins.connectors.postgres.catalog import Relation, select_rows
from gauss.plugins.connectors.postgres.source_changes import ChangeReader, ChangeSchema
from gauss.plugins.connectors.postgres.source_chunk import Chunk, cut
from gauss.plugins.connectors.postgres.source_identity import CapturedTable, change_key, lookup_key
from gauss.plugins.connectors.postgres.source_partitions import Part, begin_part
from gauss.plugins.connectors.postgres.source_read import ChunkSize, Stop, chunks
from gauss.plugins.connectors.postgres.source_slot import StreamSlot
from gauss.plugins.connectors.postgres.source_toast import ToastLookup
from gauss.plugins.processors.pg_source.copy_stream import copy_rows

PEEK_CHANGES = 1_000_000
"""Messages after which a peek ends with the transaction: the server keeps its result until it is read."""
COMMIT_WAIT_S = 10.0
"""How long a run with more changes waits for the destination, before it peeks at the same changes again."""
FOLLOW_S = 0.2
"""How long a run that follows waits before it looks at the WAL again."""
IDLE_WAL_BYTES = 16 << 20
"""A run that follows confirms so much WAL without changes of its table, so that the server can remove it."""
_PAUSE_S = 0.01


@dataclass(frozen=True)
class ChangeCapture:
    """One run of a stream of changes."""

    emitter: Emitter
    stop: Stop
    connect: Callable[[], Connection]
    watch: Callable[[Connection | None], None]
    """Told which connection waits for the server, so that it can be cancelled."""
    find: Callable[[Connection], CapturedTable]
    """Reads the table from the catalog."""

    @property
    def host(self) -> Host:
        return self.emitter.host

    @property
    def stream(self) -> StreamContext:
        return self.emitter.stream

    def run(self, control: Connection, address: str | Endpoint) -> None:
        """Reads the snapshot if there is no cursor, then the changes. `control`: for short statements."""
        table = self.find(control)
        key = change_key(table, self.stream)
        schema = ChangeSchema(table.relation.columns, key, _money_scale(control, table.relation))
        slot = StreamSlot(self.host, self.stream.stream_name, control, table.published)
        last = self.stream.cursor_info.last_value if self.stream.cursor_info is not None else None
        if last is not None:
            position = slot.resume(last)
        else:
            position = self._snapshot(slot, table.relation, schema.arrow, address)
        if self.stop.is_set():
            return
        lookup = ToastLookup(table.relation, lookup_key(table), self.connect)
        reader = ChangeReader(
            self.emitter, schema, lookup, slot.cursor, lambda: self._check_schema(control, table), position
        )
        try:
            with slot.errors():
                self._catch_up(control, slot, reader)
                while self.host.follow and not self._is_over():
                    self._wait(slot)
                    self._catch_up(control, slot, reader)
        finally:
            lookup.close()

    def _snapshot(self, slot: StreamSlot, relation: Relation, schema: pa.Schema, address: str | Endpoint) -> int:
        """Emits the table as it is at the position of a new slot, which is returned."""
        slot.prepare()
        with slot.errors():
            replication = connect_replication(address)
            try:
                with self._watched(replication):
                    made = create_slot(replication, slot.name)
                try:
                    self._copy_snapshot(relation, schema, made.snapshot)
                except BaseException:
                    replication.close()
                    slot.drop()
                    raise
            finally:
                replication.close()
        if self.stop.is_set():
            slot.drop()
        else:
            self.emitter.checkpoint(slot.cursor(made.position))
        return made.position

    def _copy_snapshot(self, relation: Relation, schema: pa.Schema, snapshot: str) -> None:
        limits, emitter = self.stream.limits, self.emitter
        with self._connected() as connection, self._watched(connection):
            begin_part(connection, Part(snapshot, 0, None))
            blocks = copy_rows(connection, select_rows(relation), self.stop)
            for rows in chunks(blocks, ChunkSize.of(emitter), emitter.fetched):
                began = time.monotonic()
                chunk = Chunk(rows, relation.columns, [], "")
                emitter.decode_s += time.monotonic() - began
                for batch in chunk.batches(0, len(chunk), limits, self.host):
                    assert isinstance(batch, pa.RecordBatch)
                    inserted = pa.repeat(pa.scalar(str(Operation.INSERT)), batch.num_rows)
                    marked = pa.RecordBatch.from_arrays([*batch.columns, inserted], schema=schema)
                    self.emitter.emit(cut(marked, limits.max_batch_bytes, self.host), 0)
                emitter.size += len(rows.body)

    def _is_over(self) -> bool:
        return self.stop.is_set() or self.host.cancelled()

    def _wait(self, slot: StreamSlot) -> None:
        """Waits before the next look at the WAL, and confirms what was committed meanwhile."""
        deadline = time.monotonic() + FOLLOW_S
        while time.monotonic() < deadline and not self._is_over():
            time.sleep(_PAUSE_S)
        if committed := slot.committed():
            slot.confirm(committed)

    def _catch_up(self, control: Connection, slot: StreamSlot, reader: ChangeReader) -> None:
        """Emits the changes up to the end of the WAL."""
        end = wal_end(control)
        if end <= reader.position:
            return
        rows = self.emitter.records
        most: int | None = PEEK_CHANGES
        while True:
            before = reader.messages
            with self._connected() as connection, self._watched(connection):
                query = peek_query(slot.name, slot.name, end, most)
                reader.read(copy_rows(connection, query, self.stop))
            if self.stop.is_set():
                return
            slot.check_publication()
            if most is None or reader.messages - before < most:
                break
            reader.mark()
            # A peek begins with what is not confirmed: without progress, a limited one would never get further.
            most = PEEK_CHANGES if self._confirm(slot, reader.position) else None
        reader.position = max(reader.position, end)
        # The commit of an empty checkpoint may itself be in this WAL: one that follows would never come to rest.
        if not self.host.follow or self.emitter.records > rows or end - reader.marked > IDLE_WAL_BYTES:
            reader.mark()

    def _confirm(self, slot: StreamSlot, position: int) -> bool:
        """Confirms what the destination has committed; returns whether that is all before the position. Waits for it,
        since what is not confirmed is read again."""
        deadline = time.monotonic() + COMMIT_WAIT_S
        while slot.committed() < position and time.monotonic() < deadline and not self.stop.is_set():
            time.sleep(_PAUSE_S)
        if committed := slot.committed():
            slot.confirm(committed)
        return committed >= position

    def _check_schema(self, control: Connection, planned: CapturedTable) -> None:
        now = self.find(control)
        if (now.relation.columns, now.identity) == (planned.relation.columns, planned.identity):
            return
        names = [
            ", ".join(f"{each.name} {each.type_text}" for each in table.relation.columns) for table in (planned, now)
        ]
        raise ConnectorError.schema(
            "SCHEMA_CHANGED",
            f"the columns of {planned.relation.name} have changed since this run began: expected {names[0]}, found"
            f" {names[1]}",
            hint="start the sync again, which follows schema_evolution in policies",
            details={"replan": True},
        )

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        connection = self.connect()
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _watched(self, connection: Connection) -> Iterator[None]:
        self.watch(connection)
        try:
            yield
        finally:
            self.watch(None)


def _money_scale(connection: Connection, relation: Relation) -> int:
    """Digits behind the point of `money`, which depend on the locale."""
    readings = [column.reading for column in relation.columns]
    if not any("money" in (each.kind, each.element.kind if each.element else "") for each in readings):
        return 0
    found = connection.execute("SELECT scale('0'::money::numeric)").fetchone()
    assert found is not None
    return int(found[0])
