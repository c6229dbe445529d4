"""The database states of a process: its data directory, and the engine that it finds or starts there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gauss.clients.dbstates.client import DatabaseStates, running, start, was_started
from gauss.clients.dbstates.prepared import request_of
from gauss.config.databases import DatabaseDef
from gauss.model.errors import ConfigError, NotFound, Unavailable, from_dict

if TYPE_CHECKING:
    from gauss.stream.control.run import Running

_ID = re.compile(r"[0-9a-f]{8,64}")
_REPEATED = ("prepare_kind", "args", "cwd", "image")
_ASSIGNING = ("-v", "--set", "--variable", "-D")
"""Options of which the next argument is `NAME=VALUE`."""
_ASSIGNED = re.compile(
    r"((?:-v|-D|--set=|--variable=)[\w.-]+=|--?[\w-]*(?:password|secret|token)[\w-]*=).*", re.DOTALL | re.IGNORECASE
)
"""An argument that has a value which may be a secret, up to the value."""


@dataclass(frozen=True)
class DatabaseSource:
    """Where a process looks for database states."""

    data_dir: Path
    folder: Path
    """Where relative paths of named databases start."""
    named: tuple[DatabaseDef, ...] = ()
    """The `[[databases]]` of a pipeline."""
    redact: Callable[[Any], Any] = lambda value: value
    """Hides the secrets of a pipeline."""

    def is_used(self) -> bool:
        """Whether there is, or may soon be, anything to see."""
        return bool(self.named) or was_started(self.data_dir)

    def engine(self) -> DatabaseStates:
        """The running engine: reading starts none."""
        found = running(self.data_dir)
        if found is None:
            raise Unavailable(
                "the engine of database states is not running",
                hint="POST /api/databases/start starts it, and so does the next gauss db command",
            )
        return found

    def started(self) -> DatabaseStates:
        """The engine, started if none runs, as by a command."""
        return start(self.data_dir)

    def request(self, again: str | None, database: str | None) -> dict[str, Any]:
        """The request of an earlier job, or that of a named database. Scripts can run programs, so that no request may
        name others."""
        if (again is None) == (database is None):
            raise ConfigError("expected either a job or a database", hint='send {"again": JOB} or {"database": NAME}')
        if again is not None:
            job = self.started().get("prepare-jobs", known_id("job", again))
            given = {name: job[name] for name in _REPEATED}
            return request_of(given["prepare_kind"], given["args"], Path(given["cwd"]), given["image"] or "")
        for each in self.named:
            if each.name == database:
                return request_of(each.prepare.kind, each.prepare.args, self.folder, each.prepare.image)
        known = ", ".join(each.name for each in self.named) or "none"
        raise NotFound(f'no database "{str(database)[:80]}"', hint=f"[[databases]] of this run: {known}")


def run_databases(running: Running) -> DatabaseSource:
    """The database states of a run."""
    folder = running.config.absolute().parent
    return DatabaseSource(
        running.held.paths.root, folder, tuple(running.pipeline.databases), running.redactor.redact_data
    )


def known_id(kind: str, given: str) -> str:
    """The same id; nothing else is passed on to the engine. Raises NotFound."""
    if not _ID.fullmatch(given):
        raise NotFound(f"no {kind} {given[:80]!r}", hint="expected its id, or the first 8 digits of it or more")
    return given


def checked(answer: Any) -> Any:
    """The answer of the engine. Raises the error that it is."""
    if isinstance(answer, dict) and isinstance(error := answer.get("error"), dict) and set(answer) == {"error"}:
        raise from_dict(error)
    return answer


def masked(args: list[str]) -> list[str]:
    """Arguments of a job without the values of variables, which may be secrets."""
    found: list[str] = []
    for before, each in zip(["", *args], args, strict=False):
        if before in _ASSIGNING and "=" in each:
            found.append(f"{each.partition('=')[0]}=…")
        else:
            match = _ASSIGNED.fullmatch(each)
            found.append(each if match is None else f"{match[1]}…")
    return found
