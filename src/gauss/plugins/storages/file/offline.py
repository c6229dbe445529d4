"""Folders of file topics that no engine has open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from gauss.contracts.offline import Block
from gauss.plugins.storages.file import meta
from gauss.plugins.storages.file.disk import replace_file, segment_files
from gauss.plugins.storages.file.integrity import Files
from gauss.plugins.storages.file.rolled import RolledSegment

ELSEWHERE = "elsewhere.json"


class FileOffline:
    """Implements `contracts.offline.Offline`."""

    def is_folder(self, folder: Path) -> bool:
        return (folder / meta.NAME).exists() or bool(segment_files(folder, "index") + segment_files(folder, "log"))

    def elsewhere(self, folder: Path) -> Path | None:
        note = folder / ELSEWHERE
        return Path(json.loads(note.read_bytes())["folder"]) if note.exists() else None

    def blocks(self, folder: Path) -> Iterator[Block]:
        for path in reversed(segment_files(folder, "index")):
            entries = Files(path.with_suffix(".log")).entries()[::-1]
            for publish, records in zip(entries["publish"].tolist(), entries["count"].tolist(), strict=True):
                yield Block(publish, records)

    def records(self, folder: Path) -> int:
        rolled = [RolledSegment(path) for path in segment_files(folder, "arrow")]
        return sum(block.records for block in self.blocks(folder)) + sum(each.end - each.base for each in rolled)


def note_elsewhere(directory: Path, root: Path) -> None:
    """Leaves word in the data directory of a topic that is kept in a folder of its own."""
    note = directory / ELSEWHERE
    if root == directory:
        note.unlink(missing_ok=True)
        return
    content = json.dumps({"folder": str(root.absolute())}).encode()
    directory.mkdir(0o700, parents=True, exist_ok=True)
    if not note.exists() or note.read_bytes() != content:
        replace_file(note, content)
