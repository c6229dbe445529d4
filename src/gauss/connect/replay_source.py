"""A source that emits dead letters."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.attempt import Side
from gauss.contracts.connector.cursor import JsonCursor
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.lifecycle import (
    Catalog,
    ConfigBlob,
    Feature,
    JsonConfig,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, ReadSummary
from gauss.contracts.connector.stream import StreamContext

TOKEN_FIELD, CHUNK_FIELD = "replay", "chunk"


def letter_side(rows: pa.RecordBatch, token: str, chunk: int) -> Side:
    """The source side of one chunk."""
    return Side(lambda host: _LetterSource(host, rows, token, chunk), "source-letters", "1", JsonConfig({}))


class _LetterSource:
    """Emits one chunk, with the number of the chunk as its cursor. Implements `Source`."""

    def __init__(self, host: Host, rows: pa.RecordBatch, token: str, chunk: int) -> None:
        self._host, self._rows, self._token, self._chunk = host, rows, token, chunk

    def open(self, context: OpenContext) -> OpenInfo:  # noqa: ARG002
        return OpenInfo(features=[Feature.CDC])

    def validate(self, config: ConfigBlob) -> ValidationResult:  # noqa: ARG002
        return ValidationResult(ValidationStatus.SUCCESS)

    def discover(self) -> Catalog:
        return Catalog([])

    def run_read(self, stream: StreamContext) -> ReadSummary:
        batches = 0
        for start, stop in _pieces(self._rows, stream.limits.max_batch_bytes):
            self._host.emit_batch(self._rows.slice(start, stop - start))
            batches += 1
        # One checkpoint, so that the chunk is committed as a whole.
        cursor = JsonCursor({TOKEN_FIELD: self._token, CHUNK_FIELD: self._chunk})
        self._host.checkpoint(Checkpoint(batches, CheckpointKind.SOURCE, stream.stream_name, None, cursor))
        return ReadSummary(self._rows.num_rows, self._rows.nbytes, batches, 1)

    def close(self) -> None:
        pass


def _pieces(rows: pa.RecordBatch, most: int) -> list[tuple[int, int]]:
    """Ranges of rows of at most so many bytes each; a single row may have more."""
    found, waiting = [], [(0, rows.num_rows)]
    while waiting:
        start, stop = waiting.pop()
        if stop - start > 1 and rows.slice(start, stop - start).nbytes > most:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
        else:
            found.append((start, stop))
    return found
