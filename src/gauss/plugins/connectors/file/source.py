"""The `file` source: reads the files of a stream in the order of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from gauss.config.validate import did_you_mean
from gauss.contracts.connector.arrow_types import column_schemas
from gauss.contracts.connector.emitter import Emitter
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.lifecycle import (
    Catalog,
    CatalogStream,
    ConfigBlob,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import ReadSummary
from gauss.contracts.connector.settings import typed_config
from gauss.contracts.connector.stream import ColumnPolicy, StreamContext, SyncMode
from gauss.plugins.connectors.file.columnar_reader import read_arrow, read_parquet
from gauss.plugins.connectors.file.csv_reader import read_csv
from gauss.plugins.connectors.file.estimates import estimated_rows
from gauss.plugins.connectors.file.file_cursor import FileCursor, changed, file_row, resumed, select
from gauss.plugins.connectors.file.formats import NULL_TEXT, kind_of
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.jsonl_reader import read_jsonl
from gauss.plugins.connectors.file.listing import DataFile, FileStream, find_streams
from gauss.plugins.connectors.file.new_columns import NewColumns, stored_columns
from gauss.plugins.connectors.file.reading import Piece, ReadOptions, split, too_large, with_new
from gauss.plugins.connectors.file.schemas import catalog_schema, named_schema, stream_schema
from gauss.plugins.connectors.file.source_spec import FileSourceConfig

CURSOR_FIELD = "_file"
"""The name of the cursor in checkpoints and catalogs: the place in the files, not a column."""
READERS: dict[str, Callable[..., Iterator[Piece]]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "arrow": read_arrow,
}


class FileSource:
    """Reads files. Implements `Source` and `PartitionedSource`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = FileSourceConfig(path=".")

    def open(self, context: OpenContext) -> OpenInfo:
        self._config = typed_config(context.config, FileSourceConfig)
        return OpenInfo()

    def validate(self, config: ConfigBlob) -> ValidationResult:
        given = typed_config(config, FileSourceConfig)
        streams = find_streams(given.path, given.format)
        files = sum(len(each.files) for each in streams.values())
        if not streams or not files:
            return ValidationResult(ValidationStatus.WARNING, f"{given.path}: there are no files to read yet")
        return ValidationResult(ValidationStatus.SUCCESS, f"{len(streams)} streams, {files} files")

    def close(self) -> None:
        pass

    def discover(self) -> Catalog:
        found = []
        for each in find_streams(self._config.path, self._config.format).values():
            columns = column_schemas(catalog_schema(self._schema(each, self._options())))
            modes = [SyncMode.FULL_REFRESH, SyncMode.INCREMENTAL]
            rows = estimated_rows(each)
            found.append(CatalogStream(each.name, columns, modes, None, [CURSOR_FIELD], rows))
        return Catalog(found)

    def partitions(self, stream: StreamContext, count: int) -> list[Any]:
        """Runs of files of about the same size, at most one per file. An incremental stream is not divided: its cursor
        is one place in the order of the files."""
        files = self._find(stream.stream_name).files
        if stream.sync_mode is not SyncMode.FULL_REFRESH or len(files) < 2 or count < 2:
            return [None]
        total = sum(each.size for each in files) or 1
        groups: list[list[Any]] = [[]]
        seen = 0
        for each in files:
            if groups[-1] and seen * min(count, len(files)) >= total * len(groups):
                groups.append([])
            groups[-1].append([each.name, each.size, each.mtime_ns])
            seen += each.size
        return [{"files": each} for each in groups]

    def run_read(self, stream: StreamContext) -> ReadSummary:
        found = self._find(stream.stream_name)
        options = self._options(stream)
        schema = named_schema(stream.schema) or self._schema(found, options)
        incremental = stream.sync_mode is not SyncMode.FULL_REFRESH
        emitter = Emitter(self._host, stream, self._config.checkpoint)

        def checkpoint() -> None:
            field = (stream.cursor_info.cursor_field if stream.cursor_info else "") or CURSOR_FIELD
            emitter.checkpoint(cursor.value(), field) if incremental else emitter.checkpoint(None)

        cursor = resumed(FileCursor.of(stream.cursor_info), found, self._host) if incremental else FileCursor()
        if stream.policies.schema_evolution.new_column is not ColumnPolicy.IGNORE:
            options = options._replace(on_new_columns=self._new_columns(found, schema, options, cursor))
        read: list[DataFile] = []
        for file, skip in select(found.files, cursor, self._host):
            if skip is None:
                cursor = cursor.behind(file)
                continue
            cursor = cursor.at(file, skip)
            if reason := changed(file):
                self._host.reject(file_row(file), reason)
                cursor = cursor.behind(file)
                continue
            for piece in self._pieces(file, schema, options, skip, stream.stream_name):
                for part in split(piece.rows, options.batch_bytes):
                    self._emit(part, options, emitter)
                cursor = cursor.at(file, piece.end)
                if emitter.due():
                    checkpoint()
                if self._host.cancelled():
                    return emitter.summary()
            read.append(file)
            cursor = cursor.behind(file)
        for file in read:
            if reason := changed(file):
                self._host.reject(file_row(file), reason)
        checkpoint()
        return emitter.summary()

    def _new_columns(
        self, found: FileStream, schema: pa.Schema, options: ReadOptions, cursor: FileCursor
    ) -> NewColumns:
        """What is done about columns that the schema lacks, in the files behind the cursor."""
        whole = find_streams(self._config.path, self._config.format).get(found.name, found)
        files = [each for each in whole.files if each.name >= cursor.file]
        return NewColumns(self._host, whole, files, schema, options)

    def _schema(self, stream: FileStream, options: ReadOptions) -> pa.Schema:
        """All columns of a stream, as far as they are known."""
        return with_new(stream_schema(stream, options), stored_columns(self._host, stream.name))

    def _emit(self, rows: pa.RecordBatch, options: ReadOptions, emitter: Emitter) -> None:
        most = min(options.batch_bytes, options.record_bytes)
        if rows.num_rows == 1 and rows.nbytes > most:
            self._host.reject(rows, too_large(rows.nbytes, most))
        else:
            emitter.emit([rows], rows.nbytes)

    def _pieces(
        self, file: DataFile, schema: pa.Schema, options: ReadOptions, skip: int, stream: str
    ) -> Iterator[Piece]:
        """The rows of a file. What can't be read of it is one data error."""

        def reject(number: int, row: pa.RecordBatch, reason: str, column: str = "") -> None:
            place = f"{file.path}, row {number}" + (f", column {column!r}" if column else "")
            details = {"stream": stream, "file": file.name, "line": number, "column": column}
            self._host.reject(row, ConnectorError.data("BAD_ROW", f"{place}: {reason}", details=details))

        try:
            with file_errors(file.path, "read"):
                yield from READERS[file.kind.format](file, schema, options, skip, reject)
        except ConnectorError as error:
            if error.code != "CORRUPT_FILE":
                raise
            self._host.reject(file_row(file), error)

    def _find(self, name: str) -> FileStream:
        streams = find_streams(self._config.path, self._config.format)
        found = streams.get(name)
        if found is None:
            near = did_you_mean(name, streams) or f"there are {', '.join(sorted(streams)[:20]) or 'none'}"
            raise ConnectorError.config("NO_STREAM", f'{self._config.path}: there is no stream "{name}"', hint=near)
        if self._host.partition is None:
            return found
        # What was listed counts: a file that has changed since, or is gone, is a data error.
        now = {each.name: each for each in found.files}
        listed = [
            now[name]._replace(size=size, mtime_ns=mtime_ns)
            if name in now
            else DataFile(name, found.folder / name, size, mtime_ns, kind_of(name))
            for name, size, mtime_ns in self._host.partition["files"]
        ]
        return found._replace(files=listed)

    def _options(self, stream: StreamContext | None = None) -> ReadOptions:
        config = self._config
        limits = stream.limits if stream is not None else None
        return ReadOptions(
            config.header,
            config.delimiter,
            config.quote,
            ["", NULL_TEXT] if config.null_text is None else [config.null_text],
            limits.max_batch_bytes if limits else 8 << 20,
            limits.max_record_bytes if limits else 4 << 20,
            config.text_columns,
        )
