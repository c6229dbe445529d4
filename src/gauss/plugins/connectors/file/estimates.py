"""About how many rows a stream of files has."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq

from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.file.formats import TEXT_FORMATS
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.listing import DataFile, FileStream

HEAD_BYTES = 1 << 20


def estimated_rows(stream: FileStream) -> int | None:
    """The bytes of all files by the rows per byte of the largest one. None if that can't be read."""
    largest = max(stream.files, key=lambda each: each.size, default=None)
    if largest is None or not largest.size:
        return 0
    try:
        with file_errors(largest.path, "read"):
            rows, size = _head(largest)
    except ConnectorError:
        return None
    return round(sum(each.size for each in stream.files) * rows / size) if size else None


def _head(file: DataFile) -> tuple[int, int]:
    """Rows, and the bytes of the file that hold them: of its beginning, or of all of it."""
    if file.kind.format == "parquet":
        return pq.read_metadata(file.path).num_rows, file.size
    with pa.OSFile(str(file.path)) as raw:
        if file.kind.format not in TEXT_FORMATS:
            return _arrow(raw, file.size)
        compression = file.kind.compression
        with pa.CompressedInputStream(raw, compression) if compression else nullcontext(raw) as data:
            return data.read(HEAD_BYTES).count(b"\n"), raw.tell()


def _arrow(raw: pa.NativeFile, size: int) -> tuple[int, int]:
    """By the first batch: the format counts batches only."""
    try:
        file = pa.ipc.open_file(raw)
        return (file.get_batch(0).num_rows * file.num_record_batches if file.num_record_batches else 0), size
    except pa.ArrowInvalid:  # a stream
        raw.seek(0)
        first = next(iter(pa.ipc.open_stream(raw)), None)
        return (0, size) if first is None else (first.num_rows, raw.tell())
