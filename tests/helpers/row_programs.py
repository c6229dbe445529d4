"""The reference interpreter of programs, row by row, with which tests compare the Arrow implementation.

The rules: a missing field is null; `==` and `!=` treat null as a value; ordering, arithmetic and string functions with
null give null; x / 0, x % 0 and a result beyond a double give null; null and false are not true, everything else is;
`length` of null is 0 and `tostring` of null is "null".
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gauss.contracts.expression import (
    ARITHMETIC,
    CASES,
    EQUALITY,
    ORDERING,
    ROUNDINGS,
    VALUE,
    Binary,
    Call,
    Expr,
    If,
    Kind,
    Kinds,
    Literal,
    Make,
    Path,
    Select,
    Stage,
    Typed,
    Unary,
    Value,
    kind_of,
)
from gauss.scan.program.bound import Bound
from gauss.scan.program.fuel import BYTES_PER_UNIT, MAX_COST, Limit, Meter

Row = Mapping[str, Any]
Fn = Callable[[Row], Any]

_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OF_TEXTS: dict[str, Callable[[str, str], Any]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
    "ltrimstr": str.removeprefix,
    "rtrimstr": str.removesuffix,
}
_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
_CASE = {"ascii_downcase": str.maketrans(_UPPER, _LOWER), "ascii_upcase": str.maketrans(_LOWER, _UPPER)}
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WIDEST = 10**38


def run_row(bound: Bound, row: Row) -> Row | None:
    """The row that a program makes of decoded fields, keyed by dotted path. `None`: dropped."""
    return compile_stages(bound.program.stages, bound.checked.scopes)(row)


def row_cost(bound: Bound, row: Row, data_bytes: int = 0) -> int:
    """The fuel of a row. `data_bytes`: size of the encoded record."""
    total = bound.cost.base + data_bytes // BYTES_PER_UNIT
    for name, weight in bound.cost.weights.items():
        total += weight * _text_bytes(row.get(name), bound.cost.kinds[name])
    return min(total, MAX_COST)


def _text_bytes(value: Any, kind: Kind) -> int:
    if isinstance(value, str):
        return len(value.encode())
    return len(value) if isinstance(value, bytes) and kind is not Kind.STRING else 0


def admit_one(meter: Meter, cost: int) -> Limit | None:
    """Charges fuel for one candidate; returns the exceeded limit, if any."""
    if meter.spent + cost > meter.max_scan:
        return Limit.SCAN
    if cost > meter.max_item:
        return Limit.ITEM
    meter.spent += cost
    return None


def compile_row(typed: Typed) -> Fn:
    """A function that evaluates the expression for a record; a field of an unexpected kind counts as null."""
    return _Compiler(typed.kinds).value(typed.program.root)


def compile_filter(typed: Typed) -> Callable[[Row], bool]:
    """A function that returns whether the expression is true for a record."""
    return _Compiler(typed.kinds).truth(typed.program.root)


def compile_stages(stages: Sequence[Stage], scopes: Sequence[Kinds]) -> Callable[[Row], Row | None]:
    """A function that runs a program's stages over one row."""
    steps = [_stage(stage, _Compiler(kinds, json_text=True)) for stage, kinds in zip(stages, scopes, strict=True)]

    def run(row: Row) -> Row | None:
        for step in steps:
            made = step(row)
            if made is None:
                return None
            row = made
        return {VALUE: row[""]} if "" in row else row

    return run


def _stage(stage: Stage, compiler: _Compiler) -> Callable[[Row], Row | None]:
    match stage:
        case Select():
            keep = compiler.truth(stage.condition)
            return lambda row: row if keep(row) else None
        case Make():
            columns = [(name, compiler.value(expr)) for name, expr in stage.columns]
            return lambda row: {name: fn(row) for name, fn in columns}
        case Value():
            value = compiler.value(stage.expr)
            return lambda row: {"": value(row)}


class _Compiler:
    def __init__(self, kinds: Kinds, *, json_text: bool = False) -> None:
        self.kinds = kinds
        self.json_text = json_text
        """Whether a field of kind ANY is JSON text, as in batches, or the value itself."""

    def truth(self, node: Expr) -> Callable[[Row], bool]:
        fn = self.value(node)
        if self.json_text and kind_of(node, self.kinds) is Kind.ANY:
            return lambda row: fn(row) not in (None, False, "false")

        def truth(row: Row) -> bool:
            value = fn(row)
            return value is not None and value is not False

        return truth

    def value(self, node: Expr) -> Fn:
        match node:
            case Literal(value=value, kind=kind):
                constant = float(value) if kind is Kind.NUMBER else value  # type: ignore[arg-type]
                return lambda _: constant
            case Path():
                return _path(node, self.kinds[node.name])
            case Unary(op="not"):
                inner = self.truth(node.operand)
                return lambda row: not inner(row)
            case Unary():
                return _arithmetic("-", lambda _: 0.0, self.value(node.operand))
            case Binary(op="and"):
                left, right = self.truth(node.left), self.truth(node.right)
                return lambda row: left(row) and right(row)
            case Binary(op="or"):
                left, right = self.truth(node.left), self.truth(node.right)
                return lambda row: left(row) or right(row)
            case Binary(op="//"):
                return self._choice(node, node.left, node.left, node.right)
            case If():
                return self._choice(node, node.condition, node.then, node.other)
            case Binary(op=op) if op in ARITHMETIC:
                a, b = self.value(node.left), self.value(node.right)
                return _of_both(operator.add, a, b) if self._is(node, Kind.STRING) else _arithmetic(op, a, b)
            case Binary(op=op):
                return self._compare(op, node)
            case Call():
                return self._call(node)

    def _is(self, node: Expr, kind: Kind) -> bool:
        return kind_of(node, self.kinds) is kind

    def _choice(self, node: Expr, condition: Expr, then: Expr, other: Expr) -> Fn:
        test, a, b = self.truth(condition), self.value(then), self.value(other)
        if not self._is(node, Kind.NUMBER):
            return lambda row: a(row) if test(row) else b(row)

        def number(row: Row) -> float | None:
            value = a(row) if test(row) else b(row)
            return None if value is None else float(value)

        return number

    def _compare(self, op: str, node: Binary) -> Fn:
        a, b = self.value(node.left), self.value(node.right)
        # Spark compares an integer with a double as doubles; Python would compare them exactly.
        if {kind_of(node.left, self.kinds), kind_of(node.right, self.kinds)} == {Kind.INT, Kind.NUMBER}:
            a, b = _as_double(a), _as_double(b)
        if op in EQUALITY:
            wanted = op == "=="
            return lambda row: (a(row) == b(row)) is wanted
        assert op in ORDERING
        return _of_both(_ORDER[op], a, b)

    def _call(self, node: Call) -> Fn:
        name, subject = node.name, self.value(node.subject)
        if name == "length":
            return lambda row: 0.0 if (value := subject(row)) is None else float(len(value))
        if name == "tostring":
            return lambda row: _shown(subject(row))
        if name == "tonumber":
            return lambda row: _parsed(subject(row))
        if name in CASES:
            table = _CASE[name]
            return lambda row: None if (value := subject(row)) is None else value.translate(table)
        if name in ROUNDINGS:
            return lambda row: _rounded(name, subject(row))
        argument = self.value(node.arguments[0])
        return _of_both(_matches if name == "test" else _OF_TEXTS[name], subject, argument)


def _path(node: Path, kind: Kind) -> Fn:
    name, parts, coerce = node.name, node.parts, _COERCE[kind]

    def path(row: Row) -> Any:
        if name in row:
            return coerce(row[name])
        value: Any = row
        for part in parts:
            if not isinstance(value, Mapping):
                return None
            value = value.get(part)
        return coerce(value)

    return path


def _number(value: Any) -> float | None:
    if isinstance(value, bool | str | bytes | list | dict) or value is None:
        return None
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def _whole(value: Any) -> int | None:
    if isinstance(value, Decimal):  # an unsigned 64-bit integer
        value = int(value) if value.is_finite() and value == value.to_integral_value() else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -_WIDEST < value < _WIDEST else None


_COERCE: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: _number,
    Kind.INT: _whole,
    Kind.STRING: lambda value: value if isinstance(value, str) else None,
    Kind.BOOL: lambda value: value if isinstance(value, bool) else None,
    Kind.ANY: lambda value: value,
    Kind.OPAQUE: lambda value: value,
    Kind.NULL: lambda _: None,
}


def _of_both(function: Callable[[Any, Any], Any], a: Fn, b: Fn) -> Fn:
    def of_both(row: Row) -> Any:
        left, right = a(row), b(row)
        return None if left is None or right is None else function(left, right)

    return of_both


def _as_double(fn: Fn) -> Fn:
    return lambda row: None if (value := fn(row)) is None else float(value)


def _arithmetic(op: str, a: Fn, b: Fn) -> Fn:
    def arithmetic(row: Row) -> float | None:
        left, right = a(row), b(row)
        if left is None or right is None:
            return None
        left, right = float(left), float(right)
        if op in "/%" and (right == 0 or math.isinf(left)):
            return None
        match op:
            case "+":
                result = left + right
            case "-":
                result = left - right
            case "*":
                result = left * right
            case "/":
                result = left / right
            case _:
                result = math.fmod(left, right)
        return result if math.isfinite(result) else None

    return arithmetic


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _parsed(value: str | None) -> float | None:
    if value is None or _JSON_NUMBER.fullmatch(value) is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _rounded(name: str, value: float | None) -> float | None:
    """Rounds, without a negative zero, which not every backend preserves."""
    if value is None or math.isinf(value):
        return None
    match name:
        case "floor":
            return float(math.floor(value))
        case "ceil":
            return float(math.ceil(value))
        case "abs":
            return abs(float(value))
    low = math.floor(abs(value))
    near = float(low + 1 if abs(value) - low >= 0.5 else low)  # half away from zero
    return -near if value < 0 and near else near


def _matches(value: str, pattern: str) -> bool:
    # The regex engine of the column implementation, whose time is linear in the length of the value.
    import pyarrow as pa
    import pyarrow.compute as pc

    return bool(pc.match_substring_regex(pa.scalar(value), pattern).as_py())
