"""Programs of a request: those on the path of its environment, not on the engine's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from gauss.model.errors import ConfigError


def search_path(env: Mapping[str, str]) -> str:
    """The path of an environment. A request that has none gets that of the system."""
    return env.get("PATH") or os.defpath


def program_of(name: str, env: Mapping[str, str], hint: str) -> Path:
    """The place of a program. Raises ConfigError if it is not on the path."""
    found = shutil.which(name, path=search_path(env))
    if found is None:
        raise ConfigError(f"the program {name} is not on the path", hint=hint)
    return Path(found)


def stamps(paths: Iterable[Path]) -> tuple[tuple[str, int, int, int], ...]:
    """What differs when a file was replaced, or when one was added to a folder or removed from it."""
    found = []
    for path in paths:
        try:
            stat = path.stat()
            found.append((str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns))
        except OSError:
            found.append((str(path), 0, 0, 0))
    return tuple(found)
