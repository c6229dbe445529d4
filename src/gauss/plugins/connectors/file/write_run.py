"""Writes the batches of one run of a stream, or of a partition of it, and commits at its marks."""

from __future__ import annotations

import time

import msgspec
import pyarrow as pa

from gauss.contracts.connector.commits import Commits
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Host, Mark, Opaque
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.progress import WriteSummary
from gauss.contracts.connector.stream import StreamContext
from gauss.plugins.connectors.file.column_types import check_types
from gauss.plugins.connectors.file.commit_writer import CommitWriter
from gauss.plugins.connectors.file.data_folder import DataFolder, Writer, Written
from gauss.plugins.connectors.file.stream_store import StreamStore


class Target:
    """Where a writer commits."""

    def __init__(self, store: StreamStore, folder: DataFolder, writer: Writer, *, staged: bool) -> None:
        """`staged`: all rows are one commit, and become visible later."""
        self.folder, self.writer, self.staged = folder, writer, staged
        self._store = store
        self.last = folder.written(writer)

    def commit(self, after: Written, schema: pa.Schema | None) -> None:
        """Commits rows with their watermark. `schema`: for a folder that has none yet."""
        self._store.commit(self.folder, self.writer, after, before=self.last, schema=schema)
        self.last = after


class WriteRun:
    """A run of a stream."""

    def __init__(self, host: Host, stream: StreamContext, target: Target, rows: CommitWriter) -> None:
        self._host, self._stream, self._target, self._rows = host, stream, target, rows
        last = target.last
        rows.count = last.count if last is not None and last.generation == host.generation else 0
        # Another attempt at this partition has written all of it already.
        self._done = target.staged and last is not None and last.done
        self._schema: pa.Schema | None = None
        self._commits = Commits(host, stream.stream_name)

    def __call__(self) -> WriteSummary:
        self._commits.run(self._write, self._commit, at_end=self._target.staged)
        self._commits.check_end()
        return self._commits.end()

    def _write(self, batch: Batch) -> None:
        rows = batch.rows
        if isinstance(rows, Opaque):
            raise ConnectorError.internal("OPAQUE", f"expected Arrow batches, found {rows.kind}")
        began = time.monotonic()
        if self._schema is None:
            check_types(rows.schema, self._rows.format)
            self._schema = rows.schema
        if not self._done:
            self._rows.write(rows)
        self._commits.wrote(rows.num_rows, rows.nbytes, began)

    def _commit(self, mark: Mark) -> None:
        if self._done:
            return
        files = self._rows.take()
        writer = self._target.writer
        cursor = None if mark.cursor is None else msgspec.json.decode(encode(mark.cursor))
        after = Written(
            pipeline=writer.pipeline,
            partition=writer.partition,
            generation=self._host.generation,
            id=mark.id,
            cursor=cursor,
            done=mark.final,
            files=files,
            count=self._rows.count,
        )
        self._target.commit(after, self._schema)
