"""Builds nodes from grammar reductions while the parser runs, without a parse tree and without recursion."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from lark import Token, Transformer, v_args

from gauss.contracts.expression import (
    FUNCTIONS,
    LITERAL_ARGUMENT,
    MAX_NAMES,
    MAX_PARTS,
    Binary,
    Call,
    Expr,
    If,
    Kind,
    Literal,
    Make,
    Path,
    Select,
    Stage,
    Unary,
    Value,
    plain_name,
)
from gauss.scan.program.grammar import GENERATORS

ONE_ROW = "each row gives one row or none"


class Misplaced(Exception):
    """A syntax error with its position in the text."""

    def __init__(self, at: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.at, self.message, self.hint = at, message, hint


@dataclass(frozen=True)
class Argument:
    label: str
    value: Any
    """An expression, or an Invocation that has not been resolved yet."""
    at: int


@dataclass(frozen=True)
class Invocation:
    """`name` or `name(a, b: c)`: a view, stage or function, depending on its position."""

    name: str
    arguments: tuple[Argument, ...]
    at: int


@v_args(inline=True)
class Build(Transformer):  # type: ignore[misc]  # lark is untyped
    def program(self, *stages: Any) -> list[Any]:
        return list(stages)

    def object(self, *columns: tuple[Token, Expr]) -> Make:
        return Make(_columns(columns), columns[0][0].start_pos or 0)

    def entry(self, name: Token, value: Any = None) -> tuple[Token, Expr]:
        text = named(_text(name) if name.type == "STRING" else str(name), name.start_pos or 0)
        column = Token("NAME", text, start_pos=name.start_pos)
        return column, Path((text,), name.start_pos or 0) if value is None else expression(value)

    def pipe(self, subject: Any, *calls: Any) -> Expr:
        piped = expression(subject)
        for call in calls:
            piped = Unary("not", piped, call.start_pos or 0) if isinstance(call, Token) else function(call, piped)
        return piped

    def negated_value(self, operator: Token) -> Expr:
        at = operator.start_pos or 0
        return Unary("not", Path((), at), at)

    def alternative(self, left: Any, operator: Token, right: Any) -> Expr:
        return Binary("//", expression(left), expression(right), operator.start_pos or 0)

    def _logic(self, *parts: Any) -> Expr:
        return _balanced([expression(part) for part in parts[::2]], parts[1::2])

    either = both = _logic

    def _chain(self, first: Any, *rest: Any) -> Expr:
        result = expression(first)
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            result = Binary(str(operator), result, expression(operand), operator.start_pos)
        return result

    comparison = sum = product = _chain

    def unary(self, operator: Token, operand: Any) -> Expr:
        inner, at = expression(operand), operator.start_pos or 0
        if operator == "-" and isinstance(inner, Literal) and inner.kind in (Kind.INT, Kind.NUMBER):
            assert isinstance(inner.value, int | float)
            return Literal(-inner.value, inner.kind, at)
        return Unary(str(operator), inner, at)

    def conditional(self, *parts: Any) -> Expr:
        words, branches = parts[::2], [expression(part) for part in parts[1::2]]
        result = branches[-1]
        for index in range(len(branches) - 3, -1, -2):
            result = If(branches[index], branches[index + 1], result, words[index].start_pos)
        return result

    def number(self, token: Token) -> Literal:
        at = token.start_pos or 0
        if len(token) < 20 and token.isdigit() and int(token) < 2**63:
            return Literal(int(token), Kind.INT, at)
        if math.isinf(float(token)):
            raise Misplaced(at, f"{token} is larger than any number")
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
        return named(_text(token), token.start_pos or 0)

    def dotted(self, _: Token, name: str) -> str:
        return name

    def path(self, first: Token, *steps: Any) -> Path:
        parts = [str(part).removeprefix(".") for part in (first, *steps) if part != "."]
        if len(parts) > MAX_PARTS:
            raise Misplaced(first.start_pos or 0, f"a path may have {MAX_PARTS} parts (got {len(parts)})")
        return Path(tuple(parts), first.start_pos or 0)

    def labelled(self, label: Token, value: Any) -> Argument:
        return Argument(str(label), value, label.start_pos or 0)

    def call(self, name: Token, *arguments: Any) -> Invocation:
        at = name.start_pos or 0
        given = (a if isinstance(a, Argument) else Argument("", a, getattr(a, "at", at)) for a in arguments)
        return Invocation(str(name), tuple(given), at)


def stage(part: Any) -> Stage:
    """Converts a part between two bars at the top level to a stage."""
    if isinstance(part, Make):
        return part
    if isinstance(part, Invocation) and part.name == "select":
        if len(part.arguments) != 1 or part.arguments[0].label:
            raise Misplaced(part.at, "select takes one condition", "select(.bid > 100)")
        return Select(expression(part.arguments[0].value), part.at)
    made = expression(part)
    return Value(made, made.at)


def expression(part: Any) -> Expr:
    """Converts a part to an expression. A bare call applies to the value of the previous stage."""
    return function(part, Path((), part.at)) if isinstance(part, Invocation) else part


def function(call: Invocation, subject: Expr) -> Expr:
    """Checks and builds `subject | name(arguments)`."""
    name = call.name
    if name == "select":
        raise Misplaced(call.at, "select is a stage and must stand between bars", "… | select(.bid > 100) | …")
    if name in GENERATORS:
        raise Misplaced(call.at, f"{name} is a generator or needs other rows: {ONE_ROW}")
    if name not in FUNCTIONS:
        raise Misplaced(call.at, f"unknown function {name} (functions: {', '.join(FUNCTIONS)})")
    if any(argument.label for argument in call.arguments):
        raise Misplaced(call.at, f"{name} takes no named arguments")
    if len(call.arguments) != FUNCTIONS[name]:
        raise Misplaced(call.at, f"{name} takes {FUNCTIONS[name]} argument(s), found {len(call.arguments)}")
    arguments = tuple(expression(argument.value) for argument in call.arguments)
    if name in LITERAL_ARGUMENT and not isinstance(arguments[0], Literal):
        raise Misplaced(call.arguments[0].at, f"{name} takes a literal, the same for all rows", f'{name}("…")')
    return Call(name, subject, arguments, call.at)


def named(name: str, at: int) -> str:
    """Checks the name of a field or column."""
    if not plain_name(name):
        raise Misplaced(at, f'a field name may not be empty or hold . $ [ ] " or ` (got {json.dumps(name)})')
    return name


def _columns(entries: tuple[tuple[Token, Expr], ...]) -> tuple[tuple[str, Expr], ...]:
    columns: dict[str, Expr] = {}
    for name, value in entries:
        if name in columns:
            raise Misplaced(name.start_pos or 0, f'duplicate column "{name}"')
        columns[str(name)] = value
    if len(columns) > MAX_NAMES:
        raise Misplaced(entries[MAX_NAMES][0].start_pos or 0, f"more than {MAX_NAMES} columns", "make fewer")
    return tuple(columns.items())


def _balanced(operands: list[Expr], operators: tuple[Token, ...]) -> Expr:
    """Builds a balanced tree of a chain of `and` or `or`, so that long chains do not nest deeply."""
    if len(operands) == 1:
        return operands[0]
    half = len(operands) // 2
    left = _balanced(operands[:half], operators[: half - 1])
    return Binary(
        str(operators[half - 1]), left, _balanced(operands[half:], operators[half:]), operators[half - 1].start_pos
    )


def _text(token: Token) -> str:
    decoded: str = json.loads(token)
    if any("\ud800" <= char <= "\udfff" for char in decoded):
        raise Misplaced(token.start_pos or 0, "a lone surrogate is not a character")
    return decoded
