"""Evaluates programs and expressions over Arrow columns, a batch at a time.

keep = compile_filter(check(parse(".price.bid > 100")))     # RecordBatch → BooleanArray without nulls

The batch has decoded fields: flat columns named by dotted path such as `price.bid`, one for each of `typed.kinds`
(others are ignored). A column whose type does not match its kind counts as null. An ANY field is a column of JSON text
or of booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.expression import (
    ARITHMETIC,
    CASES,
    EQUALITY,
    ROUNDINGS,
    TRIMS,
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
    expressions,
    kind_of,
    walk,
)
from gauss.scan.program.columns import (
    WIDE,
    Vector,
    any_nulls,
    as_double,
    as_kind,
    constant,
    filled,
    finite,
    gathered,
    is_text,
    matches,
    parsed,
    remainder,
    rounded,
    trimmed,
    true_places,
)

Indexes = np.ndarray[Any, np.dtype[np.int64]]

_ARITHMETIC = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_COMPARE = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_CASE = {"ascii_downcase": pc.ascii_lower, "ascii_upcase": pc.ascii_upper}


def compile_filter(typed: Typed) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Compiles an expression to a function that returns a mask: True where the expression is true."""
    return lambda batch: filled(_over(batch, typed.kinds).truth(typed.program.root), batch.num_rows)


def compile_stages(
    stages: Sequence[Stage], scopes: Sequence[Kinds], fields: Kinds
) -> Callable[[pa.RecordBatch], tuple[pa.RecordBatch, Indexes | None]]:
    """Compiles stages to a function that returns the results and the indexes of the kept rows (`None`: all).

    If no stage makes rows, the result is the kept rows of the batch.
    """
    wanted = _wanted(stages)

    def run(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Indexes | None]:
        columns = {name: batch.column(name) for name in fields}
        clean: set[str] = set()
        rows, kept, made = batch.num_rows, None, False
        for stage, kinds, later in zip(stages, scopes, wanted, strict=True):
            over = Evaluation(kinds, columns, clean)
            match stage:
                case Select():
                    mask = filled(over.truth(stage.condition), rows)
                    if mask.true_count == rows:
                        continue
                    places = true_places(mask)
                    index = pa.array(places)
                    columns = {name: gathered(column, index) for name, column in columns.items() if name in later}
                    rows, kept = len(places), places if kept is None else kept[places]
                case Make():
                    columns = {name: filled(over.value(expr), rows) for name, expr in stage.columns}
                    clean, made = set(columns), True
                case Value():
                    columns = {"": filled(over.value(stage.expr), rows)}
                    clean, made = set(columns), True
        if not made:
            return (batch if kept is None else batch.take(pa.array(kept))), kept
        return pa.RecordBatch.from_arrays(list(columns.values()), [name or VALUE for name in columns]), kept

    return run


def _wanted(stages: Sequence[Stage]) -> list[set[str]]:
    """For each stage, the columns that later stages read. Only these are kept by a selection."""
    result: list[set[str]] = []
    made = [stage for stage in stages if isinstance(stage, Make | Value)]
    later: set[str] = set()
    if made:
        later = {name for name, _ in made[-1].columns} if isinstance(made[-1], Make) else {""}
    for stage in reversed(stages):
        result.append(set(later))
        if not isinstance(stage, Select):
            later = set()
        later |= {node.name for root in expressions(stage) for node in walk(root) if isinstance(node, Path)}
    return result[::-1]


def _over(batch: pa.RecordBatch, kinds: Kinds) -> Evaluation:
    return Evaluation(kinds, {name: batch.column(name) for name in kinds}, set())


class Evaluation:
    """Evaluates expression nodes over the columns of one batch."""

    def __init__(self, kinds: Kinds, columns: dict[str, pa.Array], clean: set[str]) -> None:
        self.kinds = kinds
        self.columns = columns
        self.clean = clean
        """Columns already converted to their kind. Conversion happens on first use, possibly after a selection."""

    def truth(self, node: Expr) -> Vector:
        """A node as booleans without nulls: null and false are false, everything else is true."""
        value = self._order(node) if self._is_order(node) else self.value(node)
        if pa.types.is_boolean(value.type):
            return pc.fill_null(value, False) if any_nulls(value) else value
        valid = pc.is_valid(value)
        if kind_of(node, self.kinds) is Kind.ANY and is_text(value.type):
            return pc.and_(valid, pc.fill_null(pc.not_equal(value, "false"), False))
        return valid

    def value(self, node: Expr) -> Vector:
        match node:
            case Literal():
                return constant(node)
            case Path():
                return self._column(node.name)
            case Unary(op="not"):
                return pc.invert(self.truth(node.operand))
            case Binary(op="and"):
                return pc.and_(self.truth(node.left), self.truth(node.right))
            case Binary(op="or"):
                return pc.or_(self.truth(node.left), self.truth(node.right))
            case Binary(op="//"):
                return self._choice(node, node.left, node.left, node.right)
            case If():
                return self._choice(node, node.condition, node.then, node.other)
            case Binary(op="+") if kind_of(node, self.kinds) is Kind.STRING:
                return pc.binary_join_element_wise(self.value(node.left), self.value(node.right), "")
            case Unary() | Binary(op="+" | "-" | "*" | "/" | "%"):
                return finite(self._unbounded(node))
            case Binary():
                return self._compare(node)
            case Call():
                return self._call(node)

    def _column(self, name: str) -> pa.Array:
        if name not in self.clean:
            self.columns[name] = as_kind(self.columns[name], self.kinds[name])
            self.clean.add(name)
        return self.columns[name]

    def _unbounded(self, node: Expr) -> Vector:
        """Doubles before infinities and NaN become null. `+ - *` and dividends propagate them, so one check at the end
        of a chain is enough."""
        match node:
            case Unary(op="-"):
                return pc.subtract(pa.scalar(0.0), self._unbounded(node.operand))
            case Binary(op="%"):
                return remainder(self._unbounded(node.left), self._double(node.right))
            case Binary(op=op) if op in ARITHMETIC:
                right = self._double(node.right) if op == "/" else self._unbounded(node.right)
                return _ARITHMETIC[op](self._unbounded(node.left), right)
        return self._double(node)

    def _double(self, node: Expr) -> Vector:
        if isinstance(node, Literal) and type(node.value) is int:
            return constant(Literal(float(node.value), Kind.NUMBER))
        return as_double(self.value(node))

    def _is_order(self, node: Expr) -> bool:
        """Whether a node is an ordering comparison of numbers."""
        if not isinstance(node, Binary) or node.op not in _COMPARE:
            return False
        kinds = (kind_of(node.left, self.kinds), kind_of(node.right, self.kinds))
        return Kind.NUMBER in kinds and Kind.NULL not in kinds

    def _order(self, node: Expr) -> Vector:
        """An ordering comparison where null and false are equivalent. Comparisons with NaN are false, so columns need
        no conversion of NaN to null first."""
        assert isinstance(node, Binary)
        return _COMPARE[node.op](self._uncleaned(node.left), self._uncleaned(node.right))

    def _uncleaned(self, node: Expr) -> Vector:
        if isinstance(node, Path) and self.kinds[node.name] is Kind.NUMBER:
            column = self.columns[node.name]
            if column.type == pa.float64():
                return column
        return self._double(node)

    def _choice(self, node: Expr, condition: Expr, then: Expr, other: Expr) -> Vector:
        a, b = self.value(then), self.value(other)
        if kind_of(node, self.kinds) is Kind.NUMBER:
            a, b = as_double(a), as_double(b)
        a, b = _alike(a, b)
        return pc.if_else(self.truth(condition), a, b)

    def _compare(self, node: Binary) -> Vector:
        kinds = (kind_of(node.left, self.kinds), kind_of(node.right, self.kinds))
        value = self._double if Kind.NUMBER in kinds and Kind.NULL not in kinds else self.value
        left, right = value(node.left), value(node.right)
        if Kind.NULL in kinds:
            other = right if kinds[0] is Kind.NULL else left
            return pc.is_null(other) if node.op == "==" else pc.is_valid(other)
        left, right = _alike(left, right)
        if node.op not in EQUALITY:
            return _COMPARE[node.op](left, right)
        same = pc.equal(left, right)
        if any_nulls(left) or any_nulls(right):
            same = pc.or_(pc.fill_null(same, False), pc.and_(pc.is_null(left), pc.is_null(right)))
        return same if node.op == "==" else pc.invert(same)

    def _call(self, node: Call) -> Vector:
        name, subject = node.name, self.value(node.subject)
        if name == "length":
            return pc.fill_null(pc.cast(pc.utf8_length(subject), pa.float64()), 0.0)
        if name == "tostring":
            return pc.fill_null(pc.cast(subject, pa.string()), "null")
        if name == "tonumber":
            return parsed(subject)
        if name in CASES:
            return _CASE[name](subject)
        if name in ROUNDINGS:
            return rounded(name, as_double(subject))
        argument = self.value(node.arguments[0])
        if name in TRIMS:
            return trimmed(name, subject, argument.as_py())
        return matches(name, subject, argument)


def _alike(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Casts two values of the same kind to one type: nulls to the other's type, integers to the wider one."""
    if a.type == b.type:
        return a, b
    if pa.types.is_null(a.type) or pa.types.is_null(b.type):
        wanted = b.type if pa.types.is_null(a.type) else a.type
    else:
        wanted = WIDE
    return pc.cast(a, wanted), pc.cast(b, wanted)


def pattern_error(pattern: str) -> str:
    """The error message of an invalid pattern. Empty if it is valid."""
    try:
        pc.match_substring_regex(pa.scalar(""), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return ""
