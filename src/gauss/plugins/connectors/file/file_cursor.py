"""The place in the files of a stream, as the cursor of incremental reads."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from gauss.contracts.connector.cursor import CursorInfo, CursorValue, JsonCursor
from gauss.contracts.connector.errors import ConnectorError, ErrorScope
from gauss.contracts.connector.host import Host
from gauss.plugins.connectors.file.listing import DataFile


class FileCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Behind `rows` records of `file`, and behind all files whose name sorts before it."""

    file: str = ""
    rows: int = 0
    done: bool = True
    """Whether the file is read to its end."""
    size: int = 0
    mtime_ns: int = 0
    newest_ns: int = 0
    """The last time at which one of the files that were read had changed. A file before the cursor that is newer has
    changed since, or was added."""

    @classmethod
    def of(cls, info: CursorInfo | None) -> FileCursor:
        """The cursor of the last run; raises ConnectorError."""
        if info is None or info.last_value is None:
            return cls()
        try:
            return msgspec.convert(info.last_value.value if isinstance(info.last_value, JsonCursor) else None, cls)
        except msgspec.ValidationError as error:
            raise ConnectorError.config(
                "BAD_CURSOR",
                f"the stored cursor is not one of files: {error}",
                hint="reset the state of the stream, so that all files are read again",
            ) from error

    def value(self) -> CursorValue:
        return JsonCursor(msgspec.to_builtins(self))

    def at(self, file: DataFile, rows: int) -> FileCursor:
        """Inside a file."""
        return FileCursor(file.name, rows, False, file.size, file.mtime_ns, max(self.newest_ns, file.mtime_ns))

    def behind(self, file: DataFile) -> FileCursor:
        """At the end of a file. One that sorts before the cursor was only looked at."""
        newest = max(self.newest_ns, file.mtime_ns)
        if file.name < self.file:
            return msgspec.structs.replace(self, newest_ns=newest)
        rows = self.rows if file.name == self.file else 0
        return FileCursor(file.name, rows, True, file.size, file.mtime_ns, newest)


def select(files: list[DataFile], cursor: FileCursor, host: Host) -> Iterator[tuple[DataFile, int | None]]:
    """The files to read, in order, with the number of records to skip. Those that have changed since they were read are
    rejected, and come with None."""
    for file in files:
        if file.name > cursor.file:
            yield file, 0
        elif file.name < cursor.file:
            if file.mtime_ns > cursor.newest_ns:
                host.reject(file_row(file), _changed(file, "was added or changed after later files were read"))
                yield file, None
        elif (file.size, file.mtime_ns) != (cursor.size, cursor.mtime_ns):
            host.reject(file_row(file), _changed(file, "has changed since it was read"))
            yield file, None
        elif not cursor.done:
            yield file, cursor.rows


def changed(file: DataFile) -> ConnectorError | None:
    """The error of a file that has changed since it was listed; None if it has not."""
    try:
        state = file.path.stat()
    except FileNotFoundError:
        return _changed(file, "was removed while it was to be read")
    if (state.st_size, state.st_mtime_ns) == (file.size, file.mtime_ns):
        return None
    return _changed(file, "was changed while it was read")


def file_row(file: DataFile) -> pa.RecordBatch:
    """A file as a row for the dead letters."""
    return pa.record_batch(
        {
            "file": pa.array([str(file.path)], pa.string()),
            "size": pa.array([file.size], pa.int64()),
            "mtime_ns": pa.array([file.mtime_ns], pa.int64()),
        }
    )


def _changed(file: DataFile, how: str) -> ConnectorError:
    return ConnectorError.data(
        "FILE_CHANGED",
        f"{file.path} {how}",
        scope=ErrorScope.STREAM,
        hint="write new rows to a new file whose name sorts last; or read all files again by resetting the state",
        details={"file": file.name},
    )
