"""The `topic` source: reads topics of a running pipeline."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from gauss.contracts.connector.arrow_types import column_schemas
from gauss.contracts.connector.emitter import Emitter
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host, LogLevel
from gauss.contracts.connector.lifecycle import (
    Catalog,
    CatalogStream,
    ConfigBlob,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import Counter, Metric, ReadSummary
from gauss.contracts.connector.settings import typed_config
from gauss.contracts.connector.stream import StreamContext, StreamLimits, SyncMode
from gauss.plugins.connectors.file.reading import split, too_large
from gauss.plugins.connectors.topic.records import RAW, declared, decoded
from gauss.plugins.connectors.topic.run_client import RunClient, TopicState
from gauss.plugins.connectors.topic.source_position import TopicCursor, beginning, removed
from gauss.plugins.connectors.topic.source_spec import TopicSourceConfig

CURSOR_FIELD = "_offset"
"""The name of the cursor in checkpoints: the place in the topic, not a column."""


class TopicSource:
    """Reads topics. Implements `Source` and `PartitionedSource`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = TopicSourceConfig()
        self._run: RunClient | None = None

    def open(self, context: OpenContext) -> OpenInfo:
        self._config = typed_config(context.config, TopicSourceConfig)
        self._run = RunClient(self._config)
        return OpenInfo()

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        found = [each for each in self._opened().topics() if each.is_log]
        status = ValidationStatus.SUCCESS if found else ValidationStatus.WARNING
        return ValidationResult(status, f"{len(found)} topics")

    def close(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None

    def discover(self) -> Catalog:
        run, found = self._opened(), []
        for each in run.topics():
            if each.is_log:
                fields = declared(run.format_of(each.name)[1])
                columns = column_schemas(RAW if fields is None else fields)
                modes = [SyncMode.FULL_REFRESH, SyncMode.INCREMENTAL]
                found.append(CatalogStream(each.name, columns, modes, None, [CURSOR_FIELD], each.end - each.floor))
        return Catalog(found)

    def partitions(self, stream: StreamContext, count: int) -> list[Any]:
        """Ranges of offsets up to the current end. An incremental stream is not divided: its cursor is one offset."""
        topic = self._opened().topic(stream.stream_name)
        rows = topic.end - topic.floor
        if stream.sync_mode is not SyncMode.FULL_REFRESH or count < 2 or rows < count:
            return [None]
        cuts = [topic.floor + rows * number // count for number in range(count + 1)]
        return [{"inc": topic.inc, "start": a, "stop": b} for a, b in itertools.pairwise(cuts)]

    def run_read(self, stream: StreamContext) -> ReadSummary:
        run = self._opened()
        topic = run.topic(stream.stream_name)
        if not topic.is_log:
            raise ConnectorError.config("NOT_A_LOG", f'topic "{topic.name}" is a table, which has no offsets')
        incremental = stream.sync_mode is not SyncMode.FULL_REFRESH
        emitter = Emitter(self._host, stream, self._config.checkpoint)
        reading = _Reading(self._host, run, topic, stream.limits, emitter)
        if (part := self._host.partition) is not None:
            reading.topic = topic._replace(inc=part["inc"])
            start, stop = part["start"], part["stop"]
        else:
            begin = beginning(topic, TopicCursor.of(stream.cursor_info) if incremental else None)
            if begin.why:
                reading.missing(begin.missed, begin.why)
            start, stop = begin.offset, topic.end
        reading.read(start, stop, incremental=incremental)
        return emitter.summary()

    def _opened(self) -> RunClient:
        if self._run is None:
            raise ConnectorError.internal("NOT_OPEN", "the connector is not open")
        return self._run


class _Reading:
    """A read of one topic."""

    def __init__(self, host: Host, run: RunClient, topic: TopicState, limits: StreamLimits, emitter: Emitter) -> None:
        self._host, self._run, self._limits, self._emitter = host, run, limits, emitter
        self.topic = topic
        self._missed = 0
        self._format = run.format_of(topic.name)[1]
        self._fields = declared(self._format)

    def read(self, start: int, stop: int, *, incremental: bool) -> None:
        """Emits records [start, stop), with checkpoints."""
        at = start
        for records in self._run.read(self.topic, start, stop):
            offsets = records.column("offset")
            first, last = offsets[0].as_py(), offsets[-1].as_py()
            if gone := last + 1 - at - records.num_rows:
                self.missing(gone, removed(self.topic.name, at, first if first > at else last))
            self._emit(records)
            at = last + 1
            if self._emitter.due():
                self._checkpoint(at, incremental=incremental)
            if self._host.cancelled():
                return
        if at < stop:
            self.missing(stop - at, removed(self.topic.name, at, stop))
        self._checkpoint(stop, incremental=incremental)

    def missing(self, records: int, why: str) -> None:
        """Reports records that are gone."""
        self._missed += records
        self._host.log(LogLevel.WARN, why)
        self._host.metric(Metric("records_missed", Counter(self._missed), [("stream", self.topic.name)]))

    def _checkpoint(self, offset: int, *, incremental: bool) -> None:
        cursor = TopicCursor(self.topic.inc, offset).value()
        self._emitter.checkpoint(cursor, CURSOR_FIELD) if incremental else self._emitter.checkpoint(None)

    def _emit(self, records: pa.RecordBatch) -> None:
        if self._format is None or self._fields is None:
            self._emit_rows(records.select(RAW.names))
            return
        for made in decoded(self._format, self._fields, records):
            for index, error in made.bad:
                record = records.slice(index, 1)
                error.details = {"topic": self.topic.name, "offset": record.column("offset")[0].as_py()}
                self._host.reject(record, error)
            self._emit_rows(made.rows)

    def _emit_rows(self, rows: pa.RecordBatch) -> None:
        most = min(self._limits.max_batch_bytes, self._limits.max_record_bytes)
        for part in split(rows, self._limits.max_batch_bytes):
            if part.num_rows == 1 and part.nbytes > most:
                self._host.reject(part, too_large(part.nbytes, most))
            else:
                self._emitter.emit([part], part.nbytes)
