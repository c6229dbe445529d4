"""Parser of programs: a subset of jq, with errors that show the position.

range(from: 10) | select(.symbol == "BTC" and .bid > 100) | {symbol, mid: (.bid + .ask) / 2}    a program
.bid > 100 and (.symbol | startswith("BT"))                                                    an expression
"""

from __future__ import annotations

import functools
import re
from typing import Any

from lark import Lark, UnexpectedCharacters, UnexpectedToken

from gauss.contracts import cursor
from gauss.contracts.cursor import Mode, Output, Seq, View
from gauss.contracts.expression import FUNCTIONS, MAX_CHARS, MAX_DEPTH, ExpressionProgram, Value
from gauss.model.errors import ConfigError
from gauss.scan.program.build import ONE_ROW, Build, Invocation, Misplaced, expression, stage
from gauss.scan.program.fault import bounded, fault
from gauss.scan.program.grammar import GENERATORS, GRAMMAR, MEANING
from gauss.scan.program.views import VIEWS, build_view

_NO_VIEWS = GENERATORS | FUNCTIONS.keys()
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*"|[(\[{]|[)\]}]')


def parse(text: str) -> ExpressionProgram:
    """Parses an expression. Raises ConfigError with the position of the fault."""
    root = _read(text, "pipe")
    bounded([Value(root)], text)
    return ExpressionProgram(text, root)


def parse_scan(text: str, *, live: bool = False, output: Output = Output.ROWS) -> cursor.Program:
    """Parses a program: a view (default: `seq`), then stages. Raises ConfigError with the position of the fault."""
    view, format_name, stages = _read(text, "program") if text.strip() else (Seq(), "", ())
    bounded(stages, text)
    return cursor.Program(view, Mode.LIVE if live else Mode.SNAPSHOT, output, stages, format_name, text)


def _whole(parts: list[Any]) -> tuple[View, str, tuple[Any, ...]]:
    view: View = Seq()
    format_name = ""
    if isinstance(first := parts[0], Invocation) and (first.name in VIEWS or first.name not in _NO_VIEWS):
        view, format_name = build_view(first)
        parts = parts[1:]
    for part in parts:
        if isinstance(part, Invocation) and part.name in VIEWS and part.name != "range":
            raise Misplaced(part.at, f"the view {part.name} must be at the beginning of the program")
    return view, format_name, tuple(stage(part) for part in parts)


@functools.cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", start=["program", "pipe"], transformer=Build(), maybe_placeholders=False)


def _read(text: str, start: str) -> Any:
    if len(text) > MAX_CHARS:
        raise ConfigError(f"a program may have {MAX_CHARS} characters (got {len(text)})")
    _refuse_nesting(text)
    try:
        found = _parser().parse(text, start=start)
        return _whole(found) if start == "program" else expression(found)
    except Misplaced as error:
        raise fault(text, error.at, error.message, error.hint) from None
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise fault(text, at, f"unexpected {text[at]!r}") from None
    except UnexpectedToken as error:
        at = len(text) if error.token.type == "$END" else error.token.start_pos or 0
        raise fault(text, at, _unexpected(error, text[:at])) from None


def _unexpected(error: UnexpectedToken, before: str) -> str:
    token = error.token
    if token.type == "COMMA" and "COMMA" not in error.expected:
        return f'"," would make several values: {ONE_ROW}'
    if token.type == "RSQB" and before.rstrip().endswith("["):
        return f'"[]" would make several values: {ONE_ROW}'
    if token.type in ("DOT", "FIELD") and before.endswith("."):
        return f'".." would make several values: {ONE_ROW}'
    found = "the end" if token.type == "$END" else f'"{token}"'
    expected = sorted({MEANING.get(name, "an operator") for name in error.accepts or error.expected})
    return f"unexpected {found}, expected {' or '.join(expected)}"


def _refuse_nesting(text: str) -> None:
    depth = 0
    for match in _NESTING.finditer(text):
        mark = match.group()
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise fault(text, match.start(), f"nested deeper than {MAX_DEPTH} levels", "split it into stages")
