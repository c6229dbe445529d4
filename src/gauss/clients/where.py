"""Conditions of the scan language as SQL: never stricter than the condition, which is applied to what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gauss.contracts.expression import Binary, Call, Expr, Kind, Literal, Path

_ORDER = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TESTS = frozenset({"startswith", "endswith", "contains"})
REPLACEMENT = "\ufffd"
"""What stands in a text for bytes that are none: a literal that has it is not compared by the table."""


class Dialect(Protocol):
    """How one kind of table says it."""

    def identifier(self, name: str) -> str: ...

    def value(self, value: bool | int | float | str) -> str:
        """A value, as a parameter or safely quoted."""
        ...

    def ordered(self, column: str) -> str:
        """A text column, compared by its bytes."""
        ...

    def test(self, name: str, column: str, argument: str) -> str:
        """`startswith`, `endswith` or `contains`."""
        ...


@dataclass(frozen=True)
class SqlCondition:
    """What a table's SQL can say of its columns. Left out: what it would decide otherwise, such as decimals, which the
    language compares as doubles."""

    dialect: Dialect
    kinds: Mapping[str, Kind]
    """Of the columns that can be compared: INT, NUMBER (of floats only), STRING, BOOL."""

    def sql(self, condition: Expr) -> str | None:
        """A condition that is true wherever the given one is; None: the table can't help."""
        match condition:
            case Binary(op="and", left=left, right=right):
                sides = [side for side in (self.sql(left), self.sql(right)) if side is not None]
                return f"({' AND '.join(sides)})" if sides else None
            case Binary(op="or", left=left, right=right):
                either, other = self.sql(left), self.sql(right)
                return None if either is None or other is None else f"({either} OR {other})"
            case Binary(op=op, left=Path() as path, right=Literal() as literal):
                return self._compare(op, path, literal)
            case Binary(op=op, left=Literal() as literal, right=Path() as path):
                return self._compare(_ORDER.get(op, op), path, literal)
            case Path() if self._kind(condition) is Kind.BOOL:
                return f"{self.dialect.identifier(condition.name)} = {self.dialect.value(True)}"
            case Call(name=name, subject=Path() as path, arguments=(Literal(value=str(text)),)) if name in _TESTS:
                if self._kind(path) is not Kind.STRING or REPLACEMENT in text or not text:
                    return None
                return self.dialect.test(name, self.dialect.identifier(path.name), self.dialect.value(text))
        return None

    def _kind(self, path: Path) -> Kind | None:
        return self.kinds.get(path.parts[0]) if len(path.parts) == 1 else None

    def _compare(self, op: str, path: Path, literal: Literal) -> str | None:
        kind, value = self._kind(path), literal.value
        if kind is None:
            return None
        column = self.dialect.identifier(path.name)
        if value is None:
            # NaN counts as null in the language, not in SQL.
            if op == "==":
                return None if kind is Kind.NUMBER else f"{column} IS NULL"
            return f"{column} IS NOT NULL" if op == "!=" else None
        if not _comparable(kind, value):
            return None
        given = self.dialect.value(float(value) if kind is Kind.NUMBER else value)
        if op == "==":
            return f"{column} = {given}"
        if op == "!=":
            return f"({column} <> {given} OR {column} IS NULL)"
        if op in _ORDER and kind is not Kind.BOOL:
            return f"{self.dialect.ordered(column) if kind is Kind.STRING else column} {op} {given}"
        return None


def _comparable(kind: Kind, value: bool | int | float | str) -> bool:
    if kind is Kind.STRING:
        return isinstance(value, str) and REPLACEMENT not in value and "\0" not in value
    if kind is Kind.BOOL:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # A double against a whole number is a comparison of doubles, which rounds large numbers; a table does not.
    return isinstance(value, int) if kind is Kind.INT else True
