"""What is marked since it can give another result in each run."""

from __future__ import annotations

import pytest

from helpers.script_folder import ScriptFolder

MARKED = [
    ("INSERT INTO t VALUES (now())", ["now()"]),
    ("SELECT current_timestamp, clock_timestamp()", ["current_timestamp", "clock_timestamp()"]),
    ("SELECT pg_catalog.random()", ["random()"]),
    ("SELECT gen_random_uuid(), uuid_generate_v4()", ["gen_random_uuid()", "uuid_generate_v4()"]),
    ("SELECT 'now'::timestamp", ["'now'"]),
    ("SELECT array_shuffle(a), array_sample(a, 2) FROM t", ["array_shuffle()", "array_sample()"]),
    (
        "CREATE TABLE s AS SELECT * FROM pg_stat_user_tables, pg_statio_all_tables",
        ["pg_stat_user_tables", "pg_statio_all_tables"],
    ),
    ("DO $$ BEGIN PERFORM n_live_tup FROM pg_stat_all_tables; END $$", ["pg_stat_all_tables"]),
    ("SELECT timestamp ' Today 10:00 ', E'NOW'::date", ["'today'", "'now'"]),
    ("SELECT pgp_sym_encrypt('a', 'b')", ["pgp_sym_encrypt()"]),
    ("SELECT 'INSERT INTO t VALUES (now())' \\gexec", ["now() by \\gexec"]),
    ("SELECT 'COPY t FROM ''/tmp/x''' \\gexec", ["COPY from a file by \\gexec"]),
    ("SELECT * FROM dblink('x', 'y')", ["dblink()"]),
    ("CREATE EXTENSION postgres_fdw", ["postgres_fdw"]),
    ("COPY t FROM PROGRAM 'date'", ["COPY … PROGRAM"]),
    ("\\copy t from program 'date'", ["\\copy … program"]),
    ("\\! date", ["\\!"]),
    ("\\set x `date`", ["backticks"]),
    ("SELECT 1 \\g |cat", ["\\g |"]),
    ("SELECT :'PORT'", [":PORT"]),
    ("DO $$ BEGIN PERFORM random(); END $$", ["random()"]),
    ("ALTER TABLE t ADD COLUMN c timestamptz DEFAULT now()", ["now()"]),
    ("CREATE TABLE t AS SELECT now() AS x", ["now()"]),
    ("CREATE MATERIALIZED VIEW v AS SELECT now()", ["now()"]),
    ("CREATE TABLE t (x int, c timestamptz DEFAULT now()); INSERT INTO t (x) VALUES (1)", ["now() by a default of t"]),
    ("CREATE TABLE a.t (c timestamptz DEFAULT now()); \\copy t from stdin\n\\.\n", ["now() by a default of t"]),
    ("CREATE FUNCTION f() RETURNS float LANGUAGE sql AS 'SELECT random()'; SELECT f()", ["random() by f"]),
    ("CREATE VIEW v AS SELECT now() AS x; CREATE TABLE t AS SELECT * FROM v", ["now() by v"]),
    (
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.x = now(); RETURN NEW; END $$;"
        "CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f(); UPDATE t SET y = 1",
        ["now() by f in a trigger of t"],
    ),
]
PLAIN = [
    "SELECT nextval('s')",
    "CREATE TABLE t (c timestamptz DEFAULT now())",
    "CREATE TABLE t (x int, c timestamptz DEFAULT now()); INSERT INTO t (x, c) VALUES (1, '2020-01-01')",
    "CREATE FUNCTION f() RETURNS float LANGUAGE sql AS 'SELECT random()'",
    "CREATE VIEW v AS SELECT now()",
    "ALTER TABLE t ALTER COLUMN c SET DEFAULT now()",
    "SELECT 'random()', now FROM t -- now()",
    "SELECT 'today is a fine day', 'nowhere'",
    "COPY t FROM stdin;\nnow()\n\\.\n",
]


@pytest.mark.parametrize(("text", "reasons"), MARKED)
def test_what_can_differ_is_marked(scripts: ScriptFolder, text: str, reasons: list[str]) -> None:
    assert scripts.marks(text) == reasons


@pytest.mark.parametrize("text", PLAIN)
def test_what_only_defines_or_is_the_same_each_time_is_not_marked(scripts: ScriptFolder, text: str) -> None:
    assert scripts.marks(text) == []


def test_a_mark_names_file_and_line_and_follows_definitions_of_earlier_steps(scripts: ScriptFolder) -> None:
    scripts.write(
        a="CREATE TABLE t (x int, c timestamptz DEFAULT now());", b="SELECT 1;\n\nINSERT INTO t (x)\nVALUES (1);"
    )
    plan = scripts.plan("-f", "a.sql", "-f", "b.sql")
    assert plan.steps[0].marks == ()
    (mark,) = plan.steps[1].marks
    assert (mark.reason, mark.path, mark.line) == ("now() by a default of t", "b.sql", 3)
