"""Setting data aside: what leaves a topic at open or in a repair is moved to its `aside` folder, never deleted."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from gauss.model.files import make_private
from gauss.plugins.storages.file.disk import create, sync_folder

NAME = "aside"


def folder_for(root: Path, why: str) -> Path:
    """A new folder in the topic's own for what is set aside now."""
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    made = root / NAME / f"{moment}-{why}"
    make_private(root / NAME)
    make_private(made)
    return made


def keep_tail(path: Path, position: int, target: Path) -> int:
    """Copies what stands behind `position` of a file; gives how many bytes that is."""
    if not path.exists() or path.stat().st_size <= position:
        return 0
    with path.open("rb") as source, create(target) as copy:
        source.seek(position)
        while data := source.read(1 << 20):
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
        return copy.tell()


def move(path: Path, folder: Path) -> Path:
    """Moves a file into a folder made by `folder_for`."""
    kept = folder / path.name
    path.rename(kept)
    sync_folder(folder)
    sync_folder(path.parent)
    return kept
