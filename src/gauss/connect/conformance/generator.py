"""The kit's source: emits the rows of Arrow files, as fast, slow or faulty as a case needs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gauss.connect.arrow_ipc import write_batch
from gauss.contracts.connector.arrow_types import column_schemas
from gauss.contracts.connector.cursor import CursorValue, Int64Cursor, JsonCursor
from gauss.contracts.connector.errors import BackoffClass, ConnectorError, ErrorCategory
from gauss.contracts.connector.host import Host
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
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary
from gauss.contracts.connector.stream import OPERATION, StreamContext, SyncMode

ID = "id"
"""The cursor and key of every stream: 1, 2, 3, …"""
NAME = "gauss.connect.conformance.generator:Generator"


class Generator:
    """Implements `Source`. Config: `files` (an Arrow file per stream), `batch_rows`, `checkpoint_batches` (0:
    no checkpoints), `compression` (`lz4` or `zstd`: batches are Arrow IPC), `pause_s` after each batch, `gate` (wait
    for a file behind a row), `fail` (raise an error behind a row, once)."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config: dict[str, Any] = {}

    def open(self, context: OpenContext) -> OpenInfo:
        assert isinstance(context.config, JsonConfig)
        self._config = context.config.value
        return OpenInfo(features=[Feature.CDC])

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        return ValidationResult(ValidationStatus.SUCCESS)

    def close(self) -> None:
        pass

    def discover(self) -> Catalog:
        return Catalog([self._stream(name) for name in self._config["files"]])

    def _stream(self, name: str) -> CatalogStream:
        schema = self._rows(name).schema
        if OPERATION in schema.names:  # the host adds it
            schema = schema.remove(schema.get_field_index(OPERATION))
        return CatalogStream(name, column_schemas(schema), list(SyncMode), [ID], [ID])

    def _rows(self, name: str) -> pa.Table:
        with pa.OSFile(self._config["files"][name]) as file, pa.ipc.open_file(file) as reader:
            return reader.read_all()

    def run_read(self, stream: StreamContext) -> ReadSummary:
        rows = self._rows(stream.stream_name)
        start = _start(stream, rows)
        size = int(self._config.get("batch_rows", 100))
        every, batches, records, checkpoints = int(self._config.get("checkpoint_batches", 1)), 0, 0, 0
        if every:
            self._checkpoint(stream, 0, self._position(stream, rows, start))
        for first in range(start, rows.num_rows, size):
            part = rows.slice(first, size)
            self._emit(_one_batch(part))
            batches, records, end = batches + 1, records + part.num_rows, first + part.num_rows
            if every and (batches % every == 0 or end == rows.num_rows):
                self._checkpoint(stream, batches, self._position(stream, rows, end))
                checkpoints += 1
            self._behind(end)
            if self._host.cancelled():
                break
        return ReadSummary(records, rows.nbytes, batches, checkpoints)

    def _emit(self, batch: pa.RecordBatch) -> None:
        compression = self._config.get("compression")
        self._host.emit_batch(batch if compression is None else write_batch(batch, compression))

    def _position(self, stream: StreamContext, rows: pa.Table, end: int) -> CursorValue | None:
        if stream.sync_mode is SyncMode.FULL_REFRESH:
            return None
        if stream.sync_mode is SyncMode.CDC:
            return JsonCursor({"row": end})
        return Int64Cursor(rows.column(ID)[end - 1].as_py()) if end else Int64Cursor(0)

    def _checkpoint(self, stream: StreamContext, batches: int, cursor: CursorValue | None) -> None:
        field = None if cursor is None else ID
        self._host.checkpoint(Checkpoint(batches, CheckpointKind.SOURCE, stream.stream_name, field, cursor))

    def _behind(self, row: int) -> None:
        """What a case wants to happen behind a row."""
        fail, gate = self._config.get("fail"), self._config.get("gate")
        pause = threading.Event()
        while gate is not None and row >= gate["row"] and not Path(gate["file"]).exists():
            if self._host.cancelled():
                return
            pause.wait(0.005)
        if fail is not None and row >= fail["row"] and not Path(fail["unless"]).exists():
            Path(fail["unless"]).touch()
            raise ConnectorError(
                ErrorCategory(fail["category"]),
                "KIT",
                "the kit's source fails on purpose",
                backoff_class=BackoffClass.FAST,
            )
        pause.wait(float(self._config.get("pause_s", 0)))


def _start(stream: StreamContext, rows: pa.Table) -> int:
    last = stream.cursor_info.last_value if stream.cursor_info is not None else None
    if isinstance(last, JsonCursor):
        return int(last.value["row"])
    if isinstance(last, Int64Cursor):
        return int(pc.sum(pc.less_equal(rows.column(ID), last.value)).as_py() or 0)
    return 0


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return rows.combine_chunks().to_batches()[0]


def write_rows(rows: pa.Table, path: Path) -> None:
    """Makes a file that the source reads."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
