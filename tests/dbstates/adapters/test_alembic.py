"""Projects of alembic as steps."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from gauss.dbstates.adapters.alembic import Alembic
from gauss.dbstates.planning.plan import Plan
from gauss.model.errors import ConfigError
from helpers.step_server import StepServer

ALEMBIC = str(Path(sys.executable).parent / "alembic")
ENV = """
import os
from alembic import context
from sqlalchemy import engine_from_config
import shop
with engine_from_config(context.config.get_section("alembic"), prefix="sqlalchemy.").connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
suffix = os.environ.get("SHOP_SUFFIX")
"""
REVISION = """
from alembic import op
revision = "{revision}"
down_revision = {down!r}
def upgrade():
    op.execute("{sql}")  # {comment}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "db" / "versions").mkdir(parents=True)
    (tmp_path / "alembic.ini").write_text(
        "[alembic]\nscript_location = %(here)s/db\nprepend_sys_path = .\nsqlalchemy.url = postgresql+psycopg://x/y\n"
    )
    (tmp_path / "db" / "env.py").write_text(ENV)
    (tmp_path / "shop.py").write_text("NAME = 'shop'\n")
    revise(tmp_path, "a1", None, "CREATE TABLE a (x int)")
    revise(tmp_path, "b2", "a1", "INSERT INTO a VALUES (1)")
    return tmp_path


def revise(project: Path, revision: str, down: str | tuple[str, ...] | None, sql: str, comment: str = "") -> None:
    text = REVISION.format(revision=revision, down=down, sql=sql, comment=comment)
    (project / "db" / "versions" / f"{revision}_x.py").write_text(text)


def plan(project: Path, *args: str, **env: str) -> Plan:
    return Alembic(ALEMBIC).plan(args, project, {"PATH": os.environ["PATH"], **env})


def keys(project: Path, *args: str, **env: str) -> list[str]:
    return [step.content for step in plan(project, *args, **env).steps]


@pytest.mark.system
def test_each_revision_is_a_step_that_is_applied(project: Path, empty_server: StepServer) -> None:
    found = plan(project)
    assert [step.title for step in found.steps] == ["a1_x.py", "b2_x.py"]
    empty_server.run(Alembic(ALEMBIC), Plan("alembic", found.steps[:1]))
    assert empty_server.sql.execute("SELECT count(*) FROM a").fetchall() == [(0,)]
    empty_server.run(Alembic(ALEMBIC), Plan("alembic", found.steps[1:]))
    assert empty_server.sql.execute("SELECT x FROM a").fetchall() == [(1,)]


def test_a_changed_revision_changes_its_step_only(project: Path) -> None:
    before = keys(project)
    revise(project, "b2", "a1", "INSERT INTO a VALUES (2)")
    after = keys(project)
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


def test_a_comment_and_a_later_revision_change_no_step(project: Path) -> None:
    before = keys(project)
    revise(project, "b2", "a1", "INSERT INTO a VALUES (1)", comment="why")
    revise(project, "c3", "b2", "SELECT 1")
    assert keys(project)[:2] == before


@pytest.mark.parametrize("file", ["db/env.py", "shop.py", "alembic.ini"])
def test_a_file_that_every_revision_runs_changes_every_step(project: Path, file: str) -> None:
    before = keys(project)
    with (project / file).open("a") as out:
        out.write("\nadded = 1\n")
    assert not set(before) & set(keys(project))


@pytest.mark.parametrize("line", ["from .user import User", "from . import user", "import_module('shop.user')"])
def test_a_module_that_a_package_imports_changes_every_step(project: Path, line: str) -> None:
    (project / "shop.py").unlink()
    (project / "shop").mkdir()
    (project / "shop" / "__init__.py").write_text(f"{line}\n")
    (project / "shop" / "user.py").write_text("User = 1\n")
    before = keys(project)
    (project / "shop" / "user.py").write_text("User = 2\n")
    assert not set(before) & set(keys(project))


def test_a_package_that_is_upgraded_changes_every_step(project: Path, tmp_path: Path) -> None:
    """While the same process plans."""
    venv = tmp_path / "venv"
    packages = venv / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (venv / "bin").mkdir(parents=True)
    packages.mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (venv / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    script = venv / "bin" / "alembic"
    script.write_text(f"#!{venv}/bin/python\n")
    script.chmod(0o755)

    def installed(version: str) -> list[str]:
        for each in packages.glob("*.dist-info"):
            shutil.rmtree(each)
        for name, number in (("alembic", "1.0"), ("sqlalchemy", version)):
            info = packages / f"{name}-{number}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        found = Alembic().plan((), project, {"PATH": f"{venv / 'bin'}:/usr/bin:/bin"})
        return [step.content for step in found.steps]

    before = installed("2.0.1")
    assert not set(before) & set(installed("2.0.2"))
    assert installed("2.0.1") == before


def test_arguments_and_environment_change_every_step(project: Path) -> None:
    before = keys(project)
    assert not set(before) & set(keys(project, "-x", "tenant=1", "upgrade", "head"))
    assert not set(before) & set(keys(project, SHOP_SUFFIX="1"))
    assert keys(project, OTHER="1") == before


def test_branches_are_applied_after_what_they_depend_on(project: Path) -> None:
    revise(project, "0c", "a1", "SELECT 1")
    with pytest.raises(ConfigError, match="expected one head, found 2"):
        plan(project)
    titles = [step.title for step in plan(project, "upgrade", "heads").steps]
    assert titles[0] == "a1_x.py"
    assert sorted(titles[1:]) == ["0c_x.py", "b2_x.py"]
    revise(project, "dd", ("0c", "b2"), "SELECT 1")
    assert [step.title for step in plan(project).steps][-1] == "dd_x.py"


def test_what_differs_from_run_to_run_is_marked(project: Path) -> None:
    revise(project, "c3", "b2", "INSERT INTO a SELECT random()")
    marks = plan(project).steps[-1].marks
    assert [(mark.reason, mark.path, mark.line) for mark in marks] == [("random()", "db/versions/c3_x.py", 6)]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("db/versions/z_x.py", "revision = 'z'", "expected down_revision"),
        ("db/versions/z_x.py", "revision = 'a1'\ndown_revision = None", "is also that of"),
        ("db/versions/z_x.py", "revision = 'z'\ndown_revision = 'none'", "expected one revision none, found 0"),
        ("db/versions/z_x.py", "revision = (", "z_x.py:1: expected a Python file"),
        ("alembic.ini", "[alembic]\nscript_location = a:b", "expected script_location as a folder"),
        ("alembic.ini", "[other]\n", "alembic.ini: No section"),
    ],
)
def test_a_broken_project_is_refused_with_its_file(project: Path, file: str, text: str, message: str) -> None:
    (project / file).write_text(text)
    with pytest.raises(ConfigError, match=message):
        plan(project)


def test_other_commands_of_alembic_are_refused(project: Path) -> None:
    with pytest.raises(ConfigError, match="invalid choice: 'downgrade'"):
        plan(project, "downgrade", "-1")
