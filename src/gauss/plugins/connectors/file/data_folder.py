"""A folder of data files with the watermarks of its writers.

A commit takes these steps, and is made by the third:
1. rows are written to hidden temporary files in the folder, and synced;
2. the new watermark, which lists these files with their final names, is written beside the old one, and synced;
3. it is renamed over the old one;
4. the files get their final names.

After a crash, `recover` does step 4 for what the watermarks list, and removes all other temporary files. So rows and
cursor are committed together, however many files they have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from gauss.contracts.connector.errors import FENCED, ConnectorError
from gauss.plugins.connectors.file.atomic import make_folder, sync_folder, write_whole
from gauss.plugins.connectors.file.listing import HIDDEN, SCHEMA_FILE, SIDE_FOLDER
from gauss.plugins.connectors.file.schemas import read_schema

_WATERMARK = "watermark-"
_TEMPORARY = ".tmp-"
_COMPLETE = "complete.json"
T = TypeVar("T")
_READABLE = re.compile(r"[A-Za-z0-9_]{1,32}")


class Written(msgspec.Struct, frozen=True):
    """The watermark of a writer, with what it needs to go on."""

    pipeline: str
    partition: str
    generation: int
    id: int
    cursor: Any
    """In the JSON form of a CursorValue."""
    done: bool
    files: list[tuple[str, str]]
    """Temporary and final names of the files of the last commit."""
    count: int
    """How many files the run has written: a part of their names."""


class Complete(msgspec.Struct, frozen=True):
    """The last full refresh that was made visible."""

    pipeline: str
    generation: int


class Writer(msgspec.Struct, frozen=True):
    """Who writes: a sync, and the partition that it writes."""

    pipeline: str
    partition: str

    @property
    def token(self) -> str:
        """Its part of file names: two writers never use the same name."""
        return f"{digest(self.pipeline)}{digest(self.partition) if self.partition else ''}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


class DataFolder:
    """The folder of a stream, or the one that is to replace it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._side = path / SIDE_FOLDER

    def make(self) -> None:
        make_folder(self._side)

    def foreign(self, *, keep: bool) -> list[str]:
        """What a full refresh would remove from a folder that no destination has written. `keep`: but for files."""
        if self._side.is_dir() or not self.path.is_dir():
            return []
        kept = {path.name for path in self.files()} if keep else set()
        return sorted(path.name for path in self.path.iterdir() if path.name not in kept)

    # --- columns ---

    def schema(self) -> pa.Schema | None:
        return read_schema(self._side / SCHEMA_FILE)

    def set_schema(self, schema: pa.Schema) -> None:
        write_whole(self._side / SCHEMA_FILE, bytes(schema.serialize()))
        sync_folder(self._side)

    # --- watermarks ---

    def written(self, writer: Writer) -> Written | None:
        """What a writer has committed; None if nothing."""
        return _load(self._watermark(writer), Written)

    def commit(self, writer: Writer, before: Written | None, after: Written) -> None:
        """Steps 2 and 3. Raises ConnectorError if the writer has committed something else meanwhile."""
        if self.written(writer) != before:
            raise ConnectorError.internal(
                FENCED,
                f"{self.path}: another attempt has written partition {writer.partition!r} meanwhile",
                hint="nothing is to be done: the rows of that attempt count",
            )
        sync_folder(self.path)
        write_whole(self._watermark(writer), msgspec.json.encode(after))

    def publish(self, after: Written) -> None:
        """Step 4, after the watermark has become durable. Idempotent."""
        sync_folder(self._side)
        for temporary, final in after.files:
            if (self.path / temporary).exists():
                (self.path / temporary).rename(self.path / final)
        if after.files:
            sync_folder(self.path)

    def recover(self, pipeline: str) -> None:
        """Completes all commits, and removes what attempts of a sync have left."""
        if not self._side.is_dir():
            return
        for path in self._side.glob(f"{_WATERMARK}*.json"):
            found = _load(path, Written)
            if found is not None:
                self.publish(found)
        for path in self.path.glob(f"{_TEMPORARY}{digest(pipeline)}*"):
            path.unlink(missing_ok=True)

    def _watermark(self, writer: Writer) -> Path:
        label = f"-{writer.partition}" if _READABLE.fullmatch(writer.partition) else ""
        return self._side / f"{_WATERMARK}{writer.token}{label}.json"

    # --- full refreshes ---

    def complete(self) -> Complete | None:
        return _load(self._side / _COMPLETE, Complete)

    def set_complete(self, complete: Complete) -> None:
        write_whole(self._side / _COMPLETE, msgspec.json.encode(complete))
        sync_folder(self._side)
        sync_folder(self.path)

    def link_files(self, other: DataFolder) -> None:
        """Adds the data files of another folder, without a copy. Idempotent."""
        for path in other.files():
            _link(path, self.path / path.name)

    def link_watermarks(self, other: DataFolder, pipeline: str) -> None:
        """Adds the watermarks of another folder that are not those of a sync. Idempotent."""
        for path in other._side.glob(f"{_WATERMARK}*.json"):
            if not path.name.startswith(f"{_WATERMARK}{digest(pipeline)}"):
                _link(path, self._side / path.name)

    def files(self) -> Iterator[Path]:
        for path in self.path.iterdir():
            if path.is_file() and not path.name.startswith(HIDDEN):
                yield path


def _link(path: Path, name: Path) -> None:
    if not name.exists():
        name.hardlink_to(path)


def temporary_name(writer: Writer, attempt: str, number: int) -> str:
    return f"{_TEMPORARY}{writer.token}-{attempt}-{number}"


def final_name(writer: Writer, generation: int, number: int, suffix: str) -> str:
    """Names sort in the order of runs, and within a run in that of writing."""
    return f"{generation:016d}-{number:08d}-{writer.token}{suffix}"


def _load(path: Path, kind: type[T]) -> T | None:
    """None if there is no file; raises ConnectorError if it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConnectorError.internal(
            "DAMAGED", f"{path} is damaged: {error}", hint="restore it, or remove the folder to write the stream anew"
        ) from error
