"""Dead letters of syncs over HTTP: read where `gauss dlq` reads them, in files of the data directory."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from gauss.connect.letters import SyncLetters, kept_letters
from gauss.stream.control.run import Running

Letter = dict[str, Any]


def letters_of_syncs(running: Running) -> list[SyncLetters]:
    """The letters of each sync that has some; files that have not changed are not read again."""
    root = running.held.paths.root
    return kept_letters(root, _known(root))


@cache
def _known(_root: Path) -> dict[str, SyncLetters]:
    return {}


def newest_letters(
    running: Running, sync: str, reason: str | None, stage: str | None, before: int | None
) -> list[Letter]:
    """The letters of a sync that match, the newest first, with their rows as JSON."""

    def fits(number: int, letter: Letter) -> bool:
        wanted = reason in (None, letter["reason"]) and stage in (None, letter["side"])
        return wanted and (before is None or number < before)

    found = [letter for each in letters_of_syncs(running) if each.sync == sync for letter in each.newest(fits)]
    return [{key: value for key, value in letter.items() if key != "ipc"} for letter in found]
