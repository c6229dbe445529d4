"""The scanner cuts scripts into the statements that the real psql sends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.dbstates.planning import walk as walking
from gauss.dbstates.planning.content import Content
from gauss.dbstates.planning.files import Files
from gauss.dbstates.planning.lexer import Unterminated, normalized
from gauss.dbstates.planning.state import State
from gauss.dbstates.planning.variables import Variables
from gauss.dbstates.planning.volatility import Volatility
from gauss.dbstates.planning.walk import Walk
from gauss.model.errors import ConfigError
from helpers.cases import cases
from helpers.psql_listener import PsqlListener

DEBIAN = Path("/usr/lib/postgresql/15/bin/psql")
GIVEN = {"n": b"5", "name": b"it's", "sql": b"1 + :n", "on": b"true", "off": b"no", "minus": b"- 1", "back": b"a\\b"}
FRAGMENTS = r"""
SELECT 1|;|;;|'a;b'|'it''s'|E'a\';b'|E'\\'|"i;d"|U&'d\0061;' UESCAPE '!'|U&"x;"|$$a;b$$|$x$ ; $$ ' $x$
-- c; ' "⏎
/* c; ' */|/* a /* b */ ; */|⏎|⏎|  |⇥|:n|:'name'|:"name"|:{?n}|:{?none}|:none|a::int|x[1:2]|:=|(|)|begin|end|case
CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END;
CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC INSERT INTO t VALUES (1); END;|\;|\:|:sql|1 -:minus|:'back'|a:n|e:'n'
COPY t FROM stdin;⏎1\t'x⏎;⏎\.⏎|COPY t FROM stdin;⏎\.⏎|\copy t from stdin⏎1\N⏎\.⏎| 4 \g⏎| 4 \g⏎;|\r⏎
\p⏎
\echo 'a;b' ; x⏎|\echo `true` -- ' "x⏎|\set v 'a b' c⏎|:v|:'v'|\set n 6⏎|\unset n⏎|\if :on⏎|\if :off⏎
\else⏎
\endif⏎|\elif :on⏎|\if :on⏎SELECT 2;⏎\else⏎SELECT 3;⏎\endif⏎
\if :off⏎SELECT 2;⏎\else⏎SELECT 3;⏎\endif⏎
\if false⏎'x' ; $$ ( $$⏎\endif⏎|\i inc.sql⏎|\ir inc.sql⏎|\i inc.sql \\ SELECT 9;⏎
\echo x \\ SELECT 8;|1e5|1.5|.5
1..2|$1|a$b$c|b'01'|x'1f;'|N'n;'|e|E|'a'⏎'b'|'a' -- c⏎ 'b'|'a' 'b'|@-1|<-|->|->>|*/|--␍ SELECT 7⏎|é|'é;'
\timing⏎
\restrict abc⏎\unrestrict abc⏎|=|,|.|*|+|-|/|?|#|~|^|&|`|%|<|>|[|]|{|}|!|␌|\pset null 'x;y'⏎|\q⏎
\set s 'x;'⏎
"""
PARTS = [
    each.replace("⏎", "\n").replace("⇥", "\t").replace("␍", "\r").replace("␌", "\f")
    for line in FRAGMENTS.splitlines()
    for each in line.split("|")
    if each
]


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PsqlListener]:
    with PsqlListener(tmp_path_factory.mktemp("s")) as found:
        yield found


class Recorded(Content):
    """Content that keeps its parts as they are."""

    found: list[tuple[str, bytes | list[bytes]]] = []  # noqa: RUF012

    def add(self, *parts: bytes | str) -> str:
        rest = [each for each in parts[1:] if isinstance(each, bytes)]
        if parts[0] == "sql":
            self.found.append(("query", _trimmed(rest)))
        elif parts[0] == "\\copy" and "stdin" in parts:
            at = parts.index("stdin")
            before, after = (list(filter(None, map(_bytes, some))) for some in (parts[1 : at - 1], parts[at + 1 :]))
            self.found.append(("query", _trimmed([b"COPY", *before, b"FROM", b"STDIN", *after])))
        elif parts[0] == "rows":
            self.found.append(("rows", rest[0]))
        return super().add(*parts)


def _trimmed(tokens: list[bytes]) -> list[bytes]:
    """Without semicolons at the end: psql sends the one that ends a statement."""
    while tokens[-1:] == [b";"]:
        tokens = tokens[:-1]
    return tokens


def _bytes(part: bytes | str) -> bytes:
    return part if isinstance(part, bytes) else part.encode()


def planned(folder: Path, script: Path) -> list[tuple[str, bytes | list[bytes]]]:
    state = State(Files(folder), Variables(GIVEN), {}, folder, Volatility())
    state.cut = False
    Recorded.found = []
    Walk(state).file(script, str(script))
    return Recorded.found


def sent(listener: PsqlListener, script: Path, psql: Path | None) -> list[tuple[str, bytes | list[bytes]]]:
    options = [each for name, value in GIVEN.items() for each in ("-v", f"{name}={value.decode()}")]
    found: list[tuple[str, bytes | list[bytes]]] = []
    for kind, text in listener.run([*options, "-f", str(script)], script.parent, psql):
        if kind == "rows":
            # Older versions send the end of the rows, too.
            found.append((kind, text.removesuffix(b"\\.\n")))
            continue
        tokens = _trimmed(normalized(text))
        if tokens:
            found.append((kind, tokens))
    return found


@pytest.mark.parametrize("psql", [None, DEBIAN], ids=["embedded", "debian"])
def test_random_scripts_are_cut_as_psql_cuts_them(
    listener: PsqlListener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, psql: Path | None
) -> None:
    if psql is not None and not psql.exists():
        psql = None
    monkeypatch.setattr(walking, "Content", Recorded)
    (tmp_path / "inc.sql").write_text("SELECT 'included;' /* ; */;\nSELECT 'at the end'")
    script, compared = tmp_path / "script.sql", 0
    for seed in range(cases(120)):
        chance = random.Random(seed)
        text = "".join(chance.choice(PARTS) + chance.choice(["", " ", "\n"]) for _ in range(chance.randint(1, 14)))
        script.write_bytes(text.encode())
        try:
            found = planned(tmp_path, script)
        except ConfigError:
            continue  # psql stops there or sends what the server refuses
        try:
            expected = sent(listener, script, psql)
        except Unterminated:
            continue
        assert found == expected, f"seed {seed}: {text!r}"
        compared += 1
    assert compared > cases(120) // 4
