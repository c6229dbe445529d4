"""Opens the ledger, unless its journal is damaged or missing beside topics that hold records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gauss.model.errors import GaussError, StorageError
from gauss.model.paths import DataDir
from gauss.stream.engine.journal.entries import LedgerState
from gauss.stream.engine.journal.journal import NAME, JournalDamaged, keep_copy
from gauss.stream.engine.journal.journal_scan import Scanned, scan
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.journal.ledger_state import committed, replayed_state
from gauss.stream.folders import TopicFolder, topic_folders


def open_ledger(paths: DataDir, others: Iterable[tuple[str, Path]]) -> Ledger:
    """The ledger of a data directory; `others` are topics outside it. Raises, without a change, if topics hold records
    that only a missing or damaged journal could have committed."""
    path = paths.journal / NAME
    found = scan(path.read_bytes()) if path.exists() else Scanned()
    if not found.bodies and not found.damage:
        _refuse_to_begin_anew(paths, others, path)
    try:
        return Ledger(paths.journal)
    except JournalDamaged as error:
        state = replayed_state(error.scanned.bodies)
        affected = _affected(topic_folders(paths, others), state)
        raise StorageError(
            f"{error.message}. Nothing was changed; a copy is in {keep_copy(path)}. {affected}", hint=_choices(paths)
        ) from error


def need_a_journal(paths: DataDir, folders: list[TopicFolder]) -> bool:
    """Whether topics hold records, so that a directory without a journal is not new. A topic outside the directory may
    come from another one, but not with records that only a journal can commit."""
    filled = any(paths.topics in each.path.parents and each.offline.records(each.path) for each in folders)
    return filled or any(each.uncommitted(lambda _: False) for each in folders)


def _refuse_to_begin_anew(paths: DataDir, others: Iterable[tuple[str, Path]], path: Path) -> None:
    folders = topic_folders(paths, others)
    if not need_a_journal(paths, folders):
        return
    what = "is empty" if path.exists() else "is missing"
    raise StorageError(
        f"the commit journal {path} {what} beside topics that hold records. {_affected(folders, LedgerState())}",
        hint=_choices(paths),
    )


def _affected(folders: list[TopicFolder], state: LedgerState) -> str:
    """The topics that would lose records with this state, and how many."""
    counted: list[str] = []
    for folder in folders:
        try:
            records = folder.uncommitted(lambda number: committed(state, number))
        except (OSError, GaussError) as error:
            counted.append(f"{folder.topic} (can't be read: {error})")
            continue
        if records:
            counted.append(f"{folder.topic} ({records:,} records)")
    if not counted:
        return "No records of file topics depend on what is lost; positions of readers and processors may."
    return f"Records whose commit is lost: {', '.join(sorted(counted))}."


def _choices(paths: DataDir) -> str:
    return (
        f"gauss repair {paths.root} shows the choices: --choose keep keeps every record and what can be read of the"
        " journal (some may be processed twice); --choose cut goes back to the last sound entry and sets the records"
        " behind it aside. Or restore a backup of the whole directory"
    )
