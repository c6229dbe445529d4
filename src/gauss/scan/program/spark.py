"""Programs and expressions as Spark columns, with the answers of `python.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gauss.scan.program.ir import (
    CASES,
    EQUALITY,
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
    Typed,
    Unary,
    Value,
    children,
    kind_of,
)

if TYPE_CHECKING:
    from gauss.scan.program.bound import Bound

Columns = Callable[[str], Column]
"""The column of a field by its dotted name."""

_TYPE = {Kind.BOOL: "boolean", Kind.STRING: "string", Kind.INT: "bigint", Kind.NULL: "void"}
_INFINITE = float("inf")
_DOUBLINGS = 3
_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
_JSON_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"
_TESTS = {"startswith": F.startswith, "endswith": F.endswith, "contains": F.contains}


def compile_filter(typed: Typed, column: Columns) -> Column:
    """Whether the expression is true."""
    return _Compiler(typed.kinds, column).truth(typed.program.root)


def compile_column(typed: Typed, column: Columns) -> Column:
    """The value of the expression."""
    return _Compiler(typed.kinds, column).value(typed.program.root)


def run(bound: Bound, frame: DataFrame, column: Columns = F.col) -> DataFrame:
    """The results of a program's stages for the rows of a frame; when no stage makes rows, the rows that are kept."""
    keep, made = compile_stages(bound, column)
    kept = frame if keep is None else frame.where(keep)
    return kept if made is None else kept.select(*(value.alias(name) for name, value in made.items()))


def compile_stages(bound: Bound, column: Columns = F.col) -> tuple[Column | None, dict[str, Column] | None]:
    """Which rows are kept (None: all), and the columns made of them (None: they stay as they are)."""
    keep: Column | None = None
    made: dict[str, Column] | None = None
    doubled: dict[str, int] = {}
    for stage, kinds in zip(bound.program.stages, bound.checked.scopes, strict=True):
        compiler = _Compiler(kinds, column, made, doubled)
        match stage:
            case Select():
                true = compiler.truth(stage.condition)
                keep = true if keep is None else keep & true
            case Make():
                doubled = {name: compiler.doublings(expr) for name, expr in stage.columns}
                made = {name: compiler.value(expr) for name, expr in stage.columns}
            case Value():
                doubled = {"": compiler.doublings(stage.expr)}
                made = {"": compiler.value(stage.expr)}
    return keep, None if made is None else {name or VALUE: value for name, value in made.items()}


class _Compiler:
    def __init__(
        self,
        kinds: Kinds,
        column: Columns,
        made: Mapping[str, Column] | None = None,
        doubled: Mapping[str, int] | None = None,
    ) -> None:
        self.kinds = kinds
        self.column = column
        self.made = made
        """What the stage before has made, if one has."""
        self.doubled = doubled or {}
        self.counted: dict[int, int] = {}

    def doublings(self, node: Expr) -> int:
        """How often one in the other an operation below names its operand twice: Spark's plan is a tree, so each
        would double it."""
        if isinstance(node, Path):
            return self.doubled.get(node.name, 0)
        if id(node) not in self.counted:
            here = isinstance(node, Unary | Binary | Call) and kind_of(node, self.kinds) is not Kind.BOOL
            self.counted[id(node)] = here + max((self.doublings(child) for child in children(node)), default=0)
        return self.counted[id(node)]

    def _let(self, node: Expr, value: Column, function: Callable[[Column], Column]) -> Column:
        """A function that names its operand more than once; a large operand is bound to a variable instead."""
        if self.doublings(node) <= _DOUBLINGS:
            return function(value)
        return F.transform(F.array(value), function).getItem(0)

    def truth(self, node: Expr) -> Column:
        kind = kind_of(node, self.kinds)
        value = self.value(node)
        if kind is Kind.BOOL:
            return F.coalesce(value, F.lit(False))
        if kind is Kind.ANY:
            return F.coalesce(value != F.lit("false"), F.lit(False))  # ANY is the value's JSON text
        return value.isNotNull()

    def value(self, node: Expr) -> Column:
        match node:
            case Literal(value=value, kind=Kind.NUMBER):
                assert value is not None
                return F.lit(float(value))
            case Literal():
                return F.lit(node.value).cast(_TYPE[node.kind])
            case Path():
                return self._path(node)
            case Unary(op="not"):
                return ~self.truth(node.operand)
            case Binary(op="and"):
                return self.truth(node.left) & self.truth(node.right)
            case Binary(op="or"):
                return self.truth(node.left) | self.truth(node.right)
            case Binary(op="//"):
                return self._alternative(node)
            case If():
                of = self._of(node)
                return F.when(self.truth(node.condition), of(node.then)).otherwise(of(node.other))
            case Binary(op="+") if kind_of(node, self.kinds) is Kind.STRING:
                return F.concat(self.value(node.left), self.value(node.right))
            case Unary() | Binary(op="+" | "-" | "*" | "/" | "%"):
                return self._let(node, self._unbounded(node), _finite)
            case Binary():
                return self._compare(node)
            case Call():
                return self._call(node)

    def _path(self, node: Path) -> Column:
        if self.made is not None:
            return self.made[node.name]
        column = self.column(node.name)
        if self.kinds[node.name] is not Kind.NUMBER:
            return column
        number = column.cast("double")
        return F.when(~F.isnan(number), number)  # Spark holds NaN for a number, larger than any

    def _unbounded(self, node: Expr) -> Column:
        """Doubles in which infinities and NaN of arithmetic are not yet null: + - * and a dividend carry them on, so
        one look at the end of a chain is enough."""
        match node:
            case Unary(op="-"):
                return F.lit(0.0) - self._unbounded(node.operand)
            case Binary(op="+"):
                return self._unbounded(node.left) + self._unbounded(node.right)
            case Binary(op="-"):
                return self._unbounded(node.left) - self._unbounded(node.right)
            case Binary(op="*"):
                return self._unbounded(node.left) * self._unbounded(node.right)
            case Binary(op="/"):
                return F.try_divide(self._unbounded(node.left), self._double(node.right))
            case Binary(op="%"):
                return F.try_mod(self._unbounded(node.left), self._double(node.right))
        return self._double(node)

    def _double(self, node: Expr) -> Column:
        return self.value(node).cast("double")

    def _of(self, node: Expr) -> Callable[[Expr], Column]:
        return self._double if kind_of(node, self.kinds) is Kind.NUMBER else self.value

    def _alternative(self, node: Binary) -> Column:
        if kind_of(node.left, self.kinds) is Kind.BOOL:
            return F.when(self.truth(node.left), F.lit(True)).otherwise(self.value(node.right))
        of = self._of(node)
        return F.coalesce(of(node.left), of(node.right))

    def _compare(self, node: Binary) -> Column:
        left_kind, right_kind = kind_of(node.left, self.kinds), kind_of(node.right, self.kinds)
        left, right = self.value(node.left), self.value(node.right)
        if node.op in EQUALITY and Kind.NULL in (left_kind, right_kind):
            other = right if left_kind is Kind.NULL else left
            same = F.lit(True) if left_kind is right_kind else other.isNull()
            return same if node.op == "==" else ~same
        if Kind.NUMBER in (left_kind, right_kind):
            left, right = left.cast("double"), right.cast("double")
        match node.op:
            case "==":
                return left.eqNullSafe(right)
            case "!=":
                return ~left.eqNullSafe(right)
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case _:
                return left >= right

    def _call(self, node: Call) -> Column:
        name, subject = node.name, self.value(node.subject)
        if name == "length":
            return F.coalesce(F.length(subject), F.lit(0)).cast("double")
        if name == "tostring":
            return F.coalesce(subject.cast("string"), F.lit("null"))
        if name == "tonumber":
            return self._let(node, F.regexp_extract(subject, _JSON_NUMBER, 0).try_cast("double"), _finite)
        if name in CASES:
            return F.translate(subject, *((_UPPER, _LOWER) if name == "ascii_downcase" else (_LOWER, _UPPER)))
        if name in ROUNDINGS:
            return self._let(node, subject.cast("double"), functools.partial(_rounded, name))
        if name in _TESTS:
            return _TESTS[name](subject, self.value(node.arguments[0]))
        argument = node.arguments[0]
        assert isinstance(argument, Literal) and isinstance(argument.value, str)
        if name == "test":
            return _matches(subject, argument.value)
        return self._let(node, subject, functools.partial(_trimmed, name, argument.value))


def _finite(value: Column) -> Column:
    return F.when(F.abs(value) < F.lit(_INFINITE), value)


def _rounded(name: str, value: Column) -> Column:
    if name == "abs":
        return _finite(F.abs(value))
    if name == "round":
        return _finite(F.round(value, 0))
    whole = (F.floor(value) if name == "floor" else F.ceil(value)).cast("double")
    # Spark rounds to 64-bit numbers; a double beyond 2^53 has no fraction anyway.
    return _finite(F.when(F.abs(value) < F.lit(2.0**53), whole).otherwise(value))


def _trimmed(name: str, part: str, value: Column) -> Column:
    if not part:
        return value
    if name == "ltrimstr":
        return F.when(value.startswith(part), F.substring(value, len(part) + 1, 2**31 - 1)).otherwise(value)
    rest = F.substring(value, F.lit(1), F.length(value) - len(part))
    return F.when(value.endswith(part), rest).otherwise(value)


def _matches(value: Column, pattern: str) -> Column:
    """RE2 in the tasks' Python: the JVM's own patterns mean other things, and may take exponential time."""

    def matches(texts: pa.Array) -> pa.Array:
        return pc.match_substring_regex(texts, pattern)

    return cast(Column, F.arrow_udf(matches, "boolean")(value))  # type: ignore[attr-defined]
