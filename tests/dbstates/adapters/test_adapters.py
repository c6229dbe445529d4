"""Adapters by kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.dbstates.adapters import KINDS, adapter
from gauss.dbstates.planning.plan import Connection
from gauss.model.errors import ConfigError
from helpers.script_folder import ScriptFolder


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_an_adapter(kind: str) -> None:
    assert adapter(kind).kind == kind


def test_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="found 'flyway'"):
        adapter("flyway")


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ConfigError, match="the program no-psql is not on the path"):
        adapter("psql", "no-psql").check({})


def test_the_command_of_psql_has_no_password_and_stops_at_errors(scripts: ScriptFolder) -> None:
    step = scripts.write(main="SELECT 1").step("-qf", "main.sql", PGHOST="elsewhere", PGPASSWORD="secret")
    command = adapter("psql").run_command(step, Connection("/run/pg", 5, "u", "d", Path("/x/pgpass")))
    path = str(scripts.root.resolve() / "main.sql")
    assert command.argv == ("psql", "-X", "-v", "ON_ERROR_STOP=1", "-w", "-q", "-f", path)
    assert command.env == {
        "PGHOST": "/run/pg",
        "PGPORT": "5",
        "PGUSER": "u",
        "PGDATABASE": "d",
        "PGPASSFILE": "/x/pgpass",
    }
    assert (command.cwd, command.stdin) == (scripts.root.resolve(), None)
