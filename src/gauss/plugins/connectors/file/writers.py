"""Writes rows to files of each format."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gauss.plugins.connectors.file.destination_spec import FileDestinationConfig
from gauss.plugins.connectors.file.formats import COMPRESSION_SUFFIXES, NULL_TEXT, TEXT_FORMATS
from gauss.plugins.connectors.file.json_text import json_objects, text_bytes, to_json
from gauss.plugins.connectors.file.text import is_binary, is_nested, is_text, plain_values, to_text


class _Rows(Protocol):
    """A format's own writer."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def suffix_of(config: FileDestinationConfig) -> str:
    packed = COMPRESSION_SUFFIXES.get(config.codec, "") if config.format in TEXT_FORMATS else ""
    return f".{config.format}{packed}"


class FileWriter:
    """One file. `close` makes its content durable."""

    def __init__(self, path: Path, schema: pa.Schema, config: FileDestinationConfig) -> None:
        self.schema = schema
        self._file = path.open("xb")
        try:
            self._rows = _rows_writer(self._file, schema, config)
        except BaseException:
            self._file.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write_batch(batch)

    def size(self) -> int:
        """Bytes that have reached the file."""
        self._file.flush()
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        self._rows.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Closes a file that will be removed."""
        try:
            self._rows.close()
        except (OSError, ValueError, pa.ArrowException):
            pass  # a full disk, most likely, which is known already
        try:
            self._file.close()
        except OSError:
            pass


def _rows_writer(file: io.BufferedWriter, schema: pa.Schema, config: FileDestinationConfig) -> _Rows:
    if config.format == "parquet":
        return _Parquet(file, schema, config.codec)
    if config.format == "arrow":
        return _Arrow(file, schema, config.codec)
    sink = file if config.codec == "none" else _packed(file, config.codec)
    return _Csv(sink, schema, config.delimiter) if config.format == "csv" else _Jsonl(sink, schema)


def _packed(file: io.BufferedWriter, codec: str) -> pa.CompressedOutputStream:
    """Compresses into a file. Its end closes a handle of its own, since the file is still to be synced."""
    return pa.CompressedOutputStream(pa.PythonFile(os.fdopen(os.dup(file.fileno()), "wb"), "w"), codec)


class _Parquet:
    def __init__(self, file: io.BufferedWriter, schema: pa.Schema, codec: str) -> None:
        self._writer = pq.ParquetWriter(file, schema, compression=codec, version="2.6", store_schema=True)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Arrow:
    """IPC files have one dictionary for all batches, so that values are written without one."""

    def __init__(self, file: io.BufferedWriter, schema: pa.Schema, codec: str) -> None:
        self._schema = pa.schema([each.with_type(_without_dictionary(each.type)) for each in schema])
        options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
        self._writer = pa.ipc.new_file(file, self._schema, options=options)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_without_dictionary(each.type)) for each in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_dictionary(kind.value_type)))
    return kind


class _Jsonl:
    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        self._sink, self._names = sink, list(schema.names)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        lines = json_objects(self._names, batch.columns, batch.num_rows)
        self._sink.write(text_bytes(pc.binary_join_element_wise(lines, "\n", "")))

    def close(self) -> None:
        _finish(self._sink)


class _Csv:
    def __init__(self, sink: Any, schema: pa.Schema, delimiter: str) -> None:
        self._sink, self._delimiter = sink, delimiter
        header = _csv_quoted(pa.array(schema.names, pa.string())).to_pylist()
        sink.write((delimiter.join(header) + "\n").encode())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        cells = [_cells(plain_values(column)) for column in batch.columns]
        lines = pc.binary_join_element_wise(*cells, self._delimiter)
        self._sink.write(text_bytes(pc.binary_join_element_wise(lines, "\n", "")))

    def close(self) -> None:
        _finish(self._sink)


def _cells(values: pa.Array) -> pa.Array:
    if is_nested(values.type):
        text = pc.if_else(values.is_valid(), to_json(values), pa.scalar(None, pa.string()))
    else:
        text = to_text(values)
    quoted = is_nested(values.type) or is_text(values.type) or is_binary(values.type)
    return pc.fill_null(_csv_quoted(text) if quoted else text, NULL_TEXT)


def _csv_quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")


def _finish(sink: Any) -> None:
    """Ends a compressed stream; the file below it is closed by its owner."""
    if isinstance(sink, pa.CompressedOutputStream):
        sink.close()
