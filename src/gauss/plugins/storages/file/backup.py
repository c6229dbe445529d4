"""A backup of a file topic while it is written: the records visible at one moment, as a folder that opens as a topic.

Files only grow, so their bytes up to that moment can be copied concurrently with the writer, inside the kernel.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gauss.contracts.storage import BackedUp
from gauss.model.errors import Rejected
from gauss.plugins.storages.file.disk import copy_bytes, mapped, os_errors_explained, sync_folder
from gauss.plugins.storages.file.index import ENTRY, OWN_TIMES, BlockIndex
from gauss.plugins.storages.file.rolled_segment import RolledSegment
from gauss.plugins.storages.file.segment import Segment


@dataclass
class BackupPart:
    """The first bytes of a file, which is kept open because it may be removed during the backup."""

    name: Path
    """Path within the topic's folder."""
    fd: int
    size: int

    @classmethod
    def of(cls, root: Path, path: Path, size: int | None = None) -> BackupPart:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return cls(path.relative_to(root), fd, os.fstat(fd).st_size if size is None else size)


def parts_of(root: Path, segment: Segment | RolledSegment, blocks: int) -> list[BackupPart]:
    """The first blocks of a segment."""
    if isinstance(segment, RolledSegment):
        return [BackupPart.of(root, segment.file)]
    if not blocks:
        return []
    end = segment.index().entry(blocks - 1)
    parts = [
        BackupPart.of(root, segment.path("log"), end.end_position),
        BackupPart.of(root, segment.path("index"), blocks * ENTRY.size),
    ]
    if segment.path("times").exists():
        size = segment.path("times").stat().st_size
        parts.append(BackupPart.of(root, segment.path("times"), min(size, 8 * (end.end - segment.base))))
    return parts


def copy_parts(parts: list[BackupPart], folder: Path, records: int) -> BackedUp:
    """Copies the parts into a new folder, which is renamed when complete."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise Rejected(f"{folder} already exists", hint="name a folder that does not exist, or an empty one")
        unfinished = folder.with_name(folder.name + ".part")
        with os_errors_explained("writing the backup", unfinished):
            unfinished.mkdir(parents=True)
            for part in parts:
                target = unfinished / part.name
                target.parent.mkdir(exist_ok=True)
                with target.open("wb") as file:
                    copy_bytes(part.fd, file.fileno(), part.size)
                    os.fsync(file.fileno())
            settle(unfinished)
            sync_folder(unfinished)
            unfinished.replace(folder)
            sync_folder(folder.parent)
        return BackedUp(str(folder), len(parts), records, sum(part.size for part in parts))
    finally:
        for part in parts:
            os.close(part.fd)


def settle(folder: Path) -> None:
    """Removes the publish numbers from the last segment's blocks: everything in a backup is committed, but the journal
    that records it is not part of the backup."""
    indexes = sorted(folder.rglob("[0-9]*.index"), key=lambda path: int(path.stem))
    if not indexes:
        return
    path = indexes[-1]
    raw = bytearray(path.read_bytes())
    blocks, data, base = BlockIndex(raw), mapped(path.with_suffix(".log")), int(path.stem)
    times_file = path.with_suffix(".times")
    times = mapped(times_file) if times_file.exists() else memoryview(b"")
    for number in range(len(blocks)):
        entry = blocks.entry(number)
        if not entry.publish:
            continue
        first = 8 * (entry.offset - base)
        own = bytes(times[first : first + 8 * entry.records]) if entry.flags & OWN_TIMES else b""
        sealed = entry._replace(publish=0).sealed(data[entry.position : entry.end_position], own)
        ENTRY.pack_into(raw, number * ENTRY.size, *sealed)
    with path.open("r+b") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
