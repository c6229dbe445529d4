"""An expression over Arrow columns, with the answers of `python.py` for every row.

keep = compile_filter(check(parse(".price.bid > 100")))     # RecordBatch → BooleanArray without nulls
mid = compile_column(check(parse("(.bid + .ask) / 2")))     # RecordBatch → Array, null where the value is null

Both take a batch of decoded fields: flat columns named by dotted path such as `price.bid`, one for each of
`typed.kinds` (others are ignored). A column of another type than its kind counts as null, as in a row. An ANY field
is a column of JSON text, or of booleans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.scan.program.ir import ARITHMETIC, EQUALITY, Binary, Call, Expr, Kind, Literal, Path, Typed, Unary

Vector = Any
"""An array, or a scalar that stands for every row."""

TYPES = {Kind.BOOL: pa.bool_(), Kind.INT: pa.int64(), Kind.NUMBER: pa.float64(), Kind.STRING: pa.string()}
WIDE = pa.decimal128(20, 0)
"""Whole numbers beyond 64 bits with a sign."""

_ARITHMETIC = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_COMPARE = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_TESTS = {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}
_ROW_TESTS = {"startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}


def compile_filter(typed: Typed) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """Whether the expression is true, for every row of a batch of fields."""
    return lambda batch: _filled(Evaluation(typed, batch).truth(typed.program.root), batch.num_rows)


def compile_column(typed: Typed) -> Callable[[pa.RecordBatch], pa.Array]:
    """The value of the expression for every row of a batch of fields."""
    return lambda batch: _filled(Evaluation(typed, batch).value(typed.program.root), batch.num_rows)


class Evaluation:
    """The nodes of an expression over one batch."""

    def __init__(self, typed: Typed, batch: pa.RecordBatch) -> None:
        self.typed = typed
        self.batch = batch
        self.columns: dict[str, pa.Array] = {}

    def truth(self, node: Expr) -> Vector:
        """Booleans without nulls: null and false are not true, everything else is."""
        value = self.value(node)
        if pa.types.is_boolean(value.type):
            return pc.fill_null(value, False)
        valid = pc.is_valid(value)
        if self.typed.kind(node) is Kind.ANY and _is_text(value.type):
            return pc.and_(valid, pc.fill_null(pc.not_equal(value, "false"), False))
        return valid

    def value(self, node: Expr) -> Vector:
        match node:
            case Literal(value=value, kind=kind):
                return pa.scalar(value, TYPES.get(kind))
            case Path():
                return self._path(node)
            case Unary(op="not"):
                return pc.invert(self.truth(node.operand))
            case Binary(op="and"):
                return pc.and_(self.truth(node.left), self.truth(node.right))
            case Binary(op="or"):
                return pc.or_(self.truth(node.left), self.truth(node.right))
            case Binary(op="+") if self.typed.kind(node) is Kind.STRING:
                return pc.binary_join_element_wise(self.value(node.left), self.value(node.right), "")
            case Unary() | Binary(op="+" | "-" | "*" | "/" | "%"):
                return _finite(self._unbounded(node))
            case Binary():
                return self._compare(node)
            case Call():
                return self._call(node)
        raise AssertionError(node)

    def _path(self, node: Path) -> pa.Array:
        name = node.name
        if name not in self.columns:
            self.columns[name] = as_kind(self.batch.column(name), self.typed.kinds[name])
        return self.columns[name]

    def _unbounded(self, node: Expr) -> Vector:
        """Doubles in which infinities and NaN of arithmetic are not yet null: + - * and a dividend carry them on, so
        one look at the end of a chain is enough."""
        match node:
            case Unary(op="-"):
                return pc.subtract(pa.scalar(0.0), self._unbounded(node.operand))
            case Binary(op="%"):
                return _remainder(self._unbounded(node.left), self._double(node.right))
            case Binary(op=op) if op in ARITHMETIC:
                right = self._double(node.right) if op == "/" else self._unbounded(node.right)
                return _ARITHMETIC[op](self._unbounded(node.left), right)
        return self._double(node)

    def _double(self, node: Expr) -> Vector:
        return as_double(self.value(node))

    def _compare(self, node: Binary) -> Vector:
        left, right = self.value(node.left), self.value(node.right)
        kinds = (self.typed.kind(node.left), self.typed.kind(node.right))
        if Kind.NULL in kinds:
            other = right if kinds[0] is Kind.NULL else left
            return pc.is_null(other) if node.op == "==" else pc.is_valid(other)
        if Kind.NUMBER in kinds:
            left, right = as_double(left), as_double(right)
        elif left.type != right.type and pa.types.is_decimal(left.type) | pa.types.is_decimal(right.type):
            left, right = pc.cast(left, WIDE), pc.cast(right, WIDE)
        if node.op not in EQUALITY:
            return _COMPARE[node.op](left, right)
        same = pc.equal(left, right)
        if _nulls(left) or _nulls(right):
            same = pc.or_(pc.fill_null(same, False), pc.and_(pc.is_null(left), pc.is_null(right)))
        return same if node.op == "==" else pc.invert(same)

    def _call(self, node: Call) -> Vector:
        subject = self.value(node.subject)
        if node.name == "length":
            return pc.fill_null(pc.cast(pc.utf8_length(subject), pa.float64()), 0.0)
        argument = self.value(node.arguments[0])
        if not isinstance(argument, pa.Scalar):
            return self._test_by_row(node.name, subject, argument)
        if argument.as_py() is None:
            return pa.scalar(None, pa.bool_())
        return _TESTS[node.name](subject, argument.as_py())

    def _test_by_row(self, name: str, subject: Vector, part: pa.Array) -> pa.Array:
        """Arrow's kernels take one pattern for all rows."""
        rows = zip(_filled(subject, len(part)).to_pylist(), part.to_pylist(), strict=True)
        test = _ROW_TESTS[name]
        return pa.array([None if a is None or b is None else test(a, b) for a, b in rows], pa.bool_())


def as_kind(column: pa.Array, kind: Kind) -> pa.Array:
    """A column in the one type that stands for its kind; null throughout when it is of another."""
    held = column.type
    if isinstance(column, pa.DictionaryArray):
        column, held = column.dictionary_decode(), held.value_type
    match kind:
        case Kind.NUMBER if pa.types.is_integer(held) or pa.types.is_floating(held) or pa.types.is_decimal(held):
            return _without_nan(as_double(column))
        case Kind.INT if pa.types.is_uint64(held) or (pa.types.is_decimal(held) and held.scale == 0):
            return pc.cast(column, WIDE)
        case Kind.INT if pa.types.is_integer(held):
            return column if held == pa.int64() else pc.cast(column, pa.int64())
        case Kind.STRING if _is_text(held):
            return column if held == pa.string() else pc.cast(column, pa.string())
        case Kind.BOOL if pa.types.is_boolean(held):
            return column
        case Kind.ANY | Kind.OPAQUE | Kind.NULL:
            return column
    return pa.nulls(len(column), TYPES[kind])


def as_double(value: Vector) -> Vector:
    """Numbers as doubles, rounded to the nearest."""
    if value.type == pa.float64():
        return value
    if pa.types.is_decimal(value.type):  # Arrow's own cast is off by a digit for some
        value = pc.cast(value, pa.string())
    return pc.cast(value, pa.float64(), safe=False)


def _finite(value: Vector) -> Vector:
    if isinstance(value, pa.Array) and bool(np.isfinite(_doubles(value)).all()):
        return value
    return pc.if_else(pc.is_finite(value), value, pa.scalar(None, pa.float64()))


def _without_nan(column: pa.Array) -> pa.Array:
    if not np.isnan(_doubles(column)).any():
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)


def _remainder(left: Vector, right: Vector) -> Vector:
    """fmod, which Arrow has not: the sign is the dividend's."""
    rows = max(len(side) for side in (left, right) if isinstance(side, pa.Array)) if _any_array(left, right) else 1
    with np.errstate(invalid="ignore"):
        found = np.fmod(_doubles(_filled(left, rows)), _doubles(_filled(right, rows)))
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    result = pc.if_else(valid, pa.array(found), pa.scalar(None, pa.float64()))
    return result if _any_array(left, right) else result[0]


def _doubles(column: pa.Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The values as they lie in memory; a null's is arbitrary."""
    values = column.buffers()[1]
    if values is None:
        return np.zeros(len(column))
    return np.frombuffer(values, np.float64, len(column), column.offset * 8)


def _filled(value: Vector, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _any_array(*values: Vector) -> bool:
    return any(isinstance(value, pa.Array) for value in values)


def _nulls(value: Vector) -> bool:
    return bool(value.as_py() is None if isinstance(value, pa.Scalar) else value.null_count)


def _is_text(held: pa.DataType) -> bool:
    return pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_string_view(held)
