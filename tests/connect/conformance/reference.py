"""A source and a destination that do everything right, on one SQLite file."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.connector.arrow_types import column_schemas
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.cursor import CursorValue, Int64Cursor, JsonCursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Host, Mark, Opaque
from gauss.contracts.connector.json_form import decode, encode
from gauss.contracts.connector.lifecycle import (
    Catalog,
    CatalogStream,
    ConfigBlob,
    Feature,
    JsonConfig,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary, WriteSummary
from gauss.contracts.connector.stream import Replace, StreamContext, SyncMode, Upsert

ID = "id"


class Stored(msgspec.Struct):
    """A stream in the file."""

    rows: bytes | None = None
    fence: int = 0
    published: int = 0
    marks: dict[str, tuple[int, int, str | None, bool]] = {}
    parts: dict[str, bytes] = {}
    """Rows of a full refresh, by partition, until it is finished."""

    def table(self) -> pa.Table:
        return pa.table({}) if self.rows is None else _unpacked(self.rows)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


@contextmanager
def changing(file: str, stream: str) -> Iterator[Stored]:
    """A stream in a transaction."""
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE IF NOT EXISTS streams (name TEXT PRIMARY KEY, stored BLOB)")
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute("SELECT stored FROM streams WHERE name = ?", [stream]).fetchone()
        stored = msgspec.msgpack.decode(found[0], type=Stored) if found else Stored()
        yield stored
        connection.execute("REPLACE INTO streams VALUES (?, ?)", [stream, msgspec.msgpack.encode(stored)])
        connection.execute("COMMIT")


def streams(file: str) -> dict[str, Stored]:
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS streams (name TEXT PRIMARY KEY, stored BLOB)")
        rows = connection.execute("SELECT name, stored FROM streams ORDER BY name").fetchall()
    return {name: msgspec.msgpack.decode(stored, type=Stored) for name, stored in rows}


def upserted(old: pa.Table, new: pa.Table, key: list[str]) -> pa.Table:
    both = joined(old, new)
    keys = list(zip(*(both.column(name).to_pylist() for name in key), strict=True))
    last = {value: row for row, value in enumerate(keys)}
    return both.take(pa.array(sorted(last.values()), pa.int64())) if len(last) < len(keys) else both


def joined(old: pa.Table, new: pa.Table) -> pa.Table:
    if not old.num_columns:
        return new
    return pa.concat_tables([old, new], promote_options="default") if new.num_columns else old


def verify(settings: dict[str, Any], stream: str) -> pa.Table:
    found = streams(settings["file"]).get(stream)
    return pa.table({}) if found is None else found.table()


def fill(settings: dict[str, Any], stream: str, rows: pa.Table, key: list[str]) -> None:
    with changing(settings["file"], stream) as stored:
        stored.rows = _packed(upserted(stored.table(), rows, key))


class Base:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.config: dict[str, Any] = {}

    def open(self, context: OpenContext) -> OpenInfo:
        assert isinstance(context.config, JsonConfig)
        self.config = context.config.value
        if not isinstance(self.config.get("file"), str):
            raise ConnectorError.config("BAD_CONFIG", "file: expected a path")
        return OpenInfo(features=[Feature.EXACTLY_ONCE, Feature.SCHEMA_AUTO_MIGRATE])

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        return ValidationResult(ValidationStatus.SUCCESS)

    def close(self) -> None:
        pass


class RefSource(Base):
    """Reads rows in the order of the cursor, then of the id. The position is the id of the last row."""

    def discover(self) -> Catalog:
        modes = [SyncMode.FULL_REFRESH, SyncMode.INCREMENTAL]
        return Catalog(
            [
                CatalogStream(name, column_schemas(rows.schema), modes, [ID], rows.column_names)
                for name, stored in streams(self.config["file"]).items()
                if (rows := stored.table()).num_columns
            ]
        )

    def rows(self, stream: StreamContext) -> pa.Table:
        found = streams(self.config["file"]).get(stream.stream_name)
        if found is None:
            raise ConnectorError.config("NO_STREAM", f"there is no stream {stream.stream_name}")
        return found.table()

    def partitions(self, stream: StreamContext, count: int) -> list[Any]:
        total = self.rows(stream).num_rows
        size = total // count + 1
        return [{"first": first, "rows": min(size, total - first)} for first in range(0, total, size)]

    def run_read(self, stream: StreamContext) -> ReadSummary:
        rows, start = self.part(self.rows(stream)), 0
        if stream.cursor_info is not None:
            rows, start = self.behind(rows, stream)
        self.emitted = self.records = self.checkpoints = 0
        for batch in self.batches(rows.slice(start), stream):
            if self.host.cancelled():
                break
            self.emit(batch)
            self.checkpoint(stream, batch)
        return self.summary()

    def part(self, rows: pa.Table) -> pa.Table:
        part = self.host.partition
        return rows if part is None else rows.slice(part["first"], part["rows"])

    def behind(self, rows: pa.Table, stream: StreamContext) -> tuple[pa.Table, int]:
        """The rows in their order, and how many of them were read."""
        assert stream.cursor_info is not None
        field, last = stream.cursor_info.cursor_field, stream.cursor_info.last_value
        values, ids = rows.column(field).to_pylist(), rows.column(ID).to_pylist()
        order = sorted(range(rows.num_rows), key=lambda row: self.order(values[row], ids[row]))
        rows = rows.take(pa.array(order, pa.int64()))
        return rows, 0 if last is None else self.read_already(rows, field, last)

    def order(self, value: Any, id: int) -> tuple[Any, ...]:
        return (0, id) if value is None else (1, value, id)

    def read_already(self, rows: pa.Table, field: str, last: CursorValue) -> int:
        ids = rows.column(ID).to_pylist()
        if field == ID and isinstance(last, Int64Cursor):
            return sum(id <= last.value for id in ids)
        if isinstance(last, JsonCursor) and isinstance(last.value, dict) and last.value.get(ID) in ids:
            return int(ids.index(last.value[ID])) + 1
        raise ConnectorError.config("BAD_CURSOR", "the cursor is not one of this source")

    def batches(self, rows: pa.Table, stream: StreamContext) -> Iterator[pa.RecordBatch]:
        for batch in rows.combine_chunks().to_batches():
            yield from self.split(batch, stream)

    def split(self, batch: pa.RecordBatch, stream: StreamContext) -> Iterator[pa.RecordBatch]:
        limits = stream.limits
        if batch.num_rows == 1 and batch.nbytes > min(limits.max_record_bytes, limits.max_batch_bytes):
            self.host.reject(batch, ConnectorError.data("TOO_LARGE", f"a record of {batch.nbytes} bytes"))
        elif batch.nbytes > limits.max_batch_bytes or (batch.num_rows > 1 and batch.nbytes > limits.max_record_bytes):
            middle = batch.num_rows // 2
            yield from self.split(batch.slice(0, middle), stream)
            yield from self.split(batch.slice(middle), stream)
        elif batch.num_rows:
            yield batch

    def emit(self, batch: pa.RecordBatch) -> None:
        self.host.emit_batch(batch)
        self.emitted += 1
        self.records += batch.num_rows
        self.host.report_progress(self.records, batch.nbytes)

    def checkpoint(self, stream: StreamContext, batch: pa.RecordBatch) -> None:
        field = stream.cursor_info.cursor_field if stream.cursor_info is not None else None
        cursor = None if field is None else self.cursor(field, batch)
        self.checkpoints += 1
        self.host.checkpoint(Checkpoint(self.emitted, CheckpointKind.SOURCE, stream.stream_name, field, cursor))

    def cursor(self, field: str, batch: pa.RecordBatch) -> CursorValue:
        last = batch.column(ID)[-1].as_py()
        return Int64Cursor(last) if field == ID else JsonCursor({ID: last})

    def summary(self) -> ReadSummary:
        return ReadSummary(self.records, 0, self.emitted, self.checkpoints)


class RefDestination(Base):
    """Implements `ManagedDestination`."""

    # --- tables ---

    def landed(self, schema: pa.Schema) -> pa.Schema:
        return schema.remove_metadata()

    def describe(self, stream: StreamContext) -> pa.Schema | None:
        found = streams(self.config["file"]).get(stream.stream_name)
        return None if found is None or found.rows is None else found.table().schema

    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:  # noqa: ARG002
        if live is not None:
            fields = [wanted.field(each.name) if each.name in wanted.names else each for each in live]
            wanted = pa.schema([*fields, *(each for each in wanted if each.name not in live.names)])
        if live is not None and live.equals(wanted):
            return []
        return [base64.b64encode(wanted.serialize()).decode()]

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:
        with changing(self.config["file"], stream.stream_name) as stored:
            self.check_fence(stored, generation)
            if stored.fence < generation:
                stored.fence, stored.parts = generation, {}
            for each in statements:
                schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(each)))
                self.change(stored, schema)

    def change(self, stored: Stored, schema: pa.Schema) -> None:
        stored.rows = _packed(fitted(stored.table(), schema))

    def check_fence(self, stored: Stored, generation: int) -> None:
        if stored.fence > generation:
            raise ConnectorError.internal("FENCED", f"run {generation} was replaced by run {stored.fence}")

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:
        stored = streams(self.config["file"]).get(stream.stream_name, Stored())
        if partition not in stored.marks:
            return None
        generation, id, cursor, done = stored.marks[partition]
        return Watermark(generation, id, None if cursor is None else decode(cursor.encode(), CursorValue), done)

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema) -> str:  # noqa: ARG002
        return ""

    def finish(self, stream: StreamContext, generation: int) -> None:
        if stream.sync_mode is not SyncMode.FULL_REFRESH:
            return
        with changing(self.config["file"], stream.stream_name) as stored:
            self.check_fence(stored, generation)
            if stored.published >= generation:
                return
            stored.published = generation
            old = stored.table()
            if isinstance(stream.write_mode, Replace):
                stored.rows = _packed(self.emptied(old))
            for part in stored.parts.values():
                self.add(stored, _unpacked(part), stream)
            stored.parts = {}

    def emptied(self, rows: pa.Table) -> pa.Table:
        return rows.slice(0, 0)

    # --- rows ---

    def run_write(self, stream: StreamContext) -> WriteSummary:
        self.held: list[pa.RecordBatch] = []
        self.records = self.batches = self.checkpoints = 0
        while (item := self.host.next_delivery()) is not None:
            if isinstance(item, Batch):
                self.take(item, stream)
            elif item.final or stream.sync_mode is not SyncMode.FULL_REFRESH:
                self.mark(item, stream)
            else:
                self.skip(item)
        return self.summary()

    def take(self, item: Batch, stream: StreamContext) -> None:
        assert not isinstance(item.rows, Opaque)
        rows = item.rows
        if isinstance(stream.write_mode, Upsert):
            for name in stream.write_mode.primary_key:
                missing = pc.is_null(rows.column(name))
                for row in pc.indices_nonzero(missing).to_pylist():
                    self.host.reject(rows.slice(row, 1), ConnectorError.data("NULL", f"{name}: null"))
                rows = rows.filter(pc.invert(missing)) if pc.any(missing).as_py() else rows
        self.held.append(rows)
        self.records, self.batches = self.records + rows.num_rows, self.batches + 1

    def skip(self, mark: Mark) -> None:
        """A full refresh is committed at its end."""

    def mark(self, mark: Mark, stream: StreamContext) -> None:
        self.commit(mark, stream)
        self.tell(mark, stream)

    def tell(self, mark: Mark, stream: StreamContext) -> None:
        self.checkpoints += 1
        self.host.checkpoint(Checkpoint(mark.id, CheckpointKind.DEST, stream.stream_name))

    def commit(self, mark: Mark, stream: StreamContext) -> None:
        part = "" if self.host.partition is None else msgspec.json.encode(self.host.partition).decode()
        with changing(self.config["file"], stream.stream_name) as stored:
            self.check_fence(stored, self.host.generation)
            rows = pa.Table.from_batches(self.held) if self.held else pa.table({})
            if stream.sync_mode is SyncMode.FULL_REFRESH:
                stored.parts[part] = _packed(rows)
            else:
                self.add(stored, rows, stream)
            cursor = None if mark.cursor is None else encode(mark.cursor).decode()
            stored.marks[part] = (self.host.generation, mark.id, cursor, mark.final)
        self.held = []

    def add(self, stored: Stored, rows: pa.Table, stream: StreamContext) -> None:
        old = stored.table()
        rows = fitted(rows, old.schema) if rows.num_columns and old.num_columns else rows
        key = stream.write_mode.primary_key if isinstance(stream.write_mode, Upsert) else []
        stored.rows = _packed(self.upserted(old, rows, key) if key else joined(old, rows))

    def upserted(self, old: pa.Table, rows: pa.Table, key: list[str]) -> pa.Table:
        return upserted(old, rows, key)

    def summary(self) -> WriteSummary:
        return WriteSummary(self.records, 0, self.batches, self.checkpoints)


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of a table, in its order and types."""
    columns = [
        rows.column(each.name).cast(each.type) if each.name in rows.column_names else pa.nulls(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.table(columns, schema=schema)
