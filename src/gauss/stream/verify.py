"""Checks and repairs a data directory, or the folder of one topic, that no run uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from gauss.contracts.offline import Choice, Finding
from gauss.model.errors import ConfigError, NotFound
from gauss.model.paths import DataDir
from gauss.process.locks import is_locked
from gauss.stream.engine.journal.journal import NAME, keep_copy, replace_journal
from gauss.stream.engine.journal.journal_scan import Scanned, scan
from gauss.stream.engine.journal.ledger_state import commit_number, committed, encode, replayed_state
from gauss.stream.engine.journal.opening import need_a_journal
from gauss.stream.folders import TopicFolder, storages, topic_folders

JOURNAL = "journal"


@dataclass
class Verified:
    """The result of a check of a directory."""

    directory: Path
    topics: list[dict[str, object]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        found = [finding.to_dict() for finding in self.findings]
        return {"directory": str(self.directory), "topics": self.topics, "findings": found}


def folders_of(directory: Path) -> list[TopicFolder]:
    """The topics of a data directory, or the single topic of a topic folder."""
    if not directory.is_dir():
        raise NotFound(f"{directory} is not a directory", hint="pass a data directory, such as .gauss")
    if is_data_dir(directory):
        return topic_folders(DataDir(directory))
    found = [TopicFolder(directory.name, directory, each) for each in storages() if each.is_folder(directory)]
    if not found:
        raise NotFound(
            f"{directory} is neither a data directory nor the folder of a file topic",
            hint="pass a data directory (with a file VERSION), a topic's data_dir, or a backup of a topic",
        )
    return found


def is_data_dir(directory: Path) -> bool:
    paths = DataDir(directory)
    return paths.version.exists() or paths.topics.is_dir() or paths.journal.is_dir()


def check_unused(directory: Path) -> None:
    """Raises ConfigError if a run uses the directory, because its files would change during the check."""
    for lock in [DataDir(directory).lock, *(folder.path / "lock" for folder in folders_of(directory))]:
        if is_locked(lock):
            raise ConfigError(f"{lock.parent} is in use by a running pipeline", hint="stop the run first, with Ctrl-C")


def verify(directory: Path, read: Callable[[int], None] = lambda _: None) -> Verified:
    """Reads everything that has a checksum; `read` is called with the number of bytes read so far."""
    found = Verified(directory)
    folders = folders_of(directory)
    if is_data_dir(directory):
        found.findings += _verify_journal(DataDir(directory), folders)
    for folder in folders:
        damaged = folder.offline.verify(folder.path, read)
        found.findings += [replace(finding, topic=folder.topic) for finding in damaged]
        found.topics.append(
            {
                "name": folder.topic,
                "folder": str(folder.path),
                "records": folder.offline.records(folder.path),
                "bytes": folder.offline.size(folder.path),
            }
        )
    return found


def repair(directory: Path, finding: Finding, choice: str) -> str:
    """Repairs one finding; returns a description of the repair."""
    if finding.kind == JOURNAL:
        return _repair_journal(DataDir(directory), choice)
    folder = next(each for each in folders_of(directory) if each.topic == finding.topic)
    return folder.offline.repair(folder.path, finding, choice)


# --- the commit journal ---


def _scanned(paths: DataDir) -> Scanned:
    path = paths.journal / NAME
    return scan(path.read_bytes()) if path.exists() else Scanned()


def _verify_journal(paths: DataDir, folders: list[TopicFolder]) -> list[Finding]:
    path, found = paths.journal / NAME, _scanned(paths)
    if found.damage:
        what = f"damaged at byte {found.end}: {found.damage}"
    elif not found.bodies and need_a_journal(paths, folders):
        what = "empty beside topics that hold records" if path.exists() else "missing beside topics that hold records"
    else:
        return []
    state = replayed_state(found.bodies)
    affected = sum(folder.uncommitted(lambda number: committed(state, number)) for folder in folders)
    keep = Choice(
        "keep",
        f"keep every record of the topics and all entries that can be read ({len(found.bodies)} before the damage,"
        f" {len(found.later)} behind it); positions that a lost one held are gone, so records may be processed twice",
    )
    cut = Choice(
        "cut",
        f"keep only the {len(found.bodies)} entries before the damage; {affected:,} records that later ones committed"
        " are set aside at the next start, and their processors make them again from what their sources still hold",
    )
    return [Finding(JOURNAL, path, what, affected, (keep, cut))]


def _repair_journal(paths: DataDir, choice: str) -> str:
    path, found = paths.journal / NAME, _scanned(paths)
    kept = f"; the damaged file is kept as {keep_copy(path)}" if path.exists() else ""
    state = replayed_state([*found.bodies, *found.later] if choice == "keep" else found.bodies)
    for folder in topic_folders(paths):
        for publish, _ in folder.offline.blocks(folder.path):
            if not publish:
                continue
            # The number of a publish starts with that of its run; none may be used again.
            state.run = max(state.run, publish >> 32)
            if choice == "keep":
                commit_number(state, publish)
    os.close(replace_journal(paths.journal, encode(state))[0])
    return f"{path} was rewritten{kept}"
