"""Postgres programs of this machine: those that Gauss carries, or any others by their folder."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gauss.clients.postgres.binaries import RunAs, bin_folder
from gauss.dbstates.planning.plan import digest
from gauss.dbstates.planning.programs import stamps
from gauss.dbstates.runtimes.runtime import USER, Build
from gauss.model.errors import ConfigError

WAL_SEGMENT_MB = 4
"""Segments of 16 MB would be most of a small state."""
INITDB = (
    *("-U", USER, "-A", "reject", "-E", "UTF8", "--locale=C.UTF-8", f"--wal-segsize={WAL_SEGMENT_MB}"),
    *("--no-sync", "--no-instructions"),
)


@dataclass(frozen=True)
class Installation:
    """A build, as long as its files are those that were read."""

    build: Build
    _programs: tuple[Path, ...]
    _folders: tuple[Path, ...]
    """Those with the control files of extensions."""
    _stamps: tuple[object, ...]

    def has_changed(self) -> bool:
        return _stamps_of(self._programs, self._folders) != self._stamps


def _stamps_of(programs: tuple[Path, ...], folders: tuple[Path, ...]) -> tuple[object, ...]:
    return stamps((*programs, *folders, *_control_files(folders)))


def find(image: str, user: RunAs) -> Installation:
    """The build in a folder; with an empty name that which Gauss carries."""
    programs = Path(image) if image else bin_folder(user)
    if not programs.is_absolute():
        raise ConfigError(
            f"image: expected the folder of Postgres's programs, found {image!r}",
            hint='such as "/usr/lib/postgresql/15/bin"; images of containers need runtime.kind = "container"',
        )
    for name in ("postgres", "initdb"):
        if not os.access(programs / name, os.X_OK):
            raise ConfigError(f"image: {programs} has no program {name}", hint="name the folder of Postgres's programs")
    parts = tuple(programs / name for name in ("postgres", "initdb", "psql", "pg_config"))
    folders = _extension_folders(programs)
    seen = _stamps_of(parts, folders)  # before they are read
    version = _version(programs)
    with (programs / "postgres").open("rb") as file:
        program = hashlib.file_digest(file, "sha256").hexdigest()
    library = os.confstr("CS_GNU_LIBC_VERSION") or ""  # decides how text is compared
    build = Build(
        engine="postgres",
        version=version,
        base=digest("base", "process", version, program, " ".join(INITDB), library),
        image=image,
        runtime="process",
        place=str(programs),
        extensions=_extensions(folders),
    )
    return Installation(build, parts, folders, seen)


def _version(programs: Path) -> str:
    done = subprocess.run(
        [str(programs / "postgres"), "--version"], capture_output=True, text=True, check=False, cwd="/"
    )
    found = re.search(r"\(PostgreSQL\) (\S+)", done.stdout)
    if found is None:
        raise ConfigError(
            f"image: {programs}/postgres does not run: {done.stderr.strip()[:200]}",
            hint="install its libraries, or name another folder",
        )
    return found[1]


def _extension_folders(programs: Path) -> tuple[Path, ...]:
    """Where control files of extensions are."""
    config = programs / "pg_config"
    shared = programs.parent / "share" / "postgresql"
    if config.exists():
        done = subprocess.run([str(config), "--sharedir"], capture_output=True, text=True, check=False, cwd="/")
        told = Path(done.stdout.strip())
        shared = told if (told / "extension").is_dir() else shared
    return shared / "extension", programs.parent / "share" / "extension"


def _control_files(folders: tuple[Path, ...]) -> list[Path]:
    return [file for folder in folders for file in sorted(folder.glob("*.control"))]


def _extensions(folders: tuple[Path, ...]) -> dict[str, str]:
    """Default versions of the installed extensions."""
    found = {}
    for file in _control_files(folders):
        version = re.search(r"^\s*default_version\s*=\s*'([^']*)'", file.read_text(errors="replace"), re.MULTILINE)
        found[file.stem] = version[1] if version else ""
    return found
