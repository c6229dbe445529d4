"""Setting data aside: what leaves a topic at open or in a repair is moved to its `aside` folder. Only epochs that a
kill left without their commit are deleted there, the oldest first, beyond a bound: their processors made them again."""

from __future__ import annotations

import logging
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from gauss.model.files import make_private
from gauss.plugins.storages.file.disk import create, sync_folder

NAME = "aside"
EPOCH = "-epoch"
MOST_EPOCH_BYTES = 256 << 20
"""Per topic, of single epochs that a kill left without their commit."""

log = logging.getLogger(__name__)


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


def keep_as_epoch(root: Path, folders: list[Path]) -> None:
    """Marks folders as one epoch without its commit, and deletes the oldest marked ones beyond MOST_EPOCH_BYTES. Where
    the journal lost its end several epochs are without one: such folders are never marked, so they stay."""
    for folder in folders:
        folder.rename(folder.with_name(folder.name + EPOCH))
    taken = 0
    for number, folder in enumerate(sorted((root / NAME).glob(f"*{EPOCH}"), reverse=True)):
        taken += sum(path.stat().st_size for path in folder.iterdir())
        if number >= len(folders) and taken > MOST_EPOCH_BYTES:
            shutil.rmtree(folder)
            log.info("deleted %s: epochs set aside take more than %d bytes", folder, MOST_EPOCH_BYTES)
