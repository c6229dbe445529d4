"""Folders of migrations as steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.clients.postgres.binaries import bin_folder, run_as
from gauss.dbstates.adapters.migrations import Migrations
from gauss.model.errors import ConfigError
from helpers.step_server import StepServer


def folder(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"SELECT '{name}';")
    return root


def titles(root: Path, *args: str) -> list[str]:
    return [step.title for step in Migrations().plan(args or (".",), root, {}).steps]


def test_files_are_steps_in_the_order_of_their_versions(tmp_path: Path) -> None:
    names = ["V10__c.sql", "V1_10__b.sql", "V1.9__b.sql", "V001__a.sql", "V20240101__d.sql"]
    folder(tmp_path, *names, "README.md", "data/rows.sql")
    assert titles(tmp_path) == ["V001__a.sql", "V1.9__b.sql", "V1_10__b.sql", "V10__c.sql", "V20240101__d.sql"]


def test_folders_are_merged_by_version(tmp_path: Path) -> None:
    folder(tmp_path, "a/V1__x.sql", "a/V3__x.sql", "b/V2__x.sql")
    assert titles(tmp_path, "a", "b") == ["V1__x.sql", "V2__x.sql", "V3__x.sql"]


def test_a_file_with_includes_stays_one_step_and_variables_reach_it(tmp_path: Path) -> None:
    folder(tmp_path, "m/V1__x.sql", "part.sql")
    (tmp_path / "m/V1__x.sql").write_text("\\ir ../part.sql\n\\ir ../part.sql\nSELECT :n;")
    plans = [Migrations().plan(("m", "-1", "-v", f"n={n}"), tmp_path, {}) for n in (1, 2)]
    assert [len(plan.steps) for plan in plans] == [1, 1]
    assert plans[0].steps[0].content != plans[1].steps[0].content
    assert plans[0].steps[0].command[-3:] == ("-1", "-f", str(tmp_path.resolve() / "m/V1__x.sql"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["V1__a.sql", "V01__b.sql"], "is also that of"),
        (["V1__a.sql", "V1.0__b.sql"], "is also that of"),
        (["V1_a.sql"], "expected V<version>__<description>.sql"),
        (["R__views.sql"], "expected V<version>__<description>.sql"),
        (["notes.txt"], "no migrations in"),
    ],
)
def test_folders_that_are_not_clear_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        titles(folder(tmp_path, *names))


@pytest.mark.parametrize("args", [(), ("none",), (".", "-f", "x.sql"), (".", "-h", "x")])
def test_other_arguments_are_refused(tmp_path: Path, args: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        Migrations().plan(args, folder(tmp_path, "V1__a.sql"), {})


@pytest.mark.system
def test_migrations_are_applied(tmp_path: Path, empty_server: StepServer) -> None:
    (tmp_path / "V1__a.sql").write_text("CREATE TABLE a (x int);")
    (tmp_path / "V2__b.sql").write_text("INSERT INTO a VALUES (1);")
    adapter = Migrations(str(bin_folder(run_as()) / "psql"))
    empty_server.run(adapter, adapter.plan((".",), tmp_path, {}))
    assert empty_server.sql.execute("SELECT x FROM a").fetchall() == [(1,)]
