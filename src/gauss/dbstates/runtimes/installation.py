"""Postgres programs of this machine: those that Gauss carries, or any others by their folder."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

from gauss.clients.postgres.binaries import RunAs, bin_folder
from gauss.dbstates.planning.plan import digest
from gauss.dbstates.runtimes.runtime import USER, Build
from gauss.model.errors import ConfigError

WAL_SEGMENT_MB = 4
"""Segments of 16 MB would be most of a small state."""
INITDB = (
    *("-U", USER, "-A", "reject", "-E", "UTF8", "--locale=C.UTF-8", f"--wal-segsize={WAL_SEGMENT_MB}"),
    *("--no-sync", "--no-instructions"),
)


def resolve(image: str, user: RunAs) -> Build:
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
    version = _version(programs)
    with (programs / "postgres").open("rb") as file:
        program = hashlib.file_digest(file, "sha256").hexdigest()
    library = os.confstr("CS_GNU_LIBC_VERSION") or ""  # decides how text is compared
    return Build(
        engine="postgres",
        version=version,
        base=digest("base", "process", version, program, " ".join(INITDB), library),
        image=image,
        runtime="process",
        place=str(programs),
        extensions=_extensions(programs),
    )


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


def _extensions(programs: Path) -> dict[str, str]:
    """Default versions of the installed extensions, by their control files."""
    config = programs / "pg_config"
    shared = programs.parent / "share" / "postgresql"
    if config.exists():
        done = subprocess.run([str(config), "--sharedir"], capture_output=True, text=True, check=False, cwd="/")
        told = Path(done.stdout.strip())
        shared = told if (told / "extension").is_dir() else shared
    found = {}
    for folder in (shared / "extension", programs.parent / "share" / "extension"):
        for file in sorted(folder.glob("*.control")):
            version = re.search(r"^\s*default_version\s*=\s*'([^']*)'", file.read_text(errors="replace"), re.MULTILINE)
            found[file.stem] = version[1] if version else ""
    return found
