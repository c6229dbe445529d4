"""Connectors with one fault each."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from connect.conformance.reference import ID, RefDestination, RefSource, Stored, changing
from gauss.contracts.connector.cursor import CursorValue, Int64Cursor, JsonCursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, LogLevel, Mark, Opaque
from gauss.contracts.connector.lifecycle import Catalog, OpenContext, OpenInfo
from gauss.contracts.connector.progress import ReadSummary, WriteSummary
from gauss.contracts.connector.stream import StreamContext, SyncMode

HANGS_S = 6.0
"""How long a connector that does not stop goes on: longer than the kit of the tests waits."""


# --- both roles ---


class _WrongProtocol:
    def open(self, context: OpenContext) -> OpenInfo:
        super().open(context)  # type: ignore[misc]
        return OpenInfo(protocol_version="2")


class _ClosesOnce:
    closed = False

    def close(self) -> None:
        if self.closed:
            raise ValueError("closed already")
        self.closed = True


class _LeaksPassword:
    def open(self, context: OpenContext) -> OpenInfo:
        info = super().open(context)  # type: ignore[misc]
        self.host.log(LogLevel.INFO, f"connecting as gauss:{self.config['password']}")  # type: ignore[attr-defined]
        return info  # type: ignore[no-any-return]


class _WrongCategory:
    def open(self, context: OpenContext) -> OpenInfo:
        try:
            return super().open(context)  # type: ignore[misc, no-any-return]
        except ConnectorError as error:
            raise ConnectorError.transient_db("RETRY", error.message) from error


class SourceWrongProtocol(_WrongProtocol, RefSource): ...


class DestinationWrongProtocol(_WrongProtocol, RefDestination): ...


class SourceClosesOnce(_ClosesOnce, RefSource): ...


class DestinationClosesOnce(_ClosesOnce, RefDestination): ...


class SourceLeaksPassword(_LeaksPassword, RefSource): ...


class DestinationLeaksPassword(_LeaksPassword, RefDestination): ...


class SourceWrongCategory(_WrongCategory, RefSource): ...


class DestinationWrongCategory(_WrongCategory, RefDestination): ...


# --- sources ---


class ChangesCatalog(RefSource):
    count = 0

    def discover(self) -> Catalog:
        found = super().discover().streams
        ChangesCatalog.count += 1
        keys = [ID] if ChangesCatalog.count % 2 else None
        return Catalog([msgspec.structs.replace(each, primary_key=keys) for each in found])


class EmitsEmptyBatch(RefSource):
    def batches(self, rows: pa.Table, stream: StreamContext) -> Iterator[pa.RecordBatch]:
        yield from super().batches(rows, stream)
        yield pa.RecordBatch.from_pylist([], schema=rows.schema)


class IgnoresBatchSize(RefSource):
    def batches(self, rows: pa.Table, stream: StreamContext) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        yield from rows.combine_chunks().to_batches()


class LosesLastRow(RefSource):
    def part(self, rows: pa.Table) -> pa.Table:
        return super().part(rows).slice(0, rows.num_rows - 1)


class ReadsDifferently(RefSource):
    reads = 0

    def part(self, rows: pa.Table) -> pa.Table:
        ReadsDifferently.reads += 1
        return rows.slice(1) if ReadsDifferently.reads == 2 else rows


class MiscountsRead(RefSource):
    def summary(self) -> ReadSummary:
        return ReadSummary(self.records + 1, 0, self.emitted, self.checkpoints)


class CheckpointsAhead(RefSource):
    def checkpoint(self, stream: StreamContext, batch: pa.RecordBatch) -> None:
        self.emitted += 1
        super().checkpoint(stream, batch)
        self.emitted -= 1


class EmitsAfterReturn(RefSource):
    def run_read(self, stream: StreamContext) -> ReadSummary:
        summary = super().run_read(stream)
        late = pa.record_batch({ID: pa.array([0], pa.int64())})
        threading.Timer(0.05, self.host.emit_batch, [late]).start()
        return summary


class ReadsTwoStates(RefSource):
    """Looks at the stream again for every batch."""

    def batches(self, rows: pa.Table, stream: StreamContext) -> Iterator[pa.RecordBatch]:
        place = 0
        while place < rows.num_rows:
            yield from super().batches(rows.slice(place, 20), stream)
            place += 20
            if stream.sync_mode is SyncMode.FULL_REFRESH and self.host.partition is None:
                rows = self.rows(stream).slice(0, 407)


class ReadsNullAsEmpty(RefSource):
    def rows(self, stream: StreamContext) -> pa.Table:
        return _without_null_text(super().rows(stream))


class TruncatesRead(RefSource):
    def rows(self, stream: StreamContext) -> pa.Table:
        return _truncated(super().rows(stream))


class FailsAtLargeRecord(RefSource):
    def split(self, batch: pa.RecordBatch, stream: StreamContext) -> Iterator[pa.RecordBatch]:
        if batch.num_rows == 1 and batch.nbytes > stream.limits.max_record_bytes:
            raise RuntimeError("too large")
        yield from super().split(batch, stream)


class StartsAgain(RefSource):
    def read_already(self, rows: pa.Table, field: str, last: CursorValue) -> int:
        super().read_already(rows, field, last)
        return 0


class SkipsARow(RefSource):
    def read_already(self, rows: pa.Table, field: str, last: CursorValue) -> int:
        done = super().read_already(rows, field, last)
        return done + 1 if done < rows.num_rows else done


class EndsWithoutCheckpoint(RefSource):
    def run_read(self, stream: StreamContext) -> ReadSummary:
        self.total = self.rows(stream).num_rows
        return super().run_read(stream)

    def checkpoint(self, stream: StreamContext, batch: pa.RecordBatch) -> None:
        if self.records < self.total:
            super().checkpoint(stream, batch)


class SwallowsTies(RefSource):
    """Goes on behind all rows with the last cursor value."""

    def read_already(self, rows: pa.Table, field: str, last: CursorValue) -> int:
        done = super().read_already(rows, field, last)
        values = rows.column(field).to_pylist()
        while 0 < done < rows.num_rows and values[done] is not None and values[done] == values[done - 1]:
            done += 1
        return done


class TakesAnyCursor(RefSource):
    def read_already(self, rows: pa.Table, field: str, last: CursorValue) -> int:
        known = isinstance(last, Int64Cursor) or (isinstance(last, JsonCursor) and ID in last.value)
        return super().read_already(rows, field, last) if known else 0


class RereadsNullCursors(RefSource):
    def behind(self, rows: pa.Table, stream: StreamContext) -> tuple[pa.Table, int]:
        found, start = super().behind(rows, stream)
        assert stream.cursor_info is not None
        nulls = found.column(stream.cursor_info.cursor_field).null_count
        if start and nulls:
            return pa.concat_tables([found.slice(0, nulls), found.slice(start)]), 0
        return found, start


class PartsSeeNewRows(RefSource):
    """The last part has no end."""

    def partitions(self, stream: StreamContext, count: int) -> list[Any]:
        found = super().partitions(stream, count)
        return [*found[:-1], {**found[-1], "rows": 1_000_000}]


class SourceIgnoresStop(RefSource):
    def emit(self, batch: pa.RecordBatch) -> None:
        try:
            super().emit(batch)
        except ConnectorError:
            time.sleep(HANGS_S)
            raise


# --- destinations ---


class CheckpointsBeforeCommit(RefDestination):
    def mark(self, mark: Mark, stream: StreamContext) -> None:
        self.tell(mark, stream)
        self.commit(mark, stream)


class CommitsEveryBatch(RefDestination):
    """Rows behind the last mark are there already, and come again after a retry."""

    def take(self, item: Batch, stream: StreamContext) -> None:
        super().take(item, stream)
        if stream.sync_mode is not SyncMode.FULL_REFRESH:
            with changing(self.config["file"], stream.stream_name) as stored:
                self.add(stored, pa.Table.from_batches(self.held), stream)
            self.held = []


class WaitsForCheckpoint(RefDestination):
    """Commits a full refresh only if its source makes checkpoints."""

    def run_write(self, stream: StreamContext) -> WriteSummary:
        self.source_marks = 0
        return super().run_write(stream)

    def skip(self, mark: Mark) -> None:  # noqa: ARG002
        self.source_marks += 1

    def mark(self, mark: Mark, stream: StreamContext) -> None:
        if self.source_marks or stream.sync_mode is not SyncMode.FULL_REFRESH:
            super().mark(mark, stream)


class IgnoresReplace(RefDestination):
    def emptied(self, rows: pa.Table) -> pa.Table:
        return rows


class EmptiesFirst(RefDestination):
    """Empties the table when a full refresh begins."""

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:
        super().prepare(stream, statements, generation)
        if stream.sync_mode is SyncMode.FULL_REFRESH and "Replace" in type(stream.write_mode).__name__:
            with changing(self.config["file"], stream.stream_name) as stored:
                self.change(stored, stored.table().schema)
                stored.rows = None if stored.rows is None else _empty(stored)


class KeepsFirstOfKey(RefDestination):
    """Within one commit, the first row of a key is kept."""

    def upserted(self, old: pa.Table, rows: pa.Table, key: list[str]) -> pa.Table:
        keys = list(zip(*(rows.column(name).to_pylist() for name in key), strict=True))
        first = [row for row, value in enumerate(keys) if keys.index(value) == row]
        return super().upserted(old, rows.take(pa.array(first, pa.int64())), key)


class NeverUpdates(RefDestination):
    def upserted(self, old: pa.Table, rows: pa.Table, key: list[str]) -> pa.Table:
        known = set(old.column(key[0]).to_pylist()) if old.num_columns else set()
        new = rows.filter(pa.array([id not in known for id in rows.column(key[0]).to_pylist()], pa.bool_()))
        return super().upserted(old, new, key)


class WritesNullAsEmpty(RefDestination):
    def take(self, item: Batch, stream: StreamContext) -> None:
        super().take(item, stream)
        self.held[-1] = _without_null_text(pa.Table.from_batches([self.held[-1]])).combine_chunks().to_batches()[0]


class TruncatesWritten(RefDestination):
    def take(self, item: Batch, stream: StreamContext) -> None:
        super().take(item, stream)
        self.held[-1] = _truncated(pa.Table.from_batches([self.held[-1]])).combine_chunks().to_batches()[0]


class DoesNotFence(RefDestination):
    def check_fence(self, stored: Stored, generation: int) -> None:
        pass


class MiscountsWritten(RefDestination):
    def summary(self) -> WriteSummary:
        return WriteSummary(self.records - 1, 0, self.batches, self.checkpoints)


class EndsEarly(RefDestination):
    def run_write(self, stream: StreamContext) -> WriteSummary:  # noqa: ARG002
        self.host.next_delivery()
        return WriteSummary()


class ForgetsLastCheckpoint(RefDestination):
    def tell(self, mark: Mark, stream: StreamContext) -> None:
        if mark.id < 8:
            super().tell(mark, stream)


class NeverAddsColumns(RefDestination):
    def change(self, stored: Stored, schema: pa.Schema) -> None:
        if stored.rows is None:
            super().change(stored, schema)


class CreatesWhenAsked(RefDestination):
    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:
        if live is None:
            with changing(self.config["file"], stream.stream_name) as stored:
                self.change(stored, wanted)
        return super().statements(stream, live, wanted)


class ForgetsCursor(RefDestination):
    def commit(self, mark: Mark, stream: StreamContext) -> None:
        super().commit(mark._replace(cursor=Int64Cursor(-1)), stream)


class WritesKeylessRows(RefDestination):
    def take(self, item: Batch, stream: StreamContext) -> None:  # noqa: ARG002
        assert not isinstance(item.rows, Opaque)
        self.held.append(item.rows)
        self.records, self.batches = self.records + item.rows.num_rows, self.batches + 1


class DestinationIgnoresStop(RefDestination):
    def run_write(self, stream: StreamContext) -> WriteSummary:
        try:
            return super().run_write(stream)
        except ConnectorError:
            time.sleep(HANGS_S)
            raise


def _texts(rows: pa.Table) -> list[tuple[int, str]]:
    return [(place, each.name) for place, each in enumerate(rows.schema) if each.type == pa.string()]


def _without_null_text(rows: pa.Table) -> pa.Table:
    for place, name in _texts(rows):
        values: list[Any] = [value or "" for value in rows.column(name).to_pylist()]
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values, pa.string()))
    return rows


def _truncated(rows: pa.Table) -> pa.Table:
    for place, name in _texts(rows):
        values = [None if value is None else value[:90_000] for value in rows.column(name).to_pylist()]
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values, pa.string()))
    return rows


def _empty(stored: Stored) -> bytes:
    from connect.conformance.reference import _packed

    return _packed(stored.table().slice(0, 0))
