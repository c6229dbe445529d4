"""The `aside` folder of a topic, to which data is moved that is removed at open or by a repair. Only uncommitted epochs
of a killed process are deleted there, the oldest first, beyond a size limit: their processors have repeated them."""

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
"""Maximum bytes of uncommitted epochs per topic."""

log = logging.getLogger(__name__)


def folder_for(root: Path, why: str) -> Path:
    """Creates a folder inside the topic's folder for data set aside now."""
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    made = root / NAME / f"{moment}-{why}"
    make_private(root / NAME)
    make_private(made)
    return made


def keep_tail(path: Path, position: int, target: Path) -> int:
    """Copies the bytes of a file from `position` on; returns their number."""
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
    """Marks folders as one uncommitted epoch, and deletes the oldest marked ones beyond MOST_EPOCH_BYTES. If the
    journal lost its end, several epochs are uncommitted; such folders are not marked and stay."""
    for folder in folders:
        folder.rename(folder.with_name(folder.name + EPOCH))
    taken = 0
    for number, folder in enumerate(sorted((root / NAME).glob(f"*{EPOCH}"), reverse=True)):
        taken += sum(path.stat().st_size for path in folder.iterdir())
        if number >= len(folders) and taken > MOST_EPOCH_BYTES:
            shutil.rmtree(folder)
            log.info("deleted %s: epochs set aside take more than %d bytes", folder, MOST_EPOCH_BYTES)
