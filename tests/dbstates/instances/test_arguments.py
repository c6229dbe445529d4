"""Arguments of psql and pgbench: a connection is refused in every form."""

from __future__ import annotations

import pytest

from gauss.dbstates.instances.arguments import check_arguments
from gauss.model.errors import ConfigError


@pytest.mark.parametrize(
    "args",
    [
        ["-h", "other"],
        ["-hother"],
        ["-Ath", "other"],
        ["--host=other"],
        ["--hos", "other"],
        ["-dx"],
        ["-W"],
        ["postgresql://other/x"],
        ["-c", "SELECT 1", "other"],
        ["--", "other"],
    ],
)
def test_a_connection_is_refused(args: list[str]) -> None:
    with pytest.raises(ConfigError, match="names a connection"):
        check_arguments("psql", args)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("psql", ["-Atc", "SELECT '-h'"]),
        ("psql", ["-c", "-h other", "-vname=-dx", "--set", "a=b", "-f", "-"]),
        ("pgbench", ["-i", "-s", "10", "--unlogged-tables"]),
        ("pgbench", ["-T5", "-Pc2", "-D", "n=1"]),
    ],
)
def test_values_of_other_options_may_look_like_one(tool: str, args: list[str]) -> None:
    check_arguments(tool, args)


def test_pgbench_takes_no_database_either() -> None:
    with pytest.raises(ConfigError, match="names a connection"):
        check_arguments("pgbench", ["-i", "postgres"])
    with pytest.raises(ConfigError, match="not recognized"):
        check_arguments("pgbench", ["--no-such"])
