"""Small files that processes leave for each other: secrets whole or not at all, and locks that tell who lives."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def make_private(folder: Path) -> None:
    """Makes a folder that only its owner can enter, or makes an existing one so."""
    folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o777 != PRIVATE_FOLDER:
        folder.chmod(PRIVATE_FOLDER)


def write_private(path: Path, content: dict[str, Any], *, durable: bool = False) -> None:
    """JSON in a file of mode 0600, whole or not at all: a reader never sees half of it. `durable`: also after a power
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
    """What a JSON file holds; None when it is not there or not whole."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def is_locked(path: Path) -> bool:
    """Whether some process holds a lock on the file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
