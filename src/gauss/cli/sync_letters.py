"""The dead letters of syncs, for `gauss dlq`: in files of the data directory, with or without a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gauss.cli.client import RunClient
from gauss.cli.output import CommandOutput
from gauss.config.check import check_or_raise
from gauss.model.errors import ConfigError, NotFound, Unavailable
from gauss.model.paths import DataDir

Letter = dict[str, Any]
REFUSED_HINT = "they could not be read, or their stream is no longer part of the sync: correct them at the source"


class LetterChoice:
    """Which letters of syncs a command is about."""

    def __init__(
        self, data_dir: Path, *, sync: str | None = None, reason: str | None = None, numbers: list[int] | None = None
    ) -> None:
        from gauss.connect.letters import kept_letters

        self.data_dir = data_dir.absolute()
        self._reason, self._numbers = reason, set(numbers or ())
        self.kept = [each for each in kept_letters(self.data_dir) if sync in (None, each.sync)]

    def matches(self, number: int, letter: Letter) -> bool:
        by_number = not self._numbers or number in self._numbers
        return by_number and self._reason in (None, letter["reason"])

    def groups(self) -> list[dict[str, Any]]:
        """Counts by sync, side and reason, in the form of those of a run."""
        from gauss.connect.letters import grouped

        numbered = ((kept, enumerate(kept, 1)) for kept in self.kept)
        return [
            group
            for kept, letters in numbered
            for group in grouped(kept.sync, (letter for number, letter in letters if self.matches(number, letter)))
        ]

    def newest(self, limit: int, before: int | None) -> list[Letter]:
        """The last letters with their sync and number, the newest first."""
        from gauss.connect.letters import age

        def fits(number: int, letter: Letter) -> bool:
            return self.matches(number, letter) and (before is None or number < before)

        found = [letter for kept in self.kept for letter in kept.newest(fits)]
        return sorted(found, key=age, reverse=True)[:limit]

    def discard(self) -> int:
        """Deletes letters; returns how many."""
        return sum(kept.remove(self.matches) for kept in self.kept)

    def replay(self, file: Path | None, output: CommandOutput) -> dict[str, Any]:
        """Writes letters again through the destination of their sync; raises GaussError."""
        total = {"replayed": 0, "returned": 0, "refused": 0}
        if self.kept:
            pipeline, checked = check_or_raise(file or _config_file(self.data_dir))
            output.redactor = checked.redactor
            known = {sync.name: sync for sync in pipeline.syncs}
            if missing := [each.sync for each in self.kept if each.sync not in known]:
                raise NotFound(
                    f'{checked.file} has no sync "{missing[0]}", whose dead letters are to be replayed',
                    hint="name its pipeline with --file, or another sync with --sync",
                )
            if pipeline.databases:
                from gauss.cli.databases import with_kept_databases
                from gauss.config.database_refs import databases_of_sync

                names = set().union(*(databases_of_sync(known[kept.sync]) for kept in self.kept))
                pipeline = with_kept_databases(pipeline, names, checked, self.data_dir, output.note)
                known = {sync.name: sync for sync in pipeline.syncs}
            for kept in self.kept:
                done = self._replay_one(known[kept.sync], checked.base_dir)
                total = {key: count + done[key] for key, count in total.items()}
        return {**total, "refused_hint": REFUSED_HINT if total["refused"] else ""}

    def _replay_one(self, sync: Any, base_dir: Path) -> dict[str, int]:
        from gauss.connect.embedded_sides import embedded_servers
        from gauss.connect.replay import LetterReplay

        with embedded_servers(sync, DataDir(self.data_dir)) as addressed:
            return vars(LetterReplay(addressed, base_dir, self.data_dir)(self.matches))


def _config_file(data_dir: Path) -> Path:
    """The pipeline of the run that uses a data directory, else the one of this folder."""
    try:
        return Path(RunClient(data_dir).get("health")["config"])
    except Unavailable:
        return Path()


def of_run(data_dir: Path, call: Callable[[RunClient], Any], nothing: Any) -> Any:
    """What the run of a data directory answers; `nothing` if none lives, but syncs have used the directory."""
    try:
        return call(RunClient(data_dir))
    except Unavailable:
        if not (data_dir / "connect").is_dir():
            raise
        return nothing


def refuse_both(processor: str | None, sync: str | None) -> None:
    if processor is not None and sync is not None:
        raise ConfigError("--processor and --sync select different dead letters", hint="give one of them")
