"""The streams and files of a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gauss import registry
from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.file.formats import FileKind, kind_of
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.names import is_continued, stream_name

HIDDEN = (".", "_")
SIDE_FOLDER = "_gauss"
"""The folder of a stream with what a destination must know of it."""
SCHEMA_FILE = "schema.arrow"
_WILD = "*?["


class DataFile(NamedTuple):
    """A file of a stream, as it was when it was listed."""

    name: str
    """Relative to the folder of the stream, with `/`."""
    path: Path
    size: int
    mtime_ns: int
    kind: FileKind


class FileStream(NamedTuple):
    """The files of a stream, sorted by name."""

    name: str
    folder: Path
    files: list[DataFile]

    @property
    def schema_file(self) -> Path:
        """The columns of a stream that a destination has written."""
        return self.folder / SIDE_FOLDER / SCHEMA_FILE


def resolve(path: str) -> Path:
    """A path of a config; a relative one is beside the config file."""
    return Path(os.environ.get(registry.PLUGIN_DIR, ""), path).absolute()


def find_streams(path: str, wanted: str | None) -> dict[str, FileStream]:
    """All streams of a path by name. `wanted`: the format of all files; None: by suffix. Raises ConnectorError."""
    root = resolve(path)
    with file_errors(root, "read"):
        if root.is_file():
            found = [_one_file(root, wanted)]
        elif root.is_dir():
            found = list(_folders(root, wanted))
        elif any(sign in path for sign in _WILD):
            found = [_glob(root, wanted)]
        else:
            root.stat()
            found = []
    streams: dict[str, FileStream] = {}
    for each in found:
        if each.name in streams:
            raise ConnectorError.config(
                "SAME_STREAM",
                f'{each.folder} and {streams[each.name].folder} are both stream "{each.name}"',
                hint="rename one of them, or set `path` to one of them",
            )
        streams[each.name] = each
    return streams


def _one_file(path: Path, wanted: str | None) -> FileStream:
    file = _data_file(path, path.name, wanted)
    if file is None:
        raise ConnectorError.config(
            "NO_FORMAT",
            f"the format of {path} is unknown",
            hint="set `format` to csv, jsonl, parquet or arrow",
        )
    return FileStream(file.kind.stem, path.parent, [file])


def _glob(pattern: Path, wanted: str | None) -> FileStream:
    wild = next(place for place, part in enumerate(pattern.parts) if any(sign in part for sign in _WILD))
    folder = Path(*pattern.parts[:wild])
    folder.stat()
    paths = (each for each in folder.glob(str(PurePosixPath(*pattern.parts[wild:]))) if each.is_file())
    named = ((each, each.relative_to(folder)) for each in paths)
    files = [_data_file(path, name.as_posix(), wanted) for path, name in named if not any(map(_is_hidden, name.parts))]
    return FileStream(folder.name, folder, _sorted(files))


def _folders(root: Path, wanted: str | None) -> Iterator[FileStream]:
    """The stream of the files in a directory, if there are any, and those of its sub-folders."""
    own = _in_folder(root, root.name, wanted)
    if own.files or own.schema_file.exists():
        yield own
    for folder, parts in _below(root, ()):
        found = _in_folder(folder, stream_name(parts), wanted)
        if found.files or found.schema_file.exists():
            yield found


def _below(folder: Path, before: tuple[str, ...]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for each in sorted(folder.iterdir()):
        if each.is_dir() and not (_is_hidden(each.name) and not before):
            parts = (*before, each.name)
            if is_continued(each.name):
                yield from _below(each, parts)
            else:
                yield each, parts


def _in_folder(folder: Path, name: str, wanted: str | None) -> FileStream:
    paths = (each for each in folder.iterdir() if not _is_hidden(each.name) and each.is_file())
    return FileStream(name, folder, _sorted([_data_file(path, path.name, wanted) for path in paths]))


def _sorted(files: list[DataFile | None]) -> list[DataFile]:
    return sorted(file for file in files if file is not None)


def _data_file(path: Path, name: str, wanted: str | None) -> DataFile | None:
    """None if the format of the file is unknown, or it was removed meanwhile."""
    kind = kind_of(path.name)
    if wanted is not None:
        kind = kind._replace(format=wanted)
    if not kind.format:
        return None
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ConnectorError.config(
            "BAD_NAME", f"a file name is UTF-8, found {os.fsencode(path)!r}", hint="rename or move the file"
        ) from None
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return DataFile(name, path, state.st_size, state.st_mtime_ns, kind)


def _is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN)
