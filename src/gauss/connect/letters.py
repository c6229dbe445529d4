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
        self._grouped: tuple[tuple[int, int, int], list[Letter]] | None = None

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
        """How many there are."""
        return sum(group["count"] for group in self.groups())

    def groups(self) -> list[dict[str, Any]]:
        """Counts by side and reason, in the form of those of a run; read again only if the file has changed."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return []
        key = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._grouped is None or self._grouped[0] != key:
            self._grouped = key, grouped(self.sync, self)
        return self._grouped[1]

    def newest(self, fits: Callable[[int, Letter], bool]) -> list[Letter]:
        """The letters that fit, with their sync and number, the newest first."""
        found = [
            {"sync": self.sync, "number": number, **{key: value for key, value in letter.items() if key != "id"}}
            for number, letter in enumerate(self, 1)
            if fits(number, letter)
        ]
        return sorted(found, key=age, reverse=True)

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


def kept_letters(data_dir: Path, known: dict[str, SyncLetters] | None = None) -> list[SyncLetters]:
    """The letters of all syncs that have some, by name. `known`: those of an earlier call, which need not be read again
    if they have not changed; others are added."""
    folder, known = data_dir / "connect" / "letters", {} if known is None else known
    names = sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"[!.]*{SUFFIX}"))
    return [found for name in names if (found := known.setdefault(name, SyncLetters(folder, name))).count()]


def age(letter: Letter) -> tuple[int, int]:
    """What orders numbered letters by their time."""
    return letter["ts_ms"], letter["number"]


def grouped(sync: str, letters: Iterable[Letter]) -> list[dict[str, Any]]:
    """Counts of the letters of a sync by side and reason."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for letter in letters:
        first = {
            "reason": letter["reason"],
            "stage": letter["side"],
            "processor": "",
            "sync": sync,
            "count": 0,
            "first_ts_ms": letter["ts_ms"],
            "last_ts_ms": letter["ts_ms"],
        }
        group = found.setdefault((letter["side"], letter["reason"]), first)
        group["count"] += 1
        group["first_ts_ms"] = min(group["first_ts_ms"], letter["ts_ms"])
        group["last_ts_ms"] = max(group["last_ts_ms"], letter["ts_ms"])
    return list(found.values())


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
