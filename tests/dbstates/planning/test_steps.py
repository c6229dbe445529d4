"""Where scripts are cut into steps."""

from __future__ import annotations

import pytest

from helpers.script_folder import ScriptFolder


def test_every_f_and_c_is_a_step_in_order(scripts: ScriptFolder) -> None:
    scripts.write(a="SELECT 1", b="SELECT 2")
    plan = scripts.plan("-f", "a.sql", "-c", "INSERT INTO t VALUES ('secret')", "-fb.sql", "-v", "n=1")
    assert [step.title for step in plan.steps] == ["a.sql", "-c 'INSERT INTO …'", "b.sql"]
    assert plan.steps[0].command == ("-v", "n=1", "-f", str(scripts.root.resolve() / "a.sql"))
    assert plan.steps[1].command == ("-v", "n=1", "-c", "INSERT INTO t VALUES ('secret')")


def test_a_change_in_the_last_of_a_hundred_includes_changes_one_step(scripts: ScriptFolder) -> None:
    scripts.write(main="".join(f"\\i f{i}.sql\n" for i in range(100)))
    scripts.write(**{f"f{i}": f"CREATE TABLE t{i} (x int);\n" for i in range(100)})
    before = [step.content for step in scripts.plan().steps]
    scripts.write(f99="CREATE TABLE t99 (x bigint);\n")
    after = [step.content for step in scripts.plan().steps]
    assert len(before) == 100
    assert [i for i in range(100) if before[i] != after[i]] == [99]


def test_text_between_includes_is_a_step_that_keeps_its_lines(scripts: ScriptFolder) -> None:
    scripts.write(
        main="-- all\nSELECT 1;\n\\ir a.sql\nSELECT 2;\nSELECT 3;\n\\ir b.sql\n-- end\n", a="SELECT 4", b="SELECT 5"
    )
    plan = scripts.plan()
    assert [step.title for step in plan.steps] == ["main.sql:2", "a.sql", "main.sql:4-5", "b.sql"]
    assert plan.steps[2].stdin == b"\n\n\nSELECT 2;\nSELECT 3;\n"
    assert plan.steps[2].command == ("-f", "-")


STAYS = [
    "SET search_path = a;",
    "CREATE TEMP TABLE x (y int);",
    'CREATE TABLE "pg_temp".x (y int);',
    "PREPARE p AS SELECT 1;",
    "LISTEN x;",
    "LOAD 'x';",
    "SELECT set_config('a.b', 'c', false);",
    "SELECT my_function();",
    "DO $$ BEGIN EXECUTE 'SET x = 1'; END $$;",
    "DO $$ BEGIN SET x = 1; END $$;",
    "CREATE FUNCTION f() RETURNS int LANGUAGE plperl AS 'x';",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT g()';",
    "BEGIN;",
    "BEGIN; COMMIT AND CHAIN;",
    "ALTER DATABASE d SET x = 1;",
    "CREATE SEQUENCE s CACHE 20;",
    "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f();",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1;",
    "SELECT 1 \\; SET x = 1;",
    "\\set x 1",
    "\\cd .",
    "\\encoding UTF8",
    "SELECT 1 AS x \\gset",
    "SELECT 'SELECT 1' \\gexec",
    "\\setenv X 1",
    "\\o out.txt",
    "SELECT :'n' \\gset\n\\if :n\n\\endif",
    "CREATE EXTENSION dblink;",
    "EXECUTE p;",
]


@pytest.mark.parametrize("text", STAYS)
def test_what_stays_in_a_session_is_never_cut_off(scripts: ScriptFolder, text: str) -> None:
    main = f"SELECT 1;\n\\i a.sql\nSELECT 2;\n{text}\n\\i a.sql\nSELECT 3;\n"
    scripts.write(main=main, a="CREATE TABLE x ()")
    last = main.count("\n")
    assert scripts.titles() == ["main.sql:1", "a.sql", f"main.sql:3-{last}"]


def test_a_restriction_is_not_cut_before_its_end(scripts: ScriptFolder) -> None:
    scripts.write(main="\\restrict x\nSELECT 2;\n\\unrestrict x\n\\i a.sql\nSELECT 1;", a="CREATE TABLE x ()")
    assert scripts.titles() == ["main.sql:1-3", "a.sql", "main.sql:5"]


FREE = [
    "CREATE TABLE t (id serial PRIMARY KEY, s text DEFAULT lower('A'), CHECK (length(s) > 1));",
    "INSERT INTO t (id, s) SELECT g, md5(g::text) FROM generate_series(1, 10) AS g(g);",
    "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET x = 1; RETURN f(); END $$;",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END;",
    "CREATE INDEX ON t (id); CREATE UNIQUE INDEX i ON t USING btree (s);",
    "BEGIN; SET LOCAL x = 1; UPDATE t SET s = 'a'; COMMIT;",
    "BEGIN; SAVEPOINT a; ROLLBACK TO a; END;",
    "COPY t (id) FROM stdin;\n1\n\\.",
    "\\set ON_ERROR_STOP on",
    "\\echo 'SET x'",
    "\\pset null x",
    "CREATE EXTENSION IF NOT EXISTS hstore;",
    "COMMENT ON TABLE t IS 'SET x'; GRANT SELECT ON t TO public; ANALYZE t;",
    "\\if true\nSELECT 1;\n\\endif",
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.x = now(); RETURN NEW; END $$;\n"
    "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();",
]


@pytest.mark.parametrize("text", FREE)
def test_what_leaves_nothing_is_cut(scripts: ScriptFolder, text: str) -> None:
    scripts.write(main=f"\\i a.sql\n{text}\n\\i a.sql\n", a="CREATE TABLE x ()")
    assert [title.partition(":")[0] for title in scripts.titles()] == ["a.sql", "main.sql", "a.sql"]


@pytest.mark.parametrize(
    "text",
    ["SELECT currval('s');", "SELECT setseed(0.5);", "\\! true", "\\echo `true`", "SELECT :ROW_COUNT;", "\\bind 1 \\g"],
)
def test_what_reads_the_session_keeps_the_whole_script_together(scripts: ScriptFolder, text: str) -> None:
    scripts.write(main=f"\\i a.sql\n\\i a.sql\nSELECT 1;\n{text}\n", a="CREATE TABLE x ()")
    assert scripts.titles() == ["main.sql"]


def test_an_include_that_leaves_something_goes_on_in_one_step_with_what_follows(scripts: ScriptFolder) -> None:
    scripts.write(
        main="\\i a.sql\n\\ir b.sql\nSELECT 1;\n\\i a.sql\n", a="CREATE TABLE x ()", b="SET x = 1;\n\\i a.sql\n"
    )
    plan = scripts.plan()
    assert [step.title for step in plan.steps] == ["a.sql", "main.sql:3"]
    path = scripts.root.resolve() / "b.sql"
    assert plan.steps[1].stdin == f"\n\\i '{path}' \nSELECT 1;\n\\i a.sql\n".encode()
    assert {each.path.rpartition("/")[2] for each in plan.steps[1].inputs} == {"main.sql", "a.sql", "b.sql"}


@pytest.mark.parametrize("args", [("-1",), ("-v", "AUTOCOMMIT=off")])
def test_one_transaction_is_not_cut(scripts: ScriptFolder, args: tuple[str, ...]) -> None:
    scripts.write(main="\\i a.sql\n\\i a.sql\n", a="SELECT 1")
    assert scripts.titles(*args, "-f", "main.sql") == ["main.sql"]


def test_an_include_inside_a_statement_or_condition_is_not_cut(scripts: ScriptFolder) -> None:
    scripts.write(main="SELECT \\i a.sql\n1;\n\\if true\n\\i a.sql\n\\endif\n", a="SELECT 1;")
    assert scripts.titles() == ["main.sql"]


def test_a_c_may_hold_one_backslash_command(scripts: ScriptFolder) -> None:
    scripts.write(a="SELECT 1")
    step = scripts.step("-c", "\\i a.sql")
    assert [each.path.rpartition("/")[2] for each in step.inputs] == ["a.sql"]
