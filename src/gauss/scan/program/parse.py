"""Text → expression: a subset of jq, with errors that point at the place.

.bid > 100 and .symbol == "BTC"
(.symbol | startswith("BT")) or not (.price.ask - .price.bid) / .price.bid < 0.01
"""

from __future__ import annotations

import functools
import json
import math
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args

from gauss.model.errors import ConfigError
from gauss.scan.program.ir import FUNCTIONS, Binary, Call, Expr, Kind, Literal, Path, Program, Unary

MAX_CHARS = 10_000

GRAMMAR = r"""
?start: pipe
?pipe: either ("|" call)*
?either: both (OR both)*
?both: negated (AND negated)*
?negated: NOT negated -> unary
        | comparison
?comparison: sum ((EQ | ORDER) sum)?
?sum: product ((PLUS | MINUS) product)*
?product: factor ((TIMES | OVER | MODULO) factor)*
?factor: MINUS factor -> unary
       | atom
?atom: NUMBER -> number
     | STRING -> string
     | TRUE -> true
     | FALSE -> false
     | NULL -> null
     | path
     | "(" pipe ")"
path: DOT (NAME | bracket) step*
step: DOT NAME | DOT bracket | bracket
bracket: "[" STRING "]"
call: NAME ("(" either ")")?

OR.2: /or(?![A-Za-z0-9_])/
AND.2: /and(?![A-Za-z0-9_])/
NOT.2: /not(?![A-Za-z0-9_])/
TRUE.2: /true(?![A-Za-z0-9_])/
FALSE.2: /false(?![A-Za-z0-9_])/
NULL.2: /null(?![A-Za-z0-9_])/
EQ: "==" | "!="
ORDER: "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
OVER: "/"
MODULO: "%"
DOT: "."
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
STRING: /"([^"\\\x00-\x1f]|\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/
%ignore /[ \t\r\n]+/
"""

_MEANING = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "DOT": "a field such as .bid",
    "LPAR": '"("',
    "RPAR": '")"',
    "LSQB": '"["',
    "RSQB": '"]"',
    "$END": "the end",
    "VBAR": '"|"',
}


def fault(text: str, at: int, message: str, hint: str = "") -> ConfigError:
    """An error with the line in question and a caret under the place."""
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[begin : end if end >= 0 else len(text)]
    caret = " " * (at - begin) + "^"
    return ConfigError(f"{message} (at character {at + 1})\n  {line}\n  {caret}", hint=hint)


class _Fault(Exception):
    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at, self.message = at, message


@v_args(inline=True)
class _Build(Transformer):  # type: ignore[misc]  # lark is untyped
    def _chain(self, first: Expr, *rest: Any) -> Expr:
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            first = Binary(str(operator), first, operand, operator.start_pos)
        return first

    either = both = comparison = sum = product = _chain

    def unary(self, operator: Token, operand: Expr) -> Expr:
        if operator == "-" and isinstance(operand, Literal) and operand.kind in (Kind.INT, Kind.NUMBER):
            assert isinstance(operand.value, int | float)
            return Literal(-operand.value, operand.kind, operator.start_pos or 0)
        return Unary(str(operator), operand, operator.start_pos or 0)

    def number(self, token: Token) -> Literal:
        at = token.start_pos or 0
        if token.isdigit() and int(token) < 2**63:
            return Literal(int(token), Kind.INT, at)
        if math.isinf(float(token)):
            raise _Fault(at, f"{token} is larger than any number")
        return Literal(float(token), Kind.NUMBER, at)

    def string(self, token: Token) -> Literal:
        return Literal(_text(token), Kind.STRING, token.start_pos or 0)

    def true(self, token: Token) -> Literal:
        return Literal(True, Kind.BOOL, token.start_pos or 0)

    def false(self, token: Token) -> Literal:
        return Literal(False, Kind.BOOL, token.start_pos or 0)

    def null(self, token: Token) -> Literal:
        return Literal(None, Kind.NULL, token.start_pos or 0)

    def bracket(self, token: Token) -> str:
        name = _text(token)
        if not name or any(mark in name for mark in '.$[]"`'):
            raise _Fault(token.start_pos or 0, f'a field name may not be empty or hold . $ [ ] " or ` (got {token})')
        return name

    def step(self, *parts: Any) -> str:
        return str(parts[-1])

    def path(self, dot: Token, *parts: Any) -> Path:
        return Path(tuple(str(part) for part in parts), dot.start_pos or 0)

    def call(self, name: Token, *arguments: Expr) -> tuple[Token, tuple[Expr, ...]]:
        at = name.start_pos or 0
        if name not in FUNCTIONS:
            raise _Fault(at, f"unknown function {name}: there are {', '.join(FUNCTIONS)}")
        if len(arguments) != FUNCTIONS[name]:
            raise _Fault(at, f"{name} takes {FUNCTIONS[name]} argument(s), found {len(arguments)}")
        return name, arguments

    def pipe(self, subject: Expr, *calls: tuple[Token, tuple[Expr, ...]]) -> Expr:
        for name, arguments in calls:
            subject = Call(str(name), subject, arguments, name.start_pos or 0)
        return subject


def _text(token: Token) -> str:
    decoded: str = json.loads(token)
    if any("\ud800" <= char <= "\udfff" for char in decoded):
        raise _Fault(token.start_pos or 0, "half of a surrogate pair is no character")
    return decoded


@functools.cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(text: str) -> Program:
    """The program of a text; raises ConfigError with the place of the fault."""
    if len(text) > MAX_CHARS:
        raise ConfigError(f"an expression may have {MAX_CHARS} characters (got {len(text)})")
    try:
        root = _Build().transform(_parser().parse(text))
        return Program(text, root)
    except UnexpectedCharacters as error:
        raise fault(text, error.pos_in_stream or 0, f"unexpected {text[error.pos_in_stream]!r}") from None
    except UnexpectedToken as error:
        at_end = error.token.type == "$END"
        found = "the end" if at_end else f'"{error.token}"'
        expected = sorted({_MEANING.get(name, "an operator") for name in error.accepts or error.expected})
        at = len(text) if at_end else error.token.start_pos or 0
        raise fault(text, at, f"unexpected {found}, expected {' or '.join(expected)}") from None
    except UnexpectedInput as error:
        raise fault(text, error.pos_in_stream or 0, "this can't be read as an expression") from None
    except RecursionError:
        raise ConfigError("the expression is nested too deeply") from None
    except Exception as error:  # lark wraps what a builder raises
        cause = getattr(error, "orig_exc", error)
        if isinstance(cause, _Fault):
            raise fault(text, cause.at, cause.message) from None
        if isinstance(cause, RecursionError):
            raise ConfigError("the expression is nested too deeply") from None
        raise
