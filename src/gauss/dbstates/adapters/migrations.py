"""Folders of numbered SQL files, a step for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gauss.dbstates.adapters.psql import psql_command
from gauss.dbstates.planning.options import Item, read
from gauss.dbstates.planning.plan import Command, Connection, Plan, Step
from gauss.dbstates.planning.programs import program_of
from gauss.dbstates.planning.steps import Steps
from gauss.model.errors import ConfigError

_NAME = re.compile(r"V(\d+(?:[._]\d+)*)__(.+)\.sql")
_EXPECTED = "expected V<version>__<description>.sql, as in V001__users.sql or V1.2__orders.sql"


class Migrations:
    """Runs the files of folders in the order of their versions, each in a psql of its own."""

    kind = "migrations"

    def __init__(self, program: str = "psql") -> None:
        self._program = program

    def plan(self, args: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Plan:
        options = read(args, items=False)
        if not options.others:
            raise ConfigError(
                "expected a folder of migrations, found none", hint="gauss db prepare --kind migrations -- db"
            )
        steps = Steps(options, cwd.resolve(), env)
        for file in ordered([cwd / each for each in options.others]):
            steps.add(Item("f", str(file)), cut=False, title=file.name)
        return Plan(self.kind, tuple(steps.steps))

    def run_command(self, step: Step, connection: Connection) -> Command:
        return psql_command(self._program, step, connection)

    def check(self, env: Mapping[str, str]) -> None:
        program_of(self._program, env, "install the Postgres client programs, or name their folder")


def ordered(folders: Sequence[Path]) -> list[Path]:
    """The migrations of folders in the order of their versions: 2 before 10, 1.9 before 1.10."""
    found: dict[tuple[int, ...], Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"expected a folder of migrations, found none at {folder}")
        for file in sorted(folder.iterdir()):
            if file.suffix.lower() != ".sql":
                continue
            match = _NAME.fullmatch(file.name)
            if match is None:
                raise ConfigError(
                    f"{file}: {_EXPECTED}", hint="move scripts that are no migrations to a folder of their own"
                )
            version = _version(match[1])
            if version in found:
                raise ConfigError(
                    f"{file}: version {match[1]} is also that of {found[version]}",
                    hint="give one of them a new version",
                )
            found[version] = file
    if not found:
        raise ConfigError(f"no migrations in {', '.join(map(str, folders))}: {_EXPECTED}")
    return [found[version] for version in sorted(found)]


def _version(text: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at its end: 1 and 1.0 are the same."""
    numbers = [int(each) for each in re.split(r"[._]", text)]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
