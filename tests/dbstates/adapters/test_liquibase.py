"""Changelogs of liquibase as steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gauss.dbstates.adapters.liquibase import Liquibase
from gauss.dbstates.planning.plan import Connection, Step
from gauss.model.errors import ConfigError

XML = """<databaseChangeLog xmlns="http://www.liquibase.org/xml/ns/dbchangelog">
  <include file="more/part.yaml" relativeToChangelogFile="true"/>
  <includeAll path="db/all"/>
  <changeSet id="1" author="a"><sqlFile path="db/one.sql"/><createTable tableName="t"/></changeSet>
</databaseChangeLog>
"""
YAML = """databaseChangeLog:
  - include: {file: "next.json", relativeToChangelogFile: true}
  - changeSet:
      id: 1
      author: a
      changes:
        - loadData: { file: db/rows.csv, tableName: t }
        - sqlFile:
            path: 'two.sql'  # beside this file
            relativeToChangelogFile: true
"""
JSON = '{"databaseChangeLog": [{"include": {"file": "db/${stage}.sql"}}]}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    texts = {
        "root.xml": XML,
        "more/part.yaml": YAML,
        "more/next.json": JSON,
        "more/two.sql": "SELECT 2;",
        "one.sql": "SELECT 1;",
        "test.sql": "--liquibase formatted sql\n--changeset a:1\nSELECT 3;",
        "rows.csv": "x\n1\n",
        "all/a.sql": "SELECT 4;",
    }
    for name, text in texts.items():
        (tmp_path / "db" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "db" / name).write_text(text)
    return tmp_path


def step(project: Path, *args: str, **env: str) -> Step:
    given = ("--changelog-file=db/root.xml", "-Dstage=test", *args)
    (found,) = Liquibase("no-liquibase").plan(given, project, env).steps
    return found


def test_a_changelog_is_a_step_with_every_file_of_its_tree(project: Path) -> None:
    found = step(project, "--contexts", "test", "update")
    names = sorted(str(Path(each.path).relative_to(project.resolve() / "db")) for each in found.inputs)
    assert names == [
        "all/a.sql", "more/next.json", "more/part.yaml", "more/two.sql", "one.sql", "root.xml", "rows.csv", "test.sql",
    ]  # fmt: skip
    assert found.command == ("--contexts=test", "--changelog-file=db/root.xml", "update", "-Dstage=test")


@pytest.mark.parametrize("name", ["root.xml", "more/part.yaml", "more/two.sql", "test.sql", "rows.csv", "all/a.sql"])
def test_each_file_changes_the_key(project: Path, name: str) -> None:
    before = step(project).content
    with (project / "db" / name).open("a") as out:
        out.write("\n")
    assert step(project).content != before


def test_a_new_file_in_an_included_folder_arguments_and_environment_change_the_key(project: Path) -> None:
    before = step(project).content
    assert step(project, LIQUIBASE_URL="x", OTHER="1").content == before
    found = {before, step(project, "--labels=x").content, step(project, LIQUIBASE_LABELS="x").content}
    (project / "db/all/b.sql").write_text("SELECT 5;")
    assert len({*found, step(project).content}) == 4


def test_a_defaults_file_counts_except_for_the_connection(project: Path) -> None:
    before = step(project).content
    defaults = project / "liquibase.properties"
    defaults.write_text("url=jdbc:x\nliquibase.command.password: secret\n")
    assert step(project).content == before
    defaults.write_text("url=jdbc:x\nlabels=x\n")
    assert step(project).content != before


def test_what_differs_from_run_to_run_is_marked(project: Path) -> None:
    (project / "db/one.sql").write_text("SELECT 1;\nSELECT random();")
    assert [(mark.reason, mark.path, mark.line) for mark in step(project).marks] == [("random", "db/one.sql", 2)]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "expected --changelog-file"),
        (("--changelog-file=none.xml",), "no file none.xml"),
        (("--changelog-file=db/root.xml",), "parameter stage is not known"),
        (("--url=jdbc:x",), "--url can't be given"),
        (("--changeLogFile", "db/root.xml", "rollback"), "unexpected 'rollback'"),
    ],
)
def test_arguments_are_refused(project: Path, args: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Liquibase("no-liquibase").plan(args, project, {})


def test_the_version_is_that_of_the_liquibase_on_the_path_of_the_request(project: Path) -> None:
    folder = project / "liquibase-x"
    (folder / "internal" / "lib").mkdir(parents=True)
    program = folder / "liquibase"

    def content(version: str) -> str:
        program.write_text(f"#!/bin/sh\necho 'Liquibase Version: {version}'\n")
        program.chmod(0o755)
        env = {"PATH": f"{folder}:/usr/bin:/bin"}
        (found,) = Liquibase().plan(("--changelog-file=db/root.xml", "-Dstage=test"), project, env).steps
        return found.content

    one = content("4.1")
    assert content("4.10") != one
    assert content("4.1") == one


def test_a_time_limit_of_statements_is_in_the_address(project: Path) -> None:
    limited = replace(step(project), env=(("PGOPTIONS", "-c statement_timeout=200"),))
    command = Liquibase("no-liquibase").run_command(limited, Connection("127.0.0.1", 5, "u", "d", Path("/pass")))
    assert command.argv[1] == "--url=jdbc:postgresql://127.0.0.1:5/d?options=-c%20statement_timeout%3D200"


def test_the_password_is_in_a_file_only_and_sockets_are_refused(project: Path) -> None:
    adapter, found = Liquibase("no-liquibase"), step(project)
    command = adapter.run_command(found, Connection("127.0.0.1", 5, "u", "d", Path("/secret/pgpass")))
    assert command.argv[:3] == ("no-liquibase", "--url=jdbc:postgresql://127.0.0.1:5/d", "--username=u")
    assert command.env["PGPASSFILE"] == "/secret/pgpass"
    with pytest.raises(ConfigError, match="socket"):
        adapter.run_command(found, Connection("/run/x", 5, "u", "d", Path("/secret/pgpass")))
    with pytest.raises(ConfigError, match="not on the path"):
        adapter.check({})
