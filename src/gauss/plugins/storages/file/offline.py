"""Access to folders of file topics while no engine runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from gauss.contracts.offline import Block, Choice, Finding
from gauss.model.errors import StorageError
from gauss.plugins.storages.file import aside_folder, meta
from gauss.plugins.storages.file.damage_repair import drop_damaged
from gauss.plugins.storages.file.disk import replace_file, segment_files
from gauss.plugins.storages.file.integrity import Damage, Files
from gauss.plugins.storages.file.recover import inspect
from gauss.plugins.storages.file.rolled_segment import RolledSegment
from gauss.plugins.storages.file.spec import NO_FRAMING

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

    def size(self, folder: Path) -> int:
        suffixes = ("log", "index", "times", "arrow")
        return sum(path.stat().st_size for suffix in suffixes for path in segment_files(folder, suffix))

    def verify(self, folder: Path, read: Callable[[int], None]) -> list[Finding]:
        try:
            known = meta.load(folder)
        except (StorageError, OSError) as error:
            message = error.message if isinstance(error, StorageError) else f"{folder / meta.NAME} is missing"
            read(self.size(folder))
            return [self._of_meta(folder, message)]
        if known.framing == NO_FRAMING:  # captures have no checksums to verify
            return []
        findings: list[Finding] = []
        for segment in inspect(folder, known.built_framing(), known.gaps):
            segment.check_all()
            findings += [_of_damage(damage) for damage in segment.damage]
            read(sum(path.stat().st_size for path in segment.folder.glob(f"{segment.base:020d}.*")))
            segment.unmap()
        return findings

    def _of_meta(self, folder: Path, message: str) -> Finding:
        choices = [Choice("aside", "move the whole folder of the topic aside; the topic starts again without records")]
        try:
            meta.read(folder / meta.COPY)
            choices.insert(0, Choice("restore", f"restore it from {meta.COPY}; nothing is lost"))
        except (StorageError, OSError):
            pass
        return Finding("meta", folder / meta.NAME, message, self.records(folder), tuple(choices))

    def repair(self, folder: Path, finding: Finding, choice: str) -> str:
        if choice == "restore":
            meta.restore(folder)
            return f"{finding.path} was restored"
        if choice == "aside":
            kept = aside_folder.folder_for(folder, "topic")
            for path in folder.iterdir():
                if path.name not in (aside_folder.NAME, "lock"):
                    path.rename(kept / path.name)
            return f"{folder} is now empty; its files were moved to {kept}"
        known = meta.load(folder)
        segments = inspect(folder, known.built_framing(), known.gaps)
        for segment in segments:
            if segment.base <= finding.first < segment.end:
                segment.check_all()
                kept = drop_damaged(folder, known, segment, last=segment is segments[-1])
                return f"removed {finding.records:,} records from the topic; the old files are in {kept}"
        return "already repaired"


def _of_damage(damage: Damage) -> Finding:
    records = damage.stop - damage.first
    does = f"remove these {records:,} records from the topic; readers continue after them"
    return Finding(
        "records", damage.path, damage.what, records, (Choice("drop", does),), first=damage.first, stop=damage.stop
    )


def note_elsewhere(directory: Path, root: Path) -> None:
    """Records in the data directory that a topic has its own folder."""
    note = directory / ELSEWHERE
    if root == directory:
        note.unlink(missing_ok=True)
        return
    content = json.dumps({"folder": str(root.absolute())}).encode()
    directory.mkdir(0o700, parents=True, exist_ok=True)
    if not note.exists() or note.read_bytes() != content:
        replace_file(note, content)
