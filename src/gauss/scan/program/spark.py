"""An expression as a Spark column, with the answers of `python.py`."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from gauss.scan.program.ir import ARITHMETIC, EQUALITY, Binary, Call, Expr, Kind, Literal, Path, Typed, Unary

_TYPE = {Kind.BOOL: "boolean", Kind.STRING: "string", Kind.INT: "bigint", Kind.NULL: "void"}


def compile_filter(typed: Typed, column: Callable[[str], Column]) -> Column:
    """Whether the expression is true; `column` gives the column of a field by its dotted name."""
    return _Compiler(typed, column).truth(typed.program.root)


def compile_column(typed: Typed, column: Callable[[str], Column]) -> Column:
    """The value of the expression."""
    return _Compiler(typed, column).value(typed.program.root)


class _Compiler:
    def __init__(self, typed: Typed, column: Callable[[str], Column]) -> None:
        self.typed = typed
        self.column = column

    def truth(self, node: Expr) -> Column:
        kind = self.typed.kind(node)
        value = self.value(node)
        if kind is Kind.BOOL:
            return F.coalesce(value, F.lit(False))
        if kind is Kind.ANY:
            return value.isNotNull() & (value != F.lit("false"))  # ANY is the value's JSON text
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
            case Unary():
                return self._finite(F.lit(0.0) - self._double(node.operand))
            case Binary(op="and"):
                return self.truth(node.left) & self.truth(node.right)
            case Binary(op="or"):
                return self.truth(node.left) | self.truth(node.right)
            case Binary(op=op) if op in ARITHMETIC:
                if self.typed.kind(node) is Kind.STRING:
                    return F.concat(self.value(node.left), self.value(node.right))
                return self._arithmetic(op, self._double(node.left), self._double(node.right))
            case Binary():
                return self._compare(node)
            case Call():
                return self._call(node)
        raise AssertionError(node)

    def _path(self, node: Path) -> Column:
        column = self.column(node.name)
        if self.typed.kinds[node.name] is not Kind.NUMBER:
            return column
        number = column.cast("double")
        return F.when(~F.isnan(number), number)  # Spark holds NaN for a number, larger than any

    def _double(self, node: Expr) -> Column:
        return self.value(node).cast("double")

    def _finite(self, value: Column) -> Column:
        return F.when(F.abs(value) < F.lit(float("inf")), value)

    def _arithmetic(self, op: str, left: Column, right: Column) -> Column:
        match op:
            case "+":
                result = left + right
            case "-":
                result = left - right
            case "*":
                result = left * right
            case "/":
                return F.when((right != 0) & (F.abs(left) < F.lit(float("inf"))), self._finite(left / right))
            case _:
                return F.when((right != 0) & (F.abs(left) < F.lit(float("inf"))), self._finite(left % right))
        return self._finite(result)

    def _compare(self, node: Binary) -> Column:
        left_kind, right_kind = self.typed.kind(node.left), self.typed.kind(node.right)
        left, right = self.value(node.left), self.value(node.right)
        if node.op in EQUALITY:
            if Kind.NULL in (left_kind, right_kind):
                other = right if left_kind is Kind.NULL else left
                same = F.lit(True) if left_kind is right_kind else other.isNull()
            else:
                same = self._alike(left, left_kind, right_kind).eqNullSafe(self._alike(right, right_kind, left_kind))
            return same if node.op == "==" else ~same
        left, right = self._alike(left, left_kind, right_kind), self._alike(right, right_kind, left_kind)
        match node.op:
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case _:
                return left >= right

    def _alike(self, value: Column, kind: Kind, other: Kind) -> Column:
        return value.cast("double") if Kind.NUMBER in (kind, other) else value

    def _call(self, node: Call) -> Column:
        subject = self.value(node.subject)
        if node.name == "length":
            return F.coalesce(F.length(subject), F.lit(0)).cast("double")
        argument = self.value(node.arguments[0])
        return {"startswith": F.startswith, "endswith": F.endswith, "contains": F.contains}[node.name](
            subject, argument
        )
