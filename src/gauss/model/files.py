"""Private files that processes leave for each other, written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def make_private(folder: Path) -> None:
    """Makes a folder with mode 0700, or gives an existing one that mode."""
    folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o777 != PRIVATE_FOLDER:
        folder.chmod(PRIVATE_FOLDER)


def write_private(path: Path, content: dict[str, Any], *, durable: bool = False) -> None:
    """Writes JSON to a file of mode 0600 atomically: a reader never sees half of it. `durable`: nor after a power
    loss."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
        if durable:
            file.flush()
            os.fsync(descriptor)
    temporary.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if the file is missing or incomplete."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
