"""The rows of one commit, in temporary files."""

from __future__ import annotations

import uuid

import pyarrow as pa

from gauss.plugins.connectors.file.data_folder import DataFolder, Writer, final_name, temporary_name
from gauss.plugins.connectors.file.destination_spec import FileDestinationConfig
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.writers import FileWriter, suffix_of

GATHERED_BYTES = 8 << 20
"""Small batches are written together: each is a row group, or a batch of a file."""


class CommitWriter:
    """Writes rows to temporary files until they are taken for a commit."""

    def __init__(self, folder: DataFolder, writer: Writer, config: FileDestinationConfig, generation: int) -> None:
        self._folder, self._writer, self._config, self._generation = folder, writer, config, generation
        self._attempt = uuid.uuid4().hex
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._file: FileWriter | None = None
        self._names: list[tuple[str, str]] = []
        self.count = 0
        """Files that the run has written, with those of earlier commits."""

    @property
    def format(self) -> str:
        return self._config.format

    def write(self, batch: pa.RecordBatch) -> None:
        if self._gathered and not batch.schema.equals(self._gathered[0].schema):
            self._flush()
        self._gathered.append(batch)
        self._gathered_bytes += batch.nbytes
        if self._gathered_bytes >= min(GATHERED_BYTES, self._config.max_file_bytes):
            self._flush()

    def take(self) -> list[tuple[str, str]]:
        """Closes the files; returns their temporary and final names, for a commit."""
        self._flush()
        self._close()
        taken, self._names = self._names, []
        return taken

    def abandon(self) -> None:
        """Removes what was not taken."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        for temporary, _ in self._names:
            (self._folder.path / temporary).unlink(missing_ok=True)
        self._names.clear()
        self._gathered.clear()
        self._gathered_bytes = 0

    def _flush(self) -> None:
        if not self._gathered:
            return
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        with file_errors(self._folder.path, "write"):
            for batch in pa.Table.from_batches(gathered).combine_chunks().to_batches():
                self._opened(batch.schema).write(batch)
            if self._file is not None and self._file.size() >= self._config.max_file_bytes:
                self._close()

    def _opened(self, schema: pa.Schema) -> FileWriter:
        if self._file is not None and not self._file.schema.equals(schema):
            self._close()
        if self._file is None:
            self.count += 1
            temporary = temporary_name(self._writer, self._attempt, self.count)
            final = final_name(self._writer, self._generation, self.count, suffix_of(self._config))
            self._names.append((temporary, final))
            self._file = FileWriter(self._folder.path / temporary, schema, self._config)
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            with file_errors(self._folder.path, "write"):
                self._file.close()
            self._file = None
