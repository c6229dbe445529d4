"""A miss is explained by what is stored of the cached step."""

from __future__ import annotations

import pytest

from gauss.dbstates.planning.explain import distance, explain
from helpers.script_folder import ScriptFolder

MAIN = """CREATE TABLE t (x int);

-- rows
INSERT INTO t VALUES (1);
\\copy t from 'rows.txt'
\\getenv e E
SELECT :'n', :'e';
"""
CHANGES = [
    ({"main": MAIN.replace("(1)", "(2)")}, (), {}, "main.sql:4 was changed"),
    ({"main": MAIN.replace("-- rows\n", "SELECT 1;\n")}, (), {}, "main.sql:3 was changed"),
    ({"main": MAIN + "SELECT 2;"}, (), {}, "main.sql:8 was added"),
    ({"main": MAIN[: MAIN.index("SELECT")]}, (), {}, "main.sql:7 was removed"),
    ({}, ("-v", "n=2"), {}, "variable n was changed"),
    ({}, ("-1",), {}, "option -1 was added"),
    ({}, (), {"E": "y"}, "environment variable E was changed"),
    ({}, (), {"PGOPTIONS": "-c x=1"}, "environment variable PGOPTIONS was added"),
]


@pytest.fixture
def given(scripts: ScriptFolder) -> ScriptFolder:
    (scripts.root / "rows.txt").write_text("1\n")
    return scripts.write(main=MAIN)


@pytest.mark.parametrize(("files", "args", "env", "message"), CHANGES)
def test_a_miss_names_what_has_changed(
    given: ScriptFolder, files: dict[str, str], args: tuple[str, ...], env: dict[str, str], message: str
) -> None:
    base = ("-f", "main.sql", "-v", "n=1")
    old = given.step(*base, E="x").ingredients
    new = given.write(**files).step(*base, *args, **{"E": "x", **env}).ingredients
    assert str(explain(old, new)[0]) == message
    assert distance(old, new) > distance(old, old) == 0


def test_a_changed_data_file_is_named(given: ScriptFolder) -> None:
    old = given.step(E="x").ingredients
    (given.root / "rows.txt").write_text("2\n")
    assert [str(each) for each in explain(old, given.step(E="x").ingredients)] == ["data file rows.txt was changed"]


def test_a_comment_explains_nothing(given: ScriptFolder) -> None:
    old = given.step(E="x").ingredients
    given.write(main=MAIN.replace("-- rows", "-- other"))
    assert explain(old, given.step(E="x").ingredients) == []


def test_server_and_extension_versions_are_named(scripts: ScriptFolder) -> None:
    plan = scripts.write(main="CREATE EXTENSION hstore").plan()
    old, new = (
        plan.with_server({"work_mem": size}, {"hstore": version}).steps[0].ingredients
        for size, version in (("4MB", "1.8"), ("8MB", "1.9"))
    )
    assert [str(each) for each in explain(old, new)] == [
        "extension hstore was changed",
        "server setting work_mem was changed",
    ]


def test_a_line_far_down_a_long_script_is_named_by_its_group(scripts: ScriptFolder) -> None:
    lines = [f"INSERT INTO t VALUES ({i});" for i in range(3000)]
    old = scripts.write(main="\n".join(lines)).step().ingredients
    lines[2000] = "SELECT 1;"
    (found,) = explain(old, scripts.write(main="\n".join(lines)).step().ingredients)
    assert found.line is not None
    assert 2001 - 16 < found.line <= 2001
