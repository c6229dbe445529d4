"""Scripts that psql runs: a step per `-f` and `-c`, and per include where that is provably the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gauss.dbstates.planning.options import read
from gauss.dbstates.planning.plan import Command, Connection, Plan, Step
from gauss.dbstates.planning.programs import program_of
from gauss.dbstates.planning.steps import Steps
from gauss.model.errors import ConfigError


class Psql:
    """Runs every step in a psql of its own, without psqlrc and up to the first error."""

    kind = "psql"

    def __init__(self, program: str = "psql") -> None:
        self._program = program

    def plan(self, args: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Plan:
        options = read(args)
        if not options.items:
            raise ConfigError(
                "expected -f FILE or -c COMMAND, found no script", hint="gauss db prepare -- -f schema.sql"
            )
        steps = Steps(options, cwd.resolve(), env)
        for item in options.items:
            steps.add(item)
        return Plan(self.kind, tuple(steps.steps))

    def run_command(self, step: Step, connection: Connection) -> Command:
        return psql_command(self._program, step, connection)

    def check(self, env: Mapping[str, str]) -> None:
        program_of(self._program, env, "install the Postgres client programs, or name their folder")


def psql_command(program: str, step: Step, connection: Connection) -> Command:
    """The psql of a step."""
    argv = (program, "-X", "-v", "ON_ERROR_STOP=1", "-w", *step.command)
    return Command(argv, dict(step.env) | connection.environment(), step.stdin, Path(step.cwd))
