"""Which requests a page may make, and what it shows of their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.api.databases.source import DatabaseSource, masked
from gauss.config.databases import DatabaseDef, PrepareDef
from gauss.model.errors import ConfigError, NotFound


def test_a_named_database_is_prepared_with_the_arguments_of_the_config(tmp_path: Path) -> None:
    shop = DatabaseDef(name="shop", prepare=PrepareDef(args=("-f", "schema.sql")))
    source = DatabaseSource(tmp_path / "data", tmp_path, (shop,))
    asked = source.request(None, "shop")
    assert (asked["prepare_kind"], asked["args"], asked["cwd"]) == ("psql", ["-f", "schema.sql"], str(tmp_path))
    with pytest.raises(NotFound, match="no database"):
        source.request(None, "other")
    for both in ((None, None), ("0123456789abcdef", "shop")):
        with pytest.raises(ConfigError, match="either a job or a database"):
            source.request(*both)
    assert source.is_used()
    assert not DatabaseSource(tmp_path / "data", tmp_path).is_used()


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["-f", "schema.sql", "-c", "SELECT 1 = 1"], ["-f", "schema.sql", "-c", "SELECT 1 = 1"]),
        (["-v", "pw=x=y"], ["-v", "pw=…"]),
        (["-vpw=x", "--set=pw=x", "--set", "pw=x"], ["-vpw=…", "--set=pw=…", "--set", "pw=…"]),
        (["--password=x", "--changelog-file=a.xml"], ["--password=…", "--changelog-file=a.xml"]),
        (["-Dname=x", "--file=a=b.sql"], ["-Dname=…", "--file=a=b.sql"]),
        (["-1", "-v", "name"], ["-1", "-v", "name"]),
    ],
)
def test_values_of_variables_are_masked(args: list[str], shown: list[str]) -> None:
    assert masked(args) == shown
