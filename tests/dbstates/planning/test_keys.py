"""What is a part of a step's key and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.dbstates.planning.plan import Plan, state_id
from helpers.script_folder import ScriptFolder

SAME = [
    ("SELECT a<-1", "SELECT a < -1"),
    ("SELECT 1 ;", "select_ /* no */;".replace("select_", "SELECT 1")),
    ("SELECT 'a'\n'b'", "SELECT 'a' -- it's\n   'b';"),
    ("SELECT 1;\r\n", "\n\tSELECT\f1 --\r;"),
    ("\ufeffSELECT 1", "SELECT 1"),
    ("\\set x 5\nSELECT :x", "\\set   x   5\nSELECT  :x -- c"),
    ("COPY t FROM stdin;\n1\n\\.\nSELECT 1", "COPY  t FROM stdin ; -- rows\n1\n\\.\n\nSELECT 1;"),
    ("SELECT 1 \\g", "SELECT /* 1 */ 1\\g"),
    ("SELECT x FROM t \\gset\nSELECT :'x'", "SELECT x FROM t \\gset\nSELECT /* c */ :'x'"),
    ("\\restrict abc\nSELECT 1;\n\\unrestrict abc", "\\restrict def\nSELECT 1;\n\\unrestrict def"),
    ("\\if true\nSELECT 1;\n\\else\nSELECT 2;\n\\endif", "\\if on\nSELECT 1;\n\\endif"),
    ("SELECT 1;;", "SELECT 1"),
]
OTHER = [
    ("SELECT a<-1", "SELECT a <- -1"),
    ("SELECT 'a'\n'b'", "SELECT 'a' 'b'"),
    ("SELECT 'a'\n'b'", "SELECT 'a''b'"),
    ("SELECT 'a b'", "SELECT 'a  b'"),
    ("SELECT E'a'", "SELECT E 'a'"),
    ("SELECT $$a -- b$$", "SELECT $$a -- c$$"),
    ("SELECT $$a$$", "SELECT 'a'"),
    ('SELECT "a"', 'SELECT "A"'),
    ("SELECT /*+ SeqScan(t) */ 1", "SELECT 1"),
    ("SELECT 1 -- \rFROM t", "SELECT 1 -- FROM t"),
    ("SELECT 1;SELECT 2", "SELECT 1\\;SELECT 2"),
    ("SELECT ab", "SELECT a b"),
    ("SELECT 1 2", "SELECT 12"),
    ("SELECT a::int", "SELECT a: :int"),
    ("COPY t FROM stdin;\n1\n\\.\n", "COPY t FROM stdin;\n1 \n\\.\n"),
    ("COPY t FROM stdin;\na -- b\n\\.\n", "COPY t FROM stdin;\na\n\\.\n"),
    ("\\set x 5\nSELECT :x", "\\set x 6\nSELECT :x"),
    ("SELECT x FROM t \\gset\nSELECT :x", "SELECT x FROM t \\gset\nSELECT :x FROM t"),
    ("SELECT current_query()", "SELECT current_query() -- c"),
    ("\\if true\nSELECT 1;\n\\endif", "\\if false\nSELECT 1;\n\\endif"),
    ("SELECT 1 AS t \\gset\nCOPY :t FROM stdin;\na -- b\n\\.", "SELECT 1 AS t \\gset\nCOPY :t FROM stdin;\na\n\\."),
    ("\\set x current_query()\nSELECT :x", "\\set x current_query()\nSELECT  :x"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_layout_and_comments_do_not_count(scripts: ScriptFolder, one: str, two: str) -> None:
    assert scripts.key(one) == scripts.key(two)


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_what_can_change_the_result_counts(scripts: ScriptFolder, one: str, two: str) -> None:
    assert scripts.key(one) != scripts.key(two)


def test_only_variables_that_are_read_count(scripts: ScriptFolder) -> None:
    text, args = "SELECT :n, :'name'", ("-f", "main.sql", "-v", "name=x", "-v", "n=1")
    before = scripts.key(text, *args)
    assert scripts.key(text, *args, "-v", "other=1") == before
    assert scripts.key(text, *args, "-v", "n=2") != before
    assert scripts.key(text, *args, "-v", "name=y") != before
    assert scripts.key("SELECT 1, 'x'") == before


def test_a_variable_that_is_tested_or_unset_counts(scripts: ScriptFolder) -> None:
    assert scripts.key("SELECT :{?n}") != scripts.key("SELECT :{?n}", "-f", "main.sql", "-v", "n=1")
    assert scripts.key("SELECT :n") != scripts.key("SELECT :n", "-f", "main.sql", "-v", "n=1")


def test_a_value_that_joins_its_neighbours_is_read_as_the_server_reads_it(scripts: ScriptFolder) -> None:
    comment = ("-f", "main.sql", "-v", "x=- 2")
    assert scripts.key("SELECT 1 -:x , 3\n, 4", *comment) == scripts.key("SELECT 1, 4".replace("1,", "1 ,"))
    assert scripts.key("SELECT a:x", "-f", "main.sql", "-v", "x=b") == scripts.key("SELECT ab")


def test_options_of_printing_do_not_count_and_a_single_transaction_does(scripts: ScriptFolder) -> None:
    before = scripts.key("SELECT 1")
    assert scripts.key("SELECT 1", "-qAtef", "main.sql", "--csv", "-P", "null=x") == before
    assert scripts.key("SELECT 1", "-1f", "main.sql") != before
    assert scripts.key("SELECT 1", "-f", "main.sql", "-v", "AUTOCOMMIT=off") != before


def test_only_the_environment_that_is_read_counts(scripts: ScriptFolder) -> None:
    text = "\\getenv who WHO\nSELECT :'who'"
    before = scripts.key(text, WHO="me")
    assert scripts.key(text, WHO="me", OTHER="1") == before
    assert scripts.key(text, WHO="you") != before
    assert scripts.key(text, WHO="me", PGOPTIONS="-c work_mem=8MB") != before
    step = scripts.step(WHO="me", OTHER="1", PGHOST="elsewhere", PATH="/bin")
    assert dict(step.env) == {"PATH": "/bin", "WHO": "me"}


@pytest.mark.parametrize("text", ["\\copy t from 'rows.csv' csv", "COPY t FROM '{}/rows.csv'", "\\lo_import rows.csv"])
def test_the_content_of_a_data_file_counts(scripts: ScriptFolder, text: str) -> None:
    rows = scripts.root / "rows.csv"
    rows.write_bytes(b"1\0\n")
    before = scripts.key(text.format(scripts.root))
    (found,) = [each for each in scripts.step().inputs if each.path == str(rows)]
    assert found.sha256 == found.relevant_hash
    rows.write_bytes(b"2\0\n")
    assert scripts.key(text.format(scripts.root)) != before


@pytest.mark.parametrize("form", ["\\i a.sql", "\\ir a.sql", "\\include a.sql;", "\\include_relative 'a.sql'"])
def test_a_script_that_is_included_or_written_out_has_the_same_key(scripts: ScriptFolder, form: str) -> None:
    scripts.write(a="CREATE TABLE a (x int); -- c\nINSERT INTO a VALUES (:n);\n")
    args = ("-1", "-v", "n=1", "-f", "main.sql")
    plain = scripts.key("SELECT 1;\nCREATE TABLE a (x int);\nINSERT INTO a VALUES (:n);\nSELECT 2;", *args)
    assert scripts.key(f"SELECT 1;\n{form}\nSELECT 2;", *args) == plain


@pytest.mark.parametrize("args", [("-1", "-f", "link.sql"), ("-f", "link.sql"), ("-f", "outer.sql")])
def test_a_relative_include_starts_from_the_link_by_which_its_script_is_named(
    scripts: ScriptFolder, args: tuple[str, ...]
) -> None:
    (scripts.root / "real").mkdir()
    (scripts.root / "real" / "script.sql").write_text("\\if true\n\\ir part.sql\n\\endif\n")
    (scripts.root / "link.sql").symlink_to("real/script.sql")
    scripts.write(part="SELECT 1;", outer="\\i link.sql\n")
    step = scripts.step(*args)
    part = str(scripts.root.resolve() / "part.sql")
    assert part in [each.path for each in step.inputs]
    assert step.stdin is not None
    assert f"\\i '{part}'".encode() in step.stdin


def test_an_include_in_rows_comments_and_quotes_is_none(scripts: ScriptFolder) -> None:
    text = (
        "COPY t FROM stdin;\n\\i none.sql\n\\.\n/* \n\\i none.sql\n*/ SELECT '\n\\i none.sql\n', $$\n\\i none.sql\n$$"
    )
    scripts.key(text)


def test_the_server_counts_where_it_is_given(scripts: ScriptFolder) -> None:
    plan = scripts.write(main="CREATE EXTENSION IF NOT EXISTS hstore;").plan("-f", "main.sql", "-c", "SELECT 1")
    settings, versions = {"work_mem": "4MB"}, {"hstore": "1.8", "citext": "1.6"}

    def keys(found: Plan) -> list[str]:
        return [step.content for step in found.steps]

    before = keys(plan.with_server(settings, versions))
    assert keys(plan.with_server(settings, versions | {"citext": "1.7"})) == before
    assert keys(plan.with_server(settings, versions | {"hstore": "1.9"}))[0] != before[0]
    assert keys(plan.with_server({"work_mem": "8MB"}, versions))[0] != before[0]


def test_an_extension_made_by_code_depends_on_all_versions(scripts: ScriptFolder) -> None:
    plan = scripts.write(main="DO $$ BEGIN CREATE EXTENSION hstore; END $$").plan()
    one, two = (plan.with_server({}, {"citext": version}).steps[0].content for version in ("1.6", "1.7"))
    assert one != two


def test_state_ids_differ_by_each_part() -> None:
    found = {
        state_id("psql", "parent", "content", "18.1"),
        state_id("migrations", "parent", "content", "18.1"),
        state_id("psql", "parentc", "ontent", "18.1"),
        state_id("psql", "parent", "content1", "8.1"),
        state_id("psql", "parent", "content", "18.2"),
    }
    assert len(found) == 5
    assert all(len(each) == 64 for each in found)


def test_inputs_are_real_paths_with_hashes_of_what_is_relevant(scripts: ScriptFolder, tmp_path: Path) -> None:
    scripts.write(a="SELECT 1; -- c")
    (tmp_path / "link.sql").symlink_to("a.sql")
    (before,) = scripts.step("-f", "link.sql").inputs
    scripts.write(a="SELECT  1;")
    (after,) = scripts.step("-f", "link.sql").inputs
    assert before.path == after.path == str(tmp_path.resolve() / "a.sql")
    assert before.sha256 != after.sha256
    assert before.relevant_hash == after.relevant_hash
