"""Connectors whose batches are compressed or opaque: one that does it right, and those with one fault each."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa

from connect.conformance.reference import RefDestination, RefSource, changing
from gauss.connect.arrow_ipc import write_batch
from gauss.contracts.connector.connector import Watermark
from gauss.contracts.connector.host import Batch, Mark, Opaque
from gauss.contracts.connector.progress import ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext, SyncMode

KIND = "columns:"


# --- compressed ---


class CompressesByLz4(RefSource):
    codec = "lz4"

    def emit(self, batch: pa.RecordBatch) -> None:
        self.host.emit_batch(self.packed(batch))
        self.emitted += 1
        self.records += batch.num_rows

    def packed(self, batch: pa.RecordBatch) -> bytes:
        return write_batch(batch, self.codec)


class CompressesByZstd(CompressesByLz4):
    codec = "zstd"


class BreaksCompressed(CompressesByLz4):
    def packed(self, batch: pa.RecordBatch) -> bytes:
        data = bytearray(super().packed(batch))
        place = bytes(data).index(bytes.fromhex("04224d18"))  # where a frame of lz4 begins
        data[place : place + 4] = b"none"
        return bytes(data)


class HidesSizeByCompression(CompressesByZstd):
    """Looks only at the compressed size."""

    def batches(self, rows: pa.Table, stream: StreamContext) -> Any:
        size = 90 if stream.limits.max_batch_bytes == 2048 else rows.num_rows
        yield from rows.combine_chunks().to_batches(max_chunksize=size)


class TakesOneBlock(RefDestination):
    """Takes the buffers of a batch for parts of one block of memory. They are that in a file, and not when each was
    decompressed on its own."""

    def take(self, item: Batch, stream: StreamContext) -> None:
        assert not isinstance(item.rows, Opaque)
        buffers = [each for column in item.rows.columns for each in column.buffers() if each is not None]
        if any(each.parent is None for each in buffers):
            item = Batch(item.id, item.rows.slice(0, 1))
        super().take(item, stream)


# --- opaque ---


class EmitsOpaqueUnasked(RefSource):
    def emit(self, batch: pa.RecordBatch) -> None:
        self.host.emit_batch(Opaque(KIND, payload_of(batch), batch.num_rows))


def kind_of(schema: pa.Schema) -> str:
    return KIND + json.dumps([[each.name, str(each.type)] for each in schema])


def payload_of(batch: pa.RecordBatch) -> bytes:
    """The values of each column: which ones they are is in the kind only."""
    return msgspec.msgpack.encode([column.to_pylist() for column in batch.columns])


class RefOpaque(RefSource, RefDestination):  # type: ignore[misc]
    """Both roles of one system, which share an encoding. An instance has one of them."""

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema | None = None) -> str:
        return self.kind(self.rows(stream).schema if wanted is None else self.describe(stream) or wanted)

    def kind(self, schema: pa.Schema) -> str:
        return kind_of(schema)

    def summary(self) -> ReadSummary | WriteSummary:  # type: ignore[override]
        return RefSource.summary(self) if hasattr(self, "emitted") else RefDestination.summary(self)

    # --- as a source ---

    def emit(self, batch: pa.RecordBatch) -> None:
        if not self.host.opaque:
            super().emit(batch)
            return
        self.host.emit_batch(self.opaque(batch))
        self.emitted += 1
        self.records += batch.num_rows

    def opaque(self, batch: pa.RecordBatch) -> Opaque:
        return Opaque(self.host.opaque, payload_of(batch), batch.num_rows)

    # --- as a destination ---

    def landing(self, stream: StreamContext) -> StreamContext:
        name = self.config.get("tables", {}).get(stream.stream_name, stream.stream_name)
        return msgspec.structs.replace(stream, stream_name=name)

    def describe(self, stream: StreamContext) -> pa.Schema | None:
        return super().describe(self.landing(stream))

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:
        super().prepare(self.landing(stream), statements, generation)

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:
        return super().watermark(self.landing(stream), partition)

    def finish(self, stream: StreamContext, generation: int) -> None:
        super().finish(self.landing(stream), generation)

    def commit(self, mark: Mark, stream: StreamContext) -> None:
        super().commit(mark, self.landing(stream))

    def take(self, item: Batch, stream: StreamContext) -> None:
        if isinstance(item.rows, Opaque):
            item = Batch(item.id, self.decoded(item.rows, stream))
        super().take(item, stream)

    def decoded(self, rows: Opaque, stream: StreamContext) -> pa.RecordBatch:
        table = self.describe(stream)
        assert table is not None
        names = [name for name, _ in json.loads(rows.kind.removeprefix(KIND))]
        return _batch(rows, pa.schema([table.field(name) for name in names]))


def _batch(rows: Opaque, schema: pa.Schema) -> pa.RecordBatch:
    values = msgspec.msgpack.decode(rows.payload)
    columns = [pa.array(given, each.type) for given, each in zip(values, schema, strict=True)]
    return pa.record_batch(columns, schema=schema)


class LosesOpaqueRows(RefOpaque):
    def opaque(self, batch: pa.RecordBatch) -> Opaque:
        return Opaque(self.host.opaque, payload_of(batch.slice(1)), batch.num_rows)


class MiscountsOpaque(RefOpaque):
    def opaque(self, batch: pa.RecordBatch) -> Opaque:
        return super().opaque(batch)._replace(rows=batch.num_rows + 1)


class WritesFirstOpaque(RefOpaque):
    def take(self, item: Batch, stream: StreamContext) -> None:
        if item.id == 1 or not isinstance(item.rows, Opaque):
            super().take(item, stream)


class TakesColumnsByPlace(RefOpaque):
    """Its encoding does not say which columns it has."""

    def kind(self, schema: pa.Schema) -> str:
        return KIND + ",".join(sorted(str(each.type) for each in schema))

    def decoded(self, rows: Opaque, stream: StreamContext) -> pa.RecordBatch:
        table = self.describe(stream)
        assert table is not None
        return _batch(rows, table)


class CommitsOpaqueAtOnce(RefOpaque):
    """Rows behind the last mark are there already, and come again after a retry."""

    def take(self, item: Batch, stream: StreamContext) -> None:
        super().take(item, stream)
        if isinstance(item.rows, Opaque) and stream.sync_mode is not SyncMode.FULL_REFRESH:
            with changing(self.config["file"], self.landing(stream).stream_name) as stored:
                self.add(stored, pa.Table.from_batches(self.held), stream)
            self.held = []
