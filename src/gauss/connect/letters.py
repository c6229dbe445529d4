"""Dead letters of syncs: rows that could not be read or written, in a file per sync."""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.connect.arrow_ipc import read_batch, write_batch
from gauss.contracts.connector.errors import ConnectorError
from gauss.model.errors import DiskFull, StorageError

SHOWN_BYTES = 64 << 10
"""Maximum size of the readable form of a row; the row itself is kept whole."""
SUFFIX = ".jsonl"
Letter = dict[str, Any]


class SyncLetters:
    """The dead letters of one sync. Thread-safe; a letter is on disk when `add` returns, or `settle` after it."""

    def __init__(self, folder: Path, sync: str) -> None:
        self.sync = sync
        self._path = folder / f"{sync}{SUFFIX}"
        self._lock = threading.Lock()
        self._known: set[str] | None = None
        """Ids of letters that are there or were added by this process; read at the first `add`."""
        self._counted: tuple[tuple[int, int, int], int] | None = None

    def add(
        self,
        stream: str,
        side: str,
        rows: pa.RecordBatch,
        error: ConnectorError,
        run: str,
        *,
        ids: list[str] | None = None,
        settle: bool = True,
    ) -> int:
        """Keeps rows, one letter each, but for those whose id was kept before. Returns how many are new. Without
        `settle` they may be lost with the machine until `settle` is called."""
        letters = [make_letter(stream, side, rows.slice(index, 1), error, run) for index in range(rows.num_rows)]
        if ids is not None:
            letters = [{**letter, "id": id} for letter, id in zip(letters, ids, strict=True)]
        with self._locked():
            if self._known is None:
                self._known = {letter["id"] for letter in self}
            new = [letter for letter in letters if letter["id"] not in self._known]
            if new:
                known, self._known = self._known, None  # read again if only some of them get there
                append_lines(self._path, new, settle=settle)
                known.update(letter["id"] for letter in new)
                self._known = known
        return len(new)

    def settle(self) -> None:
        """Makes all letters durable."""
        with self._locked():
            if self._path.exists():
                with self._path.open("rb") as file:
                    os.fsync(file.fileno())

    def __iter__(self) -> Iterator[Letter]:
        """All letters, the oldest first. A line that a crash left incomplete is passed over."""
        return read_lines(self._path)

    def count(self) -> int:
        """How many there are; counted again only if the file has changed."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return 0
        key = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._counted is None or self._counted[0] != key:
            self._counted = key, sum(1 for _ in self)
        return self._counted[1]

    def remove(self, is_removed: Callable[[int, Letter], bool], back: Iterable[Letter] = ()) -> int:
        """Removes letters, by their number and content, and adds others, in one step. Returns how many it removed."""
        removed = 0
        with self._locked():
            temporary = self._path.with_name(f".{self._path.name}.new")
            with open(temporary, "wb", opener=_private) as file:
                for number, letter in enumerate(self, 1):
                    if is_removed(number, letter):
                        removed += 1
                    else:
                        file.write(_line(letter))
                file.writelines(_line(letter) for letter in back)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
            _sync_folder(self._path.parent)
        return removed

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Against other threads and processes: a file that is replaced must not be appended to. Raises StorageError if
        it can't be written."""
        with disk_errors("dead letters", self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, open(self._path.with_name(f".{self._path.name}.lock"), "a", opener=_private) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield


@contextlib.contextmanager
def disk_errors(what: str, path: Path) -> Iterator[None]:
    """Raises DiskFull or another StorageError if something can't be written to a file."""
    try:
        yield
    except OSError as error:
        message = f"{what} can't be written to {path}: "
        if error.errno == errno.ENOSPC:
            raise DiskFull(message + "the disk is full", hint="free some space, then run it again") from error
        raise StorageError(message + str(error.strerror or error)) from error


def kept_letters(data_dir: Path) -> list[SyncLetters]:
    """The letters of all syncs that have some, by name."""
    folder = data_dir / "connect" / "letters"
    names = sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"[!.]*{SUFFIX}"))
    return [found for name in names if (found := SyncLetters(folder, name)).count()]


def make_letter(stream: str, side: str, row: pa.RecordBatch, error: ConnectorError, run: str) -> Letter:
    """The letter of a row that was refused for the first time."""
    return {
        "id": secrets.token_hex(8),
        "ts_ms": time.time_ns() // 1_000_000,
        "stream": stream,
        "side": side,
        "run": run,
        "reason": error.code,
        "detail": error.message,
        "attempts": 1,
        "row": shown(row),
        "ipc": base64.b64encode(write_batch(row)).decode(),
    }


def row_of(letter: Letter) -> pa.RecordBatch:
    """The row of a letter; raises ConnectorError."""
    return read_batch(base64.b64decode(letter["ipc"]))


def append_lines(path: Path, lines: Iterable[dict[str, Any]], *, settle: bool = True) -> None:
    """Appends JSON objects to a private file; with `settle` they are on disk when it returns."""
    with open(path, "ab+", opener=_private) as file:
        if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            file.write(b"\n")  # behind a line that a crash left incomplete
        file.writelines(_line(each) for each in lines)
        file.flush()
        if settle:
            os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file; incomplete lines are passed over."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield {"attempts": 1, "id": hashlib.sha256(line).hexdigest()[:16], **found}


def shown(row: pa.RecordBatch) -> dict[str, Any]:
    """A row as JSON types, for people."""
    values = {name: shown_value(column[0]) for name, column in zip(row.schema.names, row.columns, strict=True)}
    found: dict[str, Any] = json.loads(json.dumps(values, default=_plain))
    text = json.dumps(found)
    return found if len(text) <= SHOWN_BYTES else {"truncated": text[:SHOWN_BYTES]}


def shown_value(value: pa.Scalar) -> Any:
    """A value for people; as text if Python has no such value, such as a time in the year 30000."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        try:
            return value.cast(pa.string()).as_py()
        except pa.ArrowException:
            return f"a {value.type} that can't be shown"


def _plain(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _line(value: dict[str, Any]) -> bytes:
    # A lone surrogate becomes an escape of JSON.
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
