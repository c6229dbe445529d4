"""Scripts and arguments that can't be planned are refused with file and line, and none makes the planner fail."""

from __future__ import annotations

import os
import random
import re

import pytest

from gauss.model.errors import ConfigError
from helpers.cases import cases
from helpers.script_folder import ScriptFolder

ARGUMENTS = [
    ("", "found no script"),
    ("-f -", "reads the standard input"),
    ("-d x -f main.sql", "-d (--dbname) can't be given"),
    ("-hx -f main.sql", "-h (--host) can't be given"),
    ("-qp 5432 -f main.sql", "-p (--port) can't be given"),
    ("--user=x -f main.sql", "-U (--username) can't be given"),
    ("-W -f main.sql", "-W (--password) can't be given"),
    ("-w -f main.sql", "-w (--no-password) can't be given"),
    ("-f main.sql shop", "found 'shop'"),
    ("-f main.sql postgresql://h/d", "found 'postgresql://h/d'"),
    ("-f main.sql -- service=x", "found 'service=x'"),
    ("-Sf main.sql", "-S (--single-line)"),
    ("-f", "expected a value after -f"),
    ("-K -f main.sql", "no option -K"),
    ("--sing -f main.sql", "more than one option"),
    ("--nothing -f main.sql", "no option --nothing"),
    ("--quiet=1 -f main.sql", "takes no value"),
    ("-v ON_ERROR_STOP=0 -f main.sql", "ON_ERROR_STOP is always on"),
    ("-v a-b=0 -f main.sql", "letters, digits and _"),
    ("-f none.sql", "expected a file none.sql"),
    ("-f .", "expected a regular file"),
    ("-f /dev/zero", "expected a regular file"),
    ("-c SET\\sx=1 -f main.sql", "only changes its session"),
]
SCRIPTS = [
    ("\\getenv h PGHOST", "the connection is the engine's"),
    ("SELECT 1;\nSELECT 'x", "main.sql:2: a quoted string is not terminated"),
    ("\n/* /* */", "main.sql:2: a /* comment is not terminated"),
    ("$a$ $b$", "main.sql:1: a dollar-quoted string is not terminated"),
    ("SELECT 1;\nSEL\0ECT", "main.sql:2: a NUL byte"),
    ("\n\n\\i none.sql", "main.sql:3: expected a file none.sql"),
    ("\\i", "main.sql:1: expected a file name after \\i"),
    ("\\i ~/x.sql", "~ depends on the user"),
    ("\\i 'x", "unterminated quoted string"),
    ("\\i main.sql", "includes itself: main.sql → main.sql"),
    ("\\i a.sql", "a.sql:1: a script includes itself: main.sql → a.sql → main.sql"),
    ("\\i `echo a.sql`", "with backticks"),
    ("SELECT 1 AS x \\gset\n\\i :x", "main.sql:2: the file name after \\i is only known while the script runs"),
    ("\\connect other", "main.sql:1: \\connect can't be a part of a step"),
    ("\\prompt x", "\\prompt can't be"),
    ("\\nothing", "unknown backslash command \\nothing"),
    ("SELECT 1 \\\\", "unknown backslash command \\"),
    ("\\set ON_ERROR_STOP off", "ON_ERROR_STOP is always on"),
    ("\\set SINGLELINE on", "SINGLELINE can't be set"),
    ("SET standard_conforming_strings = off", "expected SET standard_conforming_strings"),
    ("DO $$ BEGIN SET standard_conforming_strings = off; END $$", "expected SET standard_conforming_strings"),
    ("SELECT set_config('standard_conforming_strings', 'off', false)", "expected SET standard_conforming_strings"),
    ("SELECT 1 AS x \\gset\nCOPY t FROM :x;", "main.sql:2: COPY … FROM: the file is only known"),
    ("SELECT 1 AS x \\gset\nCOPY t FROM :'x';", "main.sql:2: COPY … FROM: the file is only known"),
    ("SET client_encoding = 'SJIS'", "expected UTF8"),
    ("\\encoding BIG5", "expected UTF8"),
    ("\\copy t", "\\copy can't be read"),
    ("\\copy t from none.csv", "expected a file none.csv"),
    ("\\copy t from pstdin", "pstdin"),
    ("COPY t FROM 'rows.csv'", "expected an absolute path"),
    ("COPY t FROM stdin; SELECT 1;\n\\.", "expected nothing behind COPY"),
    ("SELECT 1 AS x \\gset\n\\if :x\nCOPY t FROM stdin;\n\\.\n\\endif", "main.sql:3: COPY … FROM stdin in a condition"),
    ("SELECT 1 AS x \\gset\nSELECT \\if :x\n1\n\\endif\n;", "\\if inside a statement"),
    ("SELECT 1 AS x \\gset\n:x", "which statement this is"),
    ("\\if true", "without \\endif"),
    ("\\else", "\\else without \\if"),
    ("\\o out.sql\nSELECT 1;\n\\o\n\\i out.sql", "main.sql:4: \\i out.sql: the script itself writes this file"),
    ("\\cd none", "no such folder"),
    ("\\set x ';'\nSELECT :x", "main.sql:2: variable x contains a ;"),
    ("\\set x '''a'\nSELECT :x", "main.sql:2: variable x contains a quoted string that it does not end"),
    ("\\restrict x\n\\i a.sql", "\\restrict forbids \\i"),
]


@pytest.mark.parametrize(("args", "message"), ARGUMENTS)
def test_arguments_are_refused(scripts: ScriptFolder, args: str, message: str) -> None:
    scripts.write(main="SELECT 1")
    with pytest.raises(ConfigError, match=re.escape(message)):
        scripts.plan(*[each.replace("\\s", " ") for each in args.split()] or ["-q"])


@pytest.mark.parametrize(("text", "message"), SCRIPTS)
def test_scripts_are_refused_with_file_and_line(scripts: ScriptFolder, text: str, message: str) -> None:
    scripts.write(main=text, a="\\ir main.sql")
    with pytest.raises(ConfigError, match=re.escape(message)):
        scripts.plan()


def test_a_variable_of_an_earlier_script_is_refused(scripts: ScriptFolder) -> None:
    scripts.write(a="\\set x 1\nSELECT :x;", b="SELECT :x;")
    with pytest.raises(ConfigError, match=r"b\.sql:1: variable x is set by \\set in a script before"):
        scripts.plan("-f", "a.sql", "-f", "b.sql")


def test_an_environment_in_which_scripts_are_read_otherwise_is_refused(scripts: ScriptFolder) -> None:
    scripts.write(main="SELECT 1")
    for env in ({"PGOPTIONS": "-c standard_conforming_strings=off"}, {"PGCLIENTENCODING": "SJIS"}):
        with pytest.raises(ConfigError, match=next(iter(env))):
            scripts.plan("-f", "main.sql", **env)


def test_a_pipe_is_refused_and_not_opened(scripts: ScriptFolder) -> None:
    os.mkfifo(scripts.root / "pipe.sql")
    with pytest.raises(ConfigError, match="expected a regular file"):
        scripts.plan("-f", "pipe.sql")


def test_a_missing_include_in_a_condition_is_a_part_of_the_key(scripts: ScriptFolder) -> None:
    text = "SELECT true AS x \\gset\n\\if :x\n\\i a.sql\n\\endif"
    before = scripts.key(text)
    assert scripts.write(a="SELECT 1").key(text) != before


def test_long_lines_and_many_statements_are_planned(scripts: ScriptFolder) -> None:
    scripts.write(main="SELECT '" + "x" * (1 << 20) + "';\n" + "INSERT INTO t VALUES (1);\n" * 5000)
    assert len(scripts.step().ingredients) < 1500


def test_random_bytes_are_planned_or_refused(scripts: ScriptFolder) -> None:
    pieces = [
        b"'",
        b'"',
        b"$$",
        b"$a$",
        b"/*",
        b"*/",
        b"--",
        b"\n",
        b"\\",
        b"\\i",
        b"\\if",
        b"\\endif",
        b";",
        b":x",
        b":'x'",
    ]
    pieces += [
        b"(",
        b")",
        b"\xff",
        b"\xc3",
        b"\0",
        b"\r",
        b" ",
        b"a",
        b"1",
        b"E'",
        b"COPY t FROM stdin",
        b"\\copy",
        b"\\.",
    ]
    for seed in range(cases(2000)):
        chance = random.Random(seed)
        text = b"".join(chance.choice(pieces) for _ in range(chance.randint(1, 25)))
        (scripts.root / "main.sql").write_bytes(text)
        try:
            scripts.plan()
        except ConfigError as error:
            assert re.search(r"\w+\.sql:\d+: ", error.message), text
