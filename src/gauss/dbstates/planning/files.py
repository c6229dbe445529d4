"""Files that a plan depends on, each read once."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gauss.dbstates.planning.plan import Input
from gauss.model.errors import ConfigError

MAX_SCRIPT_BYTES = 1 << 30
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Script:
    """The text of an SQL file."""

    path: Path
    label: str
    """Its path relative to the working directory."""
    text: bytes
    sha256: str
    first: int
    """Where the text begins: after a byte order mark."""
    inline: bool = False
    """Whether it is the text of a -c."""


class Files:
    """The files of one plan."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._inputs: dict[Path, Input] = {}
        self._scripts: dict[Path, Script] = {}

    def label(self, path: Path) -> str:
        """The path as messages and ingredients show it."""
        return os.path.relpath(path, self._cwd) if path.is_relative_to(self._cwd) else str(path)

    def scripts(self) -> list[Script]:
        """The SQL files that have been read."""
        return list(self._scripts.values())

    def script(self, path: Path, where: str) -> Script:
        """An SQL file; raises ConfigError unless it is a regular file without NULs."""
        real = self.regular(path, where)
        if real not in self._scripts:
            text = self._text(real, where)
            first = len(_BOM) if text.startswith(_BOM) else 0
            self._scripts[real] = Script(real, self.label(real), text, hashlib.sha256(text).hexdigest(), first)
        return self._scripts[real]

    def other(self, path: Path, where: str, relevant: Callable[[bytes], str] | None = None) -> Input:
        """A file of data; with `relevant`, a text of which only a part counts."""
        real = self.regular(path, where)
        if real not in self._inputs:
            if relevant is None:
                found = _sha256(real, where)
                self._inputs[real] = Input(str(real), found, found)
            else:
                text = self._text(real, where)
                self._inputs[real] = Input(str(real), hashlib.sha256(text).hexdigest(), relevant(text))
        return self._inputs[real]

    def text(self, path: Path, where: str) -> bytes:
        """The content of a small file."""
        return self._text(self.regular(path, where), where)

    def regular(self, path: Path, where: str) -> Path:
        """The real path of an existing regular file."""
        try:
            real = Path(os.path.realpath(path, strict=True))
            mode = real.stat().st_mode
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "its name contains a NUL"
            raise ConfigError(
                f"{where}: expected a file {self.label(path)}: {why}",
                hint=f"paths are relative to {self._cwd}; \\ir is relative to the including file",
            ) from None
        if not stat.S_ISREG(mode):
            raise ConfigError(
                f"{where}: expected a regular file, found a folder, pipe or device: {self.label(path)}",
                hint="only the content of regular files can be a part of a state's key",
            )
        return real

    def _text(self, real: Path, where: str) -> bytes:
        size = real.stat().st_size
        if size > MAX_SCRIPT_BYTES:
            raise ConfigError(
                f"{where}: {self.label(real)} has {size:,} bytes: expected at most {MAX_SCRIPT_BYTES:,}",
                hint="keep the data in files of its own and load them with \\copy",
            )
        try:
            text = real.read_bytes()
        except OSError as error:
            raise ConfigError(f"{where}: can't read {self.label(real)}: {error.strerror}") from None
        if (at := text.find(b"\0")) >= 0:
            line = text.count(b"\n", 0, at) + 1
            raise ConfigError(
                f"{self.label(real)}:{line}: a NUL byte, which psql would cut the line at",
                hint="save the file as UTF-8, and keep binary data in files that \\copy or \\lo_import read",
            )
        return text


def _sha256(path: Path, where: str) -> str:
    total = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total.update(chunk)
    except OSError as error:
        raise ConfigError(f"{where}: can't read {path}: {error.strerror}") from None
    return total.hexdigest()
