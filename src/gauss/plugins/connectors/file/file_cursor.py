"""The place in the files of a stream, as the cursor of incremental reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from gauss.contracts.connector.cursor import CursorInfo, CursorValue, JsonCursor
from gauss.contracts.connector.errors import ConnectorError, ErrorScope
from gauss.contracts.connector.host import Host
from gauss.plugins.connectors.file.formats import kind_of
from gauss.plugins.connectors.file.listing import DataFile, FileStream


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
    files: int = -1
    """How many files there were up to this one; -1: not known. One that is moved here keeps its time: only the count
    tells that it was added."""

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
        newest = max(self.newest_ns, file.mtime_ns)
        return FileCursor(
            file.name, rows, False, file.size, file.mtime_ns, newest, self.files + (file.name > self.file)
        )

    def behind(self, file: DataFile) -> FileCursor:
        """At the end of a file. One that sorts before the cursor was only looked at."""
        newest = max(self.newest_ns, file.mtime_ns)
        if file.name < self.file:
            return msgspec.structs.replace(self, newest_ns=newest)
        return msgspec.structs.replace(self.at(file, self.rows if file.name == self.file else 0), done=True)


def resumed(cursor: FileCursor, stream: FileStream, host: Host) -> FileCursor:
    """The cursor of the last run among the files of this one. Files before it that are gone though they were not read
    to their end, or were added since, are rejected."""
    before = [each for each in stream.files if each.name <= cursor.file]
    if not cursor.done and (not before or before[-1].name != cursor.file):
        path = stream.folder / cursor.file
        lost = DataFile(cursor.file, path, cursor.size, cursor.mtime_ns, kind_of(path.name))
        host.reject(
            file_row(lost), _changed(lost.path, cursor.file, "was removed or renamed before it was read to its end")
        )
        cursor = msgspec.structs.replace(cursor, done=True)
    # Those that are newer are rejected one by one.
    older = sum(each.mtime_ns <= cursor.newest_ns for each in before)
    if 0 <= cursor.files < older:
        added = older - cursor.files
        how = f"has {added} new file{'s' if added > 1 else ''} before {cursor.file}, which was read already"
        rows = pa.record_batch({"folder": [str(stream.folder)], "added": [added], "before": [cursor.file]})
        host.reject(rows, _changed(stream.folder, cursor.file, how))
    return msgspec.structs.replace(cursor, files=len(before))


def select(files: list[DataFile], cursor: FileCursor, host: Host) -> Iterator[tuple[DataFile, int | None]]:
    """The files to read, in order, with the number of records to skip. Those that have changed since they were read are
    rejected, and come with None."""
    for file in files:
        if file.name > cursor.file:
            yield file, 0
        elif file.name < cursor.file:
            if file.mtime_ns > cursor.newest_ns:
                host.reject(
                    file_row(file), _changed(file.path, file.name, "was added or changed after later files were read")
                )
                yield file, None
        elif (file.size, file.mtime_ns) != (cursor.size, cursor.mtime_ns):
            host.reject(file_row(file), _changed(file.path, file.name, "has changed since it was read"))
            yield file, None
        elif not cursor.done:
            yield file, cursor.rows


def changed(file: DataFile) -> ConnectorError | None:
    """The error of a file that has changed since it was listed; None if it has not."""
    try:
        state = file.path.stat()
    except FileNotFoundError:
        return _changed(file.path, file.name, "was removed while it was to be read")
    if (state.st_size, state.st_mtime_ns) == (file.size, file.mtime_ns):
        return None
    return _changed(file.path, file.name, "was changed while it was read")


def file_row(file: DataFile) -> pa.RecordBatch:
    """A file as a row for the dead letters."""
    return pa.record_batch(
        {
            "file": pa.array([str(file.path)], pa.string()),
            "size": pa.array([file.size], pa.int64()),
            "mtime_ns": pa.array([file.mtime_ns], pa.int64()),
        }
    )


def _changed(path: Path, name: str, how: str) -> ConnectorError:
    return ConnectorError.data(
        "FILE_CHANGED",
        f"{path} {how}",
        scope=ErrorScope.STREAM,
        hint="write new rows to a new file whose name sorts last; or read all files again by resetting the state",
        details={"file": name},
    )
