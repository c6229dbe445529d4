"""Reads parquet and arrow files, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gauss.plugins.connectors.file.listing import DataFile
from gauss.plugins.connectors.file.reading import Piece, ReadOptions, Reject, check_names, convert_rows

_MAGIC = b"ARROW1"
_MOST_ROWS = 1 << 16


def read_parquet(file: DataFile, schema: pa.Schema, options: ReadOptions, skip: int, reject: Reject) -> Iterator[Piece]:
    """The rows of a file behind its first `skip`; row groups before it are not read."""
    with pq.ParquetFile(file.path, buffer_size=1 << 20) as parquet:
        check_names(file, parquet.schema_arrow.names, schema, options, lambda: infer_parquet(file))
        yield from _pieces(_parquet_batches(parquet, schema, options, skip), schema, skip, reject)


def infer_parquet(file: DataFile) -> pa.Schema:
    return pq.read_schema(file.path).remove_metadata()


def _parquet_batches(
    parquet: pq.ParquetFile, schema: pa.Schema, options: ReadOptions, skip: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with the number of rows before each."""
    before = 0
    columns = [each for each in parquet.schema_arrow.names if each in schema.names]
    for group in range(parquet.num_row_groups):
        meta = parquet.metadata.row_group(group)
        if before + meta.num_rows <= skip or not meta.num_rows:
            before += meta.num_rows
            continue
        width = max(meta.total_byte_size // meta.num_rows, 1)
        size = int(min(max(options.batch_bytes // width, 1), _MOST_ROWS))
        for batch in parquet.iter_batches(size, row_groups=[group], columns=columns, use_threads=False):
            yield before, batch
            before += batch.num_rows


def read_arrow(file: DataFile, schema: pa.Schema, options: ReadOptions, skip: int, reject: Reject) -> Iterator[Piece]:
    """The rows of an IPC file or stream behind its first `skip`."""
    if options.on_new_columns is not None:
        found = infer_arrow(file)
        check_names(file, found.names, schema, options, lambda: found)
    with pa.OSFile(str(file.path)) as data:
        yield from _pieces(_arrow_batches(data), schema, skip, reject)


def infer_arrow(file: DataFile) -> pa.Schema:
    with pa.OSFile(str(file.path)) as data:
        reader = pa.ipc.open_file(data) if _is_file(data) else pa.ipc.open_stream(data)
        return reader.schema.remove_metadata()


def _is_file(data: pa.NativeFile) -> bool:
    start = data.read(len(_MAGIC))
    data.seek(0)
    return bytes(start) == _MAGIC


def _arrow_batches(data: pa.NativeFile) -> Iterator[tuple[int, pa.RecordBatch]]:
    before = 0
    if _is_file(data):
        reader = pa.ipc.open_file(data)
        batches = (reader.get_batch(place) for place in range(reader.num_record_batches))
    else:
        batches = iter(pa.ipc.open_stream(data))
    for batch in batches:
        batch.validate(full=True)
        yield before, batch
        before += batch.num_rows


def _pieces(
    batches: Iterator[tuple[int, pa.RecordBatch]], schema: pa.Schema, skip: int, reject: Reject
) -> Iterator[Piece]:
    for before, batch in batches:
        end = before + batch.num_rows
        if end <= skip or not batch.num_rows:
            continue
        drop = max(skip - before, 0)
        rows = batch.slice(drop)
        if not rows.schema.equals(schema):
            numbers = np.arange(before + drop + 1, end + 1)
            rows = convert_rows(rows, schema, _cast, numbers, reject)
        if rows.num_rows:
            yield Piece(rows, end)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if isinstance(values.type, pa.BaseExtensionType):
        return _cast(values.storage, kind)
    return values.cast(kind, safe=True)
