"""An expression as a Python function of one decoded record.

What every backend does alike: a missing field is null; `==` and `!=` treat null as a value; ordering, arithmetic
and string tests with null give null; x / 0, x % 0 and a result beyond a double give null; null and false are not
true, everything else is; `length` of null is 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from gauss.scan.program.ir import ARITHMETIC, EQUALITY, ORDERING, Binary, Call, Expr, Kind, Literal, Path, Typed, Unary

Row = Mapping[str, Any]
Fn = Callable[[Row], Any]

_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_STRING = {"startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}


def compile_row(typed: Typed) -> Fn:
    """The value of the expression for a record; a field of another kind than the expression's use counts as null."""
    return _compile(typed, typed.program.root)


def compile_filter(typed: Typed) -> Callable[[Row], bool]:
    """Whether the expression is true for a record."""
    return _truth(_compile(typed, typed.program.root))


def _truth(fn: Fn) -> Callable[[Row], bool]:
    def truth(row: Row) -> bool:
        value = fn(row)
        return value is not None and value is not False

    return truth


def _compile(typed: Typed, node: Expr) -> Fn:
    match node:
        case Literal(value=value, kind=kind):
            constant = float(value) if kind is Kind.NUMBER else value  # type: ignore[arg-type]
            return lambda _: constant
        case Path():
            return _path(node, typed.kinds[node.name])
        case Unary(op="not"):
            inner = _truth(_compile(typed, node.operand))
            return lambda row: not inner(row)
        case Unary():
            return _arithmetic("-", lambda _: 0.0, _compile(typed, node.operand))
        case Binary(op="and"):
            left, right = _truth(_compile(typed, node.left)), _truth(_compile(typed, node.right))
            return lambda row: left(row) and right(row)
        case Binary(op="or"):
            left, right = _truth(_compile(typed, node.left)), _truth(_compile(typed, node.right))
            return lambda row: left(row) or right(row)
        case Binary(op=op) if op in ARITHMETIC:
            a, b = _compile(typed, node.left), _compile(typed, node.right)
            return _concat(a, b) if typed.kind(node) is Kind.STRING else _arithmetic(op, a, b)
        case Binary(op=op):
            return _compare(op, typed, node)
        case Call():
            return _call(typed, node)
    raise AssertionError(node)


def _path(node: Path, kind: Kind) -> Fn:
    parts, coerce = node.parts, _COERCE[kind]

    def path(row: Row) -> Any:
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
    if isinstance(value, Decimal):  # how Arrow holds an unsigned 64-bit number
        return int(value) if value.is_finite() and value == value.to_integral_value() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_COERCE: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: _number,
    Kind.INT: _whole,
    Kind.STRING: lambda value: value if isinstance(value, str) else None,
    Kind.BOOL: lambda value: value if isinstance(value, bool) else None,
    Kind.ANY: lambda value: value,
    Kind.OPAQUE: lambda value: value,
}


def _concat(a: Fn, b: Fn) -> Fn:
    def concat(row: Row) -> str | None:
        left, right = a(row), b(row)
        return None if left is None or right is None else left + right

    return concat


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


def _compare(op: str, typed: Typed, node: Binary) -> Fn:
    a, b = _compile(typed, node.left), _compile(typed, node.right)
    kinds = {typed.kind(node.left), typed.kind(node.right)}
    # Spark compares a whole number with a double as doubles; Python would compare them exactly.
    as_double = kinds == {Kind.INT, Kind.NUMBER}

    def pair(row: Row) -> tuple[Any, Any]:
        left, right = a(row), b(row)
        if as_double:
            left = None if left is None else float(left)
            right = None if right is None else float(right)
        return left, right

    if op in EQUALITY:
        wanted = op == "=="

        def equal(row: Row) -> bool:
            left, right = pair(row)
            return (left == right) is wanted

        return equal
    assert op in ORDERING
    compare = _ORDER[op]

    def order(row: Row) -> bool | None:
        left, right = pair(row)
        return None if left is None or right is None else compare(left, right)

    return order


def _call(typed: Typed, node: Call) -> Fn:
    subject = _compile(typed, node.subject)
    if node.name == "length":

        def length(row: Row) -> float:
            value = subject(row)
            return 0.0 if value is None else float(len(value))

        return length
    test, argument = _STRING[node.name], _compile(typed, node.arguments[0])

    def string_test(row: Row) -> bool | None:
        value, part = subject(row), argument(row)
        return None if value is None or part is None else test(value, part)

    return string_test
